"""Infer the role of a model input from the nodes that read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from superopt.ir.dimensions import as_symbol
from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import LiftedModel
from superopt.onnx_io.readers import Reader, readers_by_tensor
from superopt.optimizer.check.operands import operand_values
from superopt.optimizer.check.roles import (
    Choice,
    Fixed,
    Image,
    Integers,
    Lengths,
    Mask,
    Positions,
    Role,
    State,
    Uniform,
    role_of_type,
)
from superopt.optimizer.cost.runtime.ports import Port
from superopt.optimizer.cost.runtime.session import Array

_CARRIERS = frozenset(
    ("Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile")
) | {"Transpose", "Unsqueeze"}
"""ONNX operators that pass numbers on unchanged."""

_INDEXED_AXIS = {"Gather": 0, "GatherElements": 0, "ScatterElements": 0, "Scatter": 0, "OneHot": -1}
_COMPARISONS = frozenset(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"))
_LOGIC = frozenset(("Where", "Not", "And", "Or", "Xor"))
_RECURRENT = frozenset(("LSTM", "GRU", "RNN"))
_LENGTHS_SLOT = 4
_STATE_SLOTS = (5, 6)
_COUNTS: Mapping[tuple[str, int], Integers] = {
    ("Loop", 0): Integers(4, 12),
    ("NonMaxSuppression", 2): Integers(5, 100),
    ("TopK", 1): Integers(1, 2),
}
"""Operands that are counts."""

_FEATURE_READERS = frozenset(("MatMul", "Gemm", "Conv"))
_ROOTS = frozenset(("Log", "Sqrt", "Reciprocal"))
_BOUNDED: Mapping[str, Uniform] = {
    **dict.fromkeys(("Acos", "Asin", "Atanh"), Uniform(-0.95, 0.95)),
    "Acosh": Uniform(1.05, 3.0),
}
_KEYS = ("keys_strings", "cats_strings", "pool_strings", "keys_int64s", "cats_int64s", "pool_int64s")
"""Attributes of ``ai.onnx.ml`` operators that list known values."""

_FEW = 4096
"""Maximum elements of a constant compared with an input for its values to be used."""

_CHANNELS = (1, 3, 4)
_LEAST_SIDE = 8
_WORD = r"(^|[\W_])(%s)($|[\W_\d])"
_MASK = re.compile("mask", re.IGNORECASE)
_POSITION = re.compile("position|pos_ids", re.IGNORECASE)
_LENGTH = re.compile(_WORD % "len|lens|lengths?|seq_?lens?", re.IGNORECASE)
_RATE = re.compile(_WORD % "sr|rate|sample_?rate|sampling_?rate", re.IGNORECASE)
_STATE = re.compile(_WORD % "h|c|hidden|cell|states?|caches?", re.IGNORECASE)

_POSITIVE = Uniform(0.05, 1.0)


@dataclass
class _Evidence:
    """What the readers of one input imply about it."""

    indices: list[Integers] = field(default_factory=list["Integers"])
    floats: list[Uniform] = field(default_factory=list["Uniform"])
    compared: list[int] = field(default_factory=list[int])
    keys: list[int | str] = field(default_factory=list["int | str"])
    longest: int | str | None = None
    is_mask: bool = False
    is_state: bool = False


class Reading:
    """The nodes of a model, including those of its subgraphs, by the tensors that they read."""

    def __init__(self, lifted: LiftedModel, ports: Sequence[Port]) -> None:
        self._lifted = lifted
        self._ports = ports
        self._readers = readers_by_tensor(lifted.source)

    def role(self, port: Port) -> Role | None:
        """The role of an input; None for a type that is not generated."""
        if port.dtype is None:
            return None
        for reader in self._readers.get(port.name, ()):
            numbers = operand_values(reader, self._shape)
            if numbers:
                return Fixed(numbers)
        evidence = _Evidence()
        for reader in self._reached(port.name):
            self._hear(evidence, reader)
        kind = np.dtype(port.dtype).kind
        if evidence.keys and kind in "Oiu":
            return Choice(tuple(dict.fromkeys(evidence.keys)))
        if kind in "iub":
            return self._integers(port, evidence)
        return self._floats(port, evidence) if kind == "f" else role_of_type(port.dtype, len(port.shape))

    def _integers(self, port: Port, evidence: _Evidence) -> Role:
        assert port.dtype is not None
        rank, is_number = len(port.shape), port.is_one_number
        if evidence.indices and not (_MASK.search(port.name) and rank):
            found = evidence.indices[0]
            for other in evidence.indices[1:]:
                found = found.narrowed(other)
            return Positions(found.high) if _POSITION.search(port.name) and rank else found
        if evidence.longest is not None:
            return Lengths(evidence.longest)
        if _MASK.search(port.name) and rank:
            return Mask()
        longest = self._longest(port) if rank <= 1 and _LENGTH.search(port.name) else None
        if longest is not None:
            return Lengths(longest)
        if is_number and (evidence.compared or _RATE.search(port.name)):
            return _one_of(evidence.compared or [16_000])
        if is_number and port.dtype == "bool":
            return Choice((True, False))
        if evidence.compared and max(evidence.compared) > 1:
            highest = max(evidence.compared) + 1
            is_class = set(range(highest)).issubset(evidence.compared)
            return Integers(0 if is_class else min(0, *evidence.compared), highest)
        if (evidence.is_mask or evidence.compared) and port.dtype != "uint8":
            return Mask() if rank else Integers(0, 2)
        return role_of_type(port.dtype, rank)

    def _floats(self, port: Port, evidence: _Evidence) -> Role:
        assert port.dtype is not None
        rank = len(port.shape)
        if evidence.floats:
            low = max(bounds.low for bounds in evidence.floats)
            high = min(bounds.high for bounds in evidence.floats)
            return Uniform(low, high) if low < high else evidence.floats[0]
        if _MASK.search(port.name) and rank:
            return Mask()
        if evidence.is_state or (rank > 1 and _STATE.search(port.name)):
            return State()
        if port.is_one_number and rank <= 1:
            return Uniform(0.3, 1.0)
        return Image() if image_axes(port) else role_of_type(port.dtype, rank)

    def _longest(self, port: Port) -> int | str | None:
        """The size up to which another input may be padded: its first open axis after the batch, or axis
        1."""
        for other in self._ports:
            if other.name == port.name or len(other.shape) < 2:
                continue
            behind = other.shape[1:]
            return next((size for size in behind if isinstance(size, str)), behind[0])
        return None

    def _reached(self, name: str) -> Iterator[Reader]:
        """Readers of an input, including those behind nodes that only pass it on."""
        waiting, seen = [name], {name}
        while waiting:
            for reader in self._readers.get(waiting.pop(), ()):
                yield reader
                if reader.op_type in _CARRIERS and (reader.slot == 0 or reader.op_type == "Concat"):
                    new = [output for output in reader.outputs if output and output not in seen]
                    seen.update(new)
                    waiting.extend(new)

    def _hear(self, evidence: _Evidence, reader: Reader) -> None:
        kind, slot, inputs = reader.op_type, reader.slot, reader.inputs
        if kind in _INDEXED_AXIS and slot == (0 if kind == "OneHot" else 1):
            evidence.indices.append(self._indexed(reader))
        elif kind in ("GatherND", "ScatterND") and slot == 1:
            sizes = [size for size in self._shape(inputs[0]) if isinstance(size, int)]
            evidence.indices.append(_below(min(sizes, default=1)))
        elif kind == "EmbedLayerNormalization" and slot in (0, 1):
            evidence.indices.append(_below(self._size(inputs[2 if slot == 0 else 4], 0)))
        elif kind == "Div" and slot == 1:
            evidence.indices.append(Integers(1, 5))
        elif (kind, slot) in _COUNTS:
            evidence.indices.append(_COUNTS[kind, slot])
        elif kind in _RECURRENT and slot == _LENGTHS_SLOT:
            evidence.longest = self._size(inputs[0], 0) or 1
        elif kind in _RECURRENT and slot in _STATE_SLOTS:
            evidence.is_state = True
        elif kind in _COMPARISONS:
            content = self._constant(inputs[1 - slot])
            evidence.compared.extend([] if content is None else map(int, content.reshape(-1)))
            evidence.is_mask |= content is None
        elif kind in _LOGIC or (kind == "Cast" and self._casts_a_mask(reader)):
            evidence.is_mask |= kind != "Where" or slot == 0
        elif kind == "Sub" and slot == 1:
            content = self._constant(inputs[0])
            evidence.is_mask |= content is not None and content.size == 1 and content.reshape(()) == 1
        self._hear_of_values(evidence, reader)

    def _hear_of_values(self, evidence: _Evidence, reader: Reader) -> None:
        kind, slot = reader.op_type, reader.slot
        if kind in _ROOTS or (kind == "Div" and slot == 1) or (kind == "Pow" and slot == 0):
            exponent = self._constant(reader.inputs[1]) if kind == "Pow" else None
            if exponent is None or (exponent % 1).any():
                evidence.floats.append(_POSITIVE)
        elif kind in _BOUNDED:
            evidence.floats.append(_BOUNDED[kind])
        elif reader.domain == "ai.onnx.ml":
            for name in _KEYS:
                evidence.keys.extend(reader.texts.get(name, ()))
                evidence.keys.extend(reader.integers.get(name, ()) if name.endswith("int64s") else ())

    def _indexed(self, reader: Reader) -> Integers:
        if reader.op_type == "OneHot":
            depth = self._constant(reader.inputs[1])
            return _below(None if depth is None else int(depth.reshape(-1)[0]))
        axis = reader.integer("axis", _INDEXED_AXIS[reader.op_type])
        return _below(self._size(reader.inputs[0], axis))

    def _casts_a_mask(self, reader: Reader) -> bool:
        """Whether integers are cast to booleans or numbers as a mask, and not as features of a layer."""
        to = reader.casts_to
        if to is ElementType.BOOL:
            return True
        return (
            to is not None
            and to.is_float
            and not any(
                next_one.op_type in _FEATURE_READERS or next_one.domain == "ai.onnx.ml"
                for next_one in self._readers.get(reader.outputs[0], ())
            )
        )

    def _constant(self, name: str) -> Array | None:
        tensor = self._lifted.source.constants.get(name)
        if tensor is None or tensor.size > _FEW:
            return None
        content = np.asarray(tensor.numpy())
        return content if content.dtype.kind in "biuf" else None

    def _size(self, name: str, axis: int) -> int | str | None:
        shape = self._shape(name)
        return shape[axis] if -len(shape) <= axis < len(shape) else None

    def _shape(self, name: str) -> tuple[int | str | None, ...]:
        tensor = self._lifted.source.constants.get(name)
        if tensor is not None:
            return tensor.shape
        value = self._values.get(name)
        type_ = None if value is None else self._lifted.graph.type_of(value)
        if not isinstance(type_, TensorType):
            return ()
        return tuple(size if isinstance(size, int) else as_symbol(size) for size in type_.shape)

    @cached_property
    def _values(self) -> Mapping[str, Value]:
        return {name: value for value, name in self._lifted.names.items()}


def image_axes(port: Port) -> tuple[int, int] | None:
    """The height and width axes, if the input looks like images."""
    shape, rank = port.shape, len(port.shape)
    if port.dtype is None or np.dtype(port.dtype).kind not in "fu" or rank not in (3, 4):
        return None
    first, last = (rank - 2, rank - 1), (rank - 3, rank - 2)
    if rank == 4 and shape[1] in _CHANNELS and _are_sides(shape, first):
        return first
    if shape[-1] in _CHANNELS and _are_sides(shape, last) and (rank == 4 or port.dtype == "uint8"):
        return last
    return first if rank == 4 and all(isinstance(size, str) for size in shape[2:]) else None


def _are_sides(shape: Sequence[int | str | None], axes: tuple[int, int]) -> bool:
    return all(not isinstance(size, int) or size >= _LEAST_SIDE for size in (shape[axis] for axis in axes))


def _one_of(compared: Sequence[int]) -> Choice:
    """The numbers that an input is compared with, and one below and one above them."""
    low, high = min(compared), max(compared)
    below, above = low // 2 if low > 0 else low - 1, 2 * high if high > 0 else high + 1
    return Choice(tuple(dict.fromkeys(compared)), (below, above))


def _below(size: int | str | None) -> Integers:
    return Integers(0, size if isinstance(size, int) and size > 0 else 1)
