"""Random inputs that a model accepts: indices in range, masks of ones and zeros, lengths, open dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from zipfile import BadZipFile, is_zipfile

import numpy as np
import psutil

from optimizer.cost.runtime import Array, Port
from superopt.errors import InvalidFileError, InvalidOptionError, UnsupportedError
from superopt.ir.graph import Graph, Input, Node, NodeId, Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import LiftedModel
from superopt.onnx_io.protos import dtype_of, element_type
from superopt.ops import Opaque

Generator: TypeAlias = np.random.Generator

SCALES = ("normal", "positive", "small", "large")
"""Distributions of floating point inputs, the most natural one first."""

_CARRIERS = frozenset(
    ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Concat")
)
"""ONNX operators that pass on the numbers that they are given."""

_SLICERS = frozenset(("Expand", "Slice", "Split", "Tile"))
_GRAPH_CARRIERS = frozenset(("identity", "reshape", "transpose", "concat", "split", "broadcast"))
_INDEXED_AXIS = {"Gather": 0, "GatherElements": 0, "ScatterElements": 0, "OneHot": -1}
_MASK_READERS = frozenset(("Where", "Not", "And", "Or", "Xor", "Sub", "Equal"))
_RECURRENT = frozenset(("LSTM", "GRU", "RNN"))
_SEQUENCE_LENGTHS_SLOT = 4
_DRAWN_BYTES = 16
"""Bytes that drawing an element takes: a number of double precision, and what becomes of it."""


@dataclass(frozen=True, slots=True)
class Range:
    """Integers from ``low`` up to but without ``high``."""

    low: int
    high: int

    def narrowed(self, other: Range) -> Range:
        """What both allow; the other one's where they exclude each other."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Range(low, high) if low < high else other


@dataclass(frozen=True, slots=True)
class InputPlan:
    """How to draw inputs: the ports of the model, and what its graph says of integer ones.

    ``dims`` are sizes that the user gave for symbolic dimensions.
    """

    ports: tuple[Port, ...]
    ranges: Mapping[str, Range]
    dims: Mapping[str, int]

    def draw(self, random: Generator, sizes: Mapping[str, int], scale: str) -> dict[str, Array]:
        """One set of inputs; raises UnsupportedError for a kind of input that cannot be drawn, MemoryError
        for more than the memory holds."""
        return {port.name: self._array(port, random, sizes, scale) for port in self.ports}

    def size_choices(self) -> Iterator[dict[str, int]]:
        """Sizes of symbolic dimensions to try: first those asked for or usual, then others."""
        names = dict.fromkeys(_dimension_names(self.ports))
        if not names:
            yield {}
            return
        for leading, other in ((1, 64), (2, 48), (3, 33), (1, 16), (2, 8), (1, 4), (1, 1), (224, 224)):
            yield {name: self.dims.get(name, leading if axis == 0 else other) for name, axis in names}

    def _array(self, port: Port, random: Generator, sizes: Mapping[str, int], scale: str) -> Array:
        shape = tuple(
            size if isinstance(size, int) else sizes[_name_of(port, axis, size)]
            for axis, size in enumerate(port.shape)
        )
        if port.dtype is None:
            raise UnsupportedError(f"input {port.name}: no random value can be drawn for its type")
        elements = math.prod(shape)
        if elements * _DRAWN_BYTES > psutil.virtual_memory().available:
            raise MemoryError(f"input {port.name}: no memory for {elements:,} elements")
        if port.dtype == "object":
            return np.full(shape, "a", dtype=object)
        return np.asarray(self._numbers(port, random, shape, scale), np.dtype(port.dtype))

    def _numbers(self, port: Port, random: Generator, shape: tuple[int, ...], scale: str) -> object:
        kind = np.dtype(port.dtype).kind
        if kind == "b":
            return random.random(shape) < 0.5
        if kind in "iu":
            allowed = self.ranges.get(port.name, Range(0, 4))
            return random.integers(allowed.low, allowed.high, shape)
        if kind == "c":
            return random.standard_normal(shape) + 1j * random.standard_normal(shape)
        return _floats(random, shape, scale)


def plan_inputs(lifted: LiftedModel, ports: Sequence[Port], dims: Mapping[str, int]) -> InputPlan:
    """Learns from the graph what each integer input may be."""
    ranges: dict[str, Range] = {}
    for node_id in lifted.graph.inputs:
        node = lifted.graph.nodes[node_id]
        if isinstance(node.operator, Input):
            found = _range_of(lifted, node_id)
            if found is not None:
                ranges[node.operator.label] = found
    return InputPlan(tuple(ports), ranges, dims)


def declared_ports(lifted: LiftedModel) -> tuple[Port, ...]:
    """The inputs that a caller gives, as the model declares them: known before the runtime has opened it."""
    given = lifted.source.as_given.proto.graph
    stored = {tensor.name for tensor in given.initializer}
    ports: list[Port] = []
    for info in given.input:
        if info.name in stored:
            continue
        tensor = info.type.tensor_type
        element = element_type(tensor.elem_type)
        if not info.type.HasField("tensor_type") or element is ElementType.OTHER:
            ports.append(Port(info.name, None, ()))
            continue
        dtype = dtype_of(element)
        shape = tuple(
            size.dim_value if size.HasField("dim_value") else size.dim_param or None
            for size in tensor.shape.dim
        )
        ports.append(Port(info.name, str(dtype) if dtype.isbuiltin == 1 else None, shape))
    return tuple(ports)


def load_inputs(path: Path, ports: Sequence[Port]) -> dict[str, Array]:
    """The inputs in a numpy archive; raises InvalidFileError when they are not those of the model."""
    require_archive(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise InvalidFileError(f"{path}: expected a numpy archive (.npz) of inputs: {error}") from error
    return check_inputs(arrays, ports, str(path))


def require_archive(path: Path) -> None:
    """Raises InvalidFileError unless there is an archive at the path; its arrays are not read."""
    if not is_zipfile(path):
        why = "it is no archive, or a truncated one" if path.is_file() else "there is no such file"
        raise InvalidFileError(f"{path}: expected a numpy archive (.npz) of inputs: {why}")


def check_inputs(arrays: Mapping[str, Array], ports: Sequence[Port], where: str) -> dict[str, Array]:
    """The arrays of the model's inputs; raises InvalidFileError for a missing name, a wrong type or shape."""
    chosen: dict[str, Array] = {}
    for port in ports:
        if port.name not in arrays:
            raise InvalidFileError(
                f"{where}: input {port.name!r} is missing; it has {', '.join(arrays) or 'none'}"
            )
        array = arrays[port.name]
        if port.dtype is not None and array.dtype != np.dtype(port.dtype):
            raise InvalidFileError(f"{where}: input {port.name!r}: expected {port.dtype}, got {array.dtype}")
        fits = len(array.shape) == len(port.shape) and all(
            not isinstance(size, int) or size == own
            for size, own in zip(port.shape, array.shape, strict=True)
        )
        if not fits:
            raise InvalidFileError(
                f"{where}: input {port.name!r}: expected shape {list(port.shape)}, got {list(array.shape)}"
            )
        chosen[port.name] = array
    return chosen


def check_dims(dims: Mapping[str, int], known: Sequence[str]) -> None:
    """Raises InvalidOptionError for a size below 1 or a dimension that the model does not have."""
    for name, size in dims.items():
        if size < 1:
            raise InvalidOptionError(f"dimension {name}: expected a size of at least 1, got {size}")
        if name not in known:
            raise InvalidOptionError(
                f"the model has no dimension {name!r}; it has: {', '.join(known) or 'none'}"
            )


def _floats(random: Generator, shape: tuple[int, ...], scale: str) -> object:
    match scale:
        case "positive":
            return random.uniform(0.05, 1.0, shape)
        case "small":
            return random.standard_normal(shape) * 0.05
        case "large":
            return random.standard_normal(shape) * 20.0
        case _:
            return random.standard_normal(shape)


def _range_of(lifted: LiftedModel, start: NodeId) -> Range | None:
    """What all readers of an input allow, followed through nodes that only pass it on."""
    graph = lifted.graph
    found: Range | None = None
    waiting = [start]
    seen = {start}
    while waiting:
        source = graph.nodes[waiting.pop()]
        for user_id in graph.users(source.id):
            user = graph.nodes[user_id]
            for slot, value in enumerate(user.inputs):
                if value.node != source.id:
                    continue
                allowed = _allowed_by(lifted, graph, user, slot)
                if allowed is not None:
                    found = allowed if found is None else found.narrowed(allowed)
                if _passes_on(user, slot) and user_id not in seen:
                    seen.add(user_id)
                    waiting.append(user_id)
    return found


def _passes_on(node: Node, slot: int) -> bool:
    operator = node.operator
    if isinstance(operator, Opaque):
        return operator.op_type in _CARRIERS | _SLICERS and (slot == 0 or operator.op_type == "Concat")
    return operator.name in _GRAPH_CARRIERS


def _allowed_by(lifted: LiftedModel, graph: Graph, node: Node, slot: int) -> Range | None:
    operator = node.operator
    if not isinstance(operator, Opaque):
        return None
    kind = operator.op_type
    if kind in ("Gather", "GatherElements", "ScatterElements") and slot == 1:
        axis = _integer_attribute(lifted, operator.index, "axis", _INDEXED_AXIS[kind])
        return _below(_dimension(graph, node.inputs[0], axis))
    if kind in ("GatherND", "ScatterND") and slot == 1:
        type_ = graph.type_of(node.inputs[0])
        sizes = [s for s in type_.shape if isinstance(s, int)] if isinstance(type_, TensorType) else []
        return _below(min(sizes, default=1))
    if kind == "EmbedLayerNormalization" and slot in (0, 1):
        return _below(_dimension(graph, node.inputs[2 if slot == 0 else 4], 0))
    if kind in _RECURRENT and slot == _SEQUENCE_LENGTHS_SLOT:
        length = _dimension(graph, node.inputs[0], 0)
        return Range(1, (length or 1) + 1)
    if kind in _MASK_READERS or (kind == "Cast" and _casts_to_number(graph, node)):
        return Range(0, 2)
    return None


def _casts_to_number(graph: Graph, node: Node) -> bool:
    type_ = graph.type_of(node.value)
    return isinstance(type_, TensorType) and (type_.element.is_float or type_.element.value == "BOOL")


def _below(size: int | None) -> Range:
    return Range(0, size if size is not None and size > 0 else 1)


def _dimension(graph: Graph, value: Value, axis: int) -> int | None:
    type_ = graph.type_of(value)
    if not isinstance(type_, TensorType) or not -type_.rank <= axis < type_.rank:
        return None
    size = type_.shape[axis]
    return size if isinstance(size, int) else None


def _integer_attribute(lifted: LiftedModel, index: int, name: str, default: int) -> int:
    for attribute in lifted.source.proto.graph.node[index].attribute:
        if attribute.name == name:
            return int(attribute.i)
    return default


def _dimension_names(ports: Sequence[Port]) -> Iterator[tuple[str, int]]:
    seen: set[str] = set()
    for port in ports:
        for axis, size in enumerate(port.shape):
            name = _name_of(port, axis, size)
            if not isinstance(size, int) and name not in seen:
                seen.add(name)
                yield name, axis


def _name_of(port: Port, axis: int, size: int | str | None) -> str:
    return size if isinstance(size, str) and size else f"{port.name}.{axis}"
