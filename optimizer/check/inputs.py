"""Generate valid model inputs: the role of each input, and sizes for its open dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import psutil

from superopt.errors import UnsupportedError
from superopt.ir.dimensions import as_symbol
from superopt.ir.graph import Input
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import LiftedModel
from superopt.onnx_io.protos import ONNX_ELEMENTS, dtype_of, element_name, element_type
from superopt.onnx_io.readers import readers_by_tensor
from superopt.optimizer.check.demanded import demanded_sizes, weight_shape
from superopt.optimizer.check.guesses import OpenDimension, open_dimensions, sizes_to_try, varied
from superopt.optimizer.check.reading import Reading
from superopt.optimizer.check.roles import Choice, Role, State
from superopt.optimizer.cost.runtime.ports import Port
from superopt.optimizer.cost.runtime.session import Array

Generator: TypeAlias = np.random.Generator

SCALES = ("normal", "positive", "small", "large")
"""Distributions of floating point inputs, the most natural one first."""

_NO_TENSORS = ("sequence_type", "optional_type")

_ARRAYS = frozenset(ONNX_ELEMENTS.values()) - {ONNX_ELEMENTS[ElementType.BFLOAT16]}
"""Element types whose tensors the runtime exchanges as numpy arrays."""

_DRAWN_BYTES = 16
"""Bytes of temporary memory per generated element: a float64 and its conversion."""


_MOST_BRANCHES = 8
"""Maximum plans that differ in the values of single numbers, such as a flag or a sampling rate."""


_NAMES_SHOWN = 6
"""Dimensions that a message names."""

NOT_RUN = "the original does not run on random inputs"


def inputs_to_give(guessed: Sequence[str]) -> str:
    """What to give for a model that does not run at the sizes that were guessed."""
    wanted = f"valid sizes of {_several(guessed)} (--dim {guessed[0]}=SIZE)" if guessed else "other sizes"
    return f"give {wanted}, or --inputs"


def _several(names: Sequence[str]) -> str:
    more = [f"{len(names) - _NAMES_SHOWN} more"] if len(names) > _NAMES_SHOWN else []
    return ", ".join([*names[:_NAMES_SHOWN], *more])


def _nothing() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class InputPlan:
    """Plan for generating inputs: the model's ports with names for open dimensions, and the role of each.
    ``given`` are sizes requested by the user; ``settled`` are all sizes, if the model is known to run at
    them; ``unsupported`` says why inputs can neither be drawn nor given, empty where they can."""

    ports: tuple[Port, ...]
    roles: Mapping[str, Role]
    dimensions: tuple[OpenDimension, ...]
    given: Mapping[str, int]
    settled: Mapping[str, int] = field(default_factory=_nothing)
    unsupported: str = ""

    @property
    def refusal(self) -> str:
        """What to say of a model that ran on no inputs."""
        if self.unsupported:
            return self.unsupported
        names = [dimension.name for dimension in self.dimensions]
        given = ", ".join(f"{name}={self.given[name]}" for name in names if name in self.given)
        open_ = [name for name in names if name not in self.given]
        if not given:
            return f"{NOT_RUN}; {inputs_to_give(open_)}"
        other = f", and at any sizes of {', '.join(open_)} that were tried" if open_ else ""
        return f"{NOT_RUN} at {given}{other}; give other sizes, or --inputs"

    def draw(self, random: Generator, sizes: Mapping[str, int], scale: str) -> dict[str, Array]:
        """Draws one set of inputs; raises UnsupportedError for a type that cannot be generated, MemoryError
        if they do not fit in memory."""
        return {port.name: self._array(port, random, sizes, scale) for port in self.ports}

    def branches(self) -> list[InputPlan]:
        """Plans that each give one value to every single number that is one of a few, the usual ones first.
        The model may refuse some of them."""
        choices = {
            port.name: role.alternatives()
            for port in self.ports
            if port.is_one_number and isinstance(role := self.roles.get(port.name), Choice)
        }
        drawn = itertools.islice(itertools.product(*choices.values()), _MOST_BRANCHES)
        return [
            replace(self, roles={**self.roles, **dict(zip(choices, roles, strict=True))}) for roles in drawn
        ]

    def size_choices(self) -> Iterator[dict[str, int]]:
        """Yield sizes of open dimensions for checks: the settled or usual ones, then variations."""
        usual = sizes_to_try(self.dimensions, self.given)
        first = dict(self.settled) or next(usual)
        yield first
        if self.dimensions:
            yield from varied(self.dimensions, first, self.given)
            yield from usual

    def usual_sizes(self) -> Iterator[dict[str, int]]:
        """Yield sizes of open dimensions at which the model may run, most usual first."""
        return sizes_to_try(self.dimensions, self.given)

    def at(self, settled: Mapping[str, int]) -> InputPlan:
        """A plan with these sizes as the first choice."""
        return replace(self, settled=settled)

    def sizes_of(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Return the sizes of open dimensions in given input arrays; of contradictory sizes, the first."""
        found: dict[str, int] = {}
        for port in self.ports:
            shape = arrays[port.name].shape if port.name in arrays else ()
            for size, own in zip(port.shape, shape, strict=False):
                if isinstance(size, str):
                    found.setdefault(size, own)
        return {d.name: found[d.name] for d in self.dimensions if d.name in found}

    def _array(self, port: Port, random: Generator, sizes: Mapping[str, int], scale: str) -> Array:
        shape = tuple(sizes[size] if isinstance(size, str) else size or 0 for size in port.shape)
        role = self.roles.get(port.name)
        if port.dtype is None or role is None:
            raise UnsupportedError(f"input {port.name}: cannot generate random values of its type")
        elements = math.prod(shape)
        if elements * _DRAWN_BYTES > psutil.virtual_memory().available:
            raise MemoryError(f"input {port.name}: not enough memory for {elements:,} elements")
        drawn = role.draw(random, shape, scale, sizes)
        if np.dtype(port.dtype).kind == "c":
            drawn = np.asarray(drawn) + 1j * np.asarray(role.draw(random, shape, scale, sizes))
        return np.asarray(drawn, np.dtype(port.dtype))


def plan_inputs(lifted: LiftedModel, ports: Sequence[Port], dims: Mapping[str, int]) -> InputPlan:
    """Infers the role of each input from the graph; ``dims`` are sizes requested by the user."""
    named = _named(lifted, ports)
    reading = Reading(lifted, named)
    roles = {port.name: role for port in named if (role := reading.role(port)) is not None}
    states = [name for name, role in roles.items() if isinstance(role, State)]
    dimensions = open_dimensions(named, demanded_sizes(lifted, named), states)
    return InputPlan(named, roles, dimensions, dims, unsupported=_unsupported(lifted))


def _unsupported(lifted: LiftedModel) -> str:
    """Which inputs and outputs the runtime does not exchange as arrays, as one line; empty if it does all."""
    graph = lifted.source.as_given.proto.graph
    found = [repr(info.name) for info in graph.input if info.type.WhichOneof("value") in _NO_TENSORS]
    if found:
        return f"inputs of sequence or optional type are not supported: {', '.join(found)}"
    for info in (*graph.input, *graph.output):
        element = info.type.tensor_type.elem_type
        if element and element not in _ARRAYS:
            kind = element_name(element)
            return f"{info.name!r} is {kind}, which ONNX Runtime does not exchange with numpy"
    return ""


def declared_ports(lifted: LiftedModel) -> tuple[Port, ...]:
    """The inputs that a caller provides, as declared by the model; available before the runtime loads it."""
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
        name = str(dtype) if dtype.isbuiltin == 1 else None
        ports.append(Port(info.name, name, shape, tensor.HasField("shape")))
    return tuple(ports)


def open_names(lifted: LiftedModel) -> tuple[str, ...]:
    """Names of the dimensions to which a size can be given: those of inputs, then those inside the model that
    are not known to follow from them."""
    ports = _named(lifted, declared_ports(lifted))
    own = (size for port in ports for size in port.shape if isinstance(size, str))
    return tuple(dict.fromkeys((*own, *lifted.symbols)))


def _named(lifted: LiftedModel, ports: Sequence[Port]) -> tuple[Port, ...]:
    """The ports with the dimension names of the lifted model; a port without a declared shape gets the rank
    that its first reader takes."""
    types = {
        node.operator.label: node.types[0]
        for node in (lifted.graph.nodes[node_id] for node_id in lifted.graph.inputs)
        if isinstance(node.operator, Input)
    }
    named: list[Port] = []
    for port in ports:
        type_ = types.get(port.name)
        if isinstance(type_, TensorType):
            shape = tuple(size if isinstance(size, int) else as_symbol(size) for size in type_.shape)
        elif port.dtype is not None and not port.shape:
            shape = (None,) * _rank_read(lifted, port.name)
        else:
            shape = port.shape
        open_names = (f"{port.name}.{axis}" for axis in range(len(shape)))
        sizes = tuple(own if own is not None else name for own, name in zip(shape, open_names, strict=True))
        named.append(replace(port, shape=sizes, has_shape=True))
    return tuple(named)


def _rank_read(lifted: LiftedModel, name: str) -> int:
    """Return the rank that the first layer reading an input requires; 2 if there is none."""
    for reader in readers_by_tensor(lifted.source).get(name, ()):
        if reader.slot == 0 and reader.op_type in ("Conv", "MaxPool", "AveragePool"):
            return len(weight_shape(lifted, reader)) or 4
    return 2
