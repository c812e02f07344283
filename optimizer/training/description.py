"""Description of a training step in its model's metadata: states, data inputs, loss, learning rate, seed.

A training step is an ONNX model that computes from parameters, optimiser state and a batch the next
parameters, the next state and the loss. The metadata property ``superopt.training`` holds a
``StepDescription`` as a JSON object.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError

from superopt.defects import first_defect
from superopt.errors import InvalidModelError
from superopt.onnx_io.protos import element_type
from superopt.optimizer.training.metadata import PROPERTY

if TYPE_CHECKING:
    import onnx

FORMAT = 1

_STRICT = ConfigDict(extra="forbid")
_FLOATS = frozenset(("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"))


class Role(enum.StrEnum):
    """What a state is. A second moment is never negative; a counter is a whole number. Gradients that are
    applied in a later step are delayed, and a residual is what compressing a gradient left out."""

    PARAMETER = "parameter"
    MOMENT = "moment"
    SECOND_MOMENT = "second_moment"
    STATISTIC = "statistic"
    ACCUMULATOR = "accumulator"
    COUNTER = "counter"
    SCALE = "scale"
    DELAYED = "delayed"
    RESIDUAL = "residual"

    @property
    def is_sum(self) -> bool:
        """Whether each device may hold a term of such a state, as it does of a gradient."""
        return self in (Role.DELAYED, Role.RESIDUAL)


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that one step hands to the next. ``input`` is the graph input and initialiser with its present
    value, ``output`` the graph output with its next one; ``of`` is the name of the parameter that it belongs
    to, if any."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    role: Role
    input: str
    output: str
    of: str | None = None


@dataclass(frozen=True, slots=True)
class RateInput:
    """A learning rate that is a floating-point scalar input of the step."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    input: str


@dataclass(frozen=True, slots=True)
class ConstantRate:
    """A learning rate that is fixed in the step."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    constant: float


@dataclass(frozen=True, slots=True)
class ScheduledRate:
    """A learning rate that the step computes from its counter; the text names the schedule."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    schedule: str


@dataclass(frozen=True, slots=True)
class Labels:
    """An input with numbers of classes, below ``classes``; positions with the number ``ignored`` do not
    count."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    input: str
    classes: int
    ignored: int


LearningRate: TypeAlias = RateInput | ConstantRate | ScheduledRate


@dataclass(frozen=True)
class StepDescription:
    """The meaning of a step's inputs and outputs.

    ``loss`` is the output with the loss, a scalar. ``data`` are the inputs that every batch supplies; their
    first axis counts samples. ``seed`` is the int64 scalar input with the seed of random masks, if any. All
    other inputs are states, or the learning rate. ``compressed`` are the parameters whose gradients are
    rounded to half precision before devices add theirs; ``labels`` is the data input with numbers of
    classes, if any.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    loss: str
    optimizer: str
    states: tuple[State, ...]
    data: tuple[str, ...]
    learning_rate: LearningRate
    seed: str | None = None
    compressed: tuple[str, ...] = ()
    labels: Labels | None = None
    format: Literal[1] = FORMAT

    @cached_property
    def by_name(self) -> Mapping[str, State]:
        """The states by name."""
        return {state.name: state for state in self.states}

    @property
    def rate_input(self) -> str | None:
        """The input with the learning rate, None if the step has its own."""
        return self.learning_rate.input if isinstance(self.learning_rate, RateInput) else None

    def with_role(self, *roles: Role) -> tuple[State, ...]:
        """The states that have one of the roles."""
        return tuple(state for state in self.states if state.role in roles)

    def to_json(self) -> str:
        """The value of the metadata property."""
        return _DESCRIPTION.dump_json(self).decode()


_DESCRIPTION = TypeAdapter(StepDescription)


def write_description(model: onnx.ModelProto, description: StepDescription) -> None:
    """Sets the metadata property of the model, in place; raises InvalidModelError as
    ``require_description`` does."""
    require_description(model, description, "the step")
    replace_description(model, description)


def replace_description(model: onnx.ModelProto, description: StepDescription) -> None:
    """Sets the metadata property of a model whose initialisers may be elsewhere, in place."""
    kept = [entry for entry in model.metadata_props if entry.key != PROPERTY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    model.metadata_props.add(key=PROPERTY, value=description.to_json())


def read_description(model: onnx.ModelProto, where: str) -> StepDescription:
    """The description of a step, validated against the model; ``where`` is the model's name in messages.

    Raises InvalidModelError if the model has none, or one that is malformed or does not fit the model.
    """
    for entry in model.metadata_props:
        if entry.key == PROPERTY:
            description = parse_description(entry.value, where)
            require_description(model, description, where)
            return description
    raise InvalidModelError(
        f"{where} is not a training step: expected the metadata property {PROPERTY!r}, which "
        "`superopt train-graph` writes"
    )


def parse_description(text: str, where: str) -> StepDescription:
    """The description in a JSON text; raises InvalidModelError if it is malformed."""
    try:
        return _DESCRIPTION.validate_json(text)
    except ValidationError as error:
        raise InvalidModelError(f"{where}: metadata {PROPERTY!r}: {first_defect(error)}") from None


def require_description(model: onnx.ModelProto, description: StepDescription, where: str) -> None:
    """Raises InvalidModelError, naming the first defect, unless the description fits the model: names are
    unique and exist, every state has an initial value and the same type before and after a step, every
    input has a meaning."""
    defect = next(_defects(_Interface.of(model.graph), description), None)
    if defect is not None:
        raise InvalidModelError(f"{where}: metadata {PROPERTY!r}: {defect}")


def require_interface(
    model: onnx.ModelProto, description: StepDescription, where: str, defaults: Iterable[str]
) -> None:
    """``require_description`` for a model whose initialisers are elsewhere: ``defaults`` are the inputs that
    have one beside states and seed."""
    ports = _Interface.of(model.graph)
    named = {*defaults, *(state.input for state in description.states)}
    if description.seed is not None:
        named.add(description.seed)
    initial = {name: type_ for name, type_ in ports.inputs.items() if name in named}
    defect = next(_defects(_Interface(ports.inputs, ports.outputs, initial), description), None)
    if defect is not None:
        raise InvalidModelError(f"{where} cannot be trained so: {defect}")


@dataclass(frozen=True, slots=True)
class _Type:
    """Element type and shape of a tensor; None for an unknown size and for an unknown rank."""

    element: str
    shape: tuple[int | None, ...] | None

    def agrees_with(self, other: _Type) -> bool:
        """Whether one tensor can have both types."""
        if self.element != other.element:
            return False
        if self.shape is None or other.shape is None:
            return True
        return len(self.shape) == len(other.shape) and all(
            own is None or its is None or own == its for own, its in zip(self.shape, other.shape, strict=True)
        )

    def __str__(self) -> str:
        if self.shape is None:
            return self.element.lower()
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.element.lower()}[{sizes}]"


@dataclass(frozen=True, slots=True)
class _Interface:
    """The types of a graph's inputs, outputs and initialisers by name."""

    inputs: Mapping[str, _Type]
    outputs: Mapping[str, _Type]
    initial: Mapping[str, _Type]

    @staticmethod
    def of(graph: onnx.GraphProto) -> _Interface:
        return _Interface(
            {value.name: _type_of(value) for value in graph.input},
            {value.name: _type_of(value) for value in graph.output},
            {t.name: _Type(element_type(t.data_type).name, tuple(t.dims)) for t in graph.initializer},
        )


def _type_of(value: onnx.ValueInfoProto) -> _Type:
    tensor = value.type.tensor_type
    element = element_type(tensor.elem_type).name
    if not tensor.HasField("shape"):
        return _Type(element, None)
    sizes = (size.dim_value if size.HasField("dim_value") else None for size in tensor.shape.dim)
    return _Type(element, tuple(sizes))


def _defects(model: _Interface, description: StepDescription) -> Iterator[str]:
    yield from _repeated(description)
    for state in description.states:
        yield from _state_defects(model, description, state)
    for name in description.data:
        if name not in model.inputs:
            yield f"data {name!r} is no input of the model; its inputs are {_listed(model.inputs)}"
        elif model.inputs[name].shape == ():
            yield f"data {name!r}: expected a first axis that counts samples, got a scalar"
    if description.labels is not None and description.labels.input not in description.data:
        listed = ", ".join(map(repr, description.data))
        yield f"labels: expected a data input, {listed}; got {description.labels.input!r}"
    for name in description.compressed:
        owner = description.by_name.get(name)
        if owner is None or owner.role is not Role.PARAMETER:
            yield f"compressed: expected the name of a parameter, got {name!r}"
    yield from _scalar_defects(model, description)
    yield from _unexplained(model, description)


def _repeated(description: StepDescription) -> Iterator[str]:
    """Names that are used twice."""
    uses = {
        "state name": [state.name for state in description.states],
        "input": [*(state.input for state in description.states), *_other_inputs(description)],
        "output": [*(state.output for state in description.states), description.loss],
    }
    for kind, names in uses.items():
        for name, times in Counter(names).items():
            if times > 1:
                yield f"{kind} {name!r}: expected one use, got {times}"


def _state_defects(model: _Interface, description: StepDescription, state: State) -> Iterator[str]:
    which = f"state {state.name!r}"
    if state.input not in model.inputs:
        yield f"{which}: {state.input!r} is no input of the model; its inputs are {_listed(model.inputs)}"
        return
    if state.input not in model.initial:
        yield f"{which}: expected an initial value, and no initialiser is called {state.input!r}"
        return
    if state.output not in model.outputs:
        yield f"{which}: {state.output!r} is no output of the model; its outputs are {_listed(model.outputs)}"
        return
    before, after = model.initial[state.input], model.outputs[state.output]
    if not before.agrees_with(after):
        yield f"{which}: expected {before} as output {state.output!r}, got {after}"
    owner = None if state.of is None else description.by_name.get(state.of)
    if state.of is not None and (owner is None or owner.role is not Role.PARAMETER):
        yield f"{which}: expected the name of a parameter as 'of', got {state.of!r}"


def _scalar_defects(model: _Interface, description: StepDescription) -> Iterator[str]:
    loss = model.outputs.get(description.loss)
    if loss is None:
        yield f"loss {description.loss!r} is no output of the model; its outputs are {_listed(model.outputs)}"
    elif loss.element not in _FLOATS or not _may_be_scalar(loss):
        yield f"loss {description.loss!r}: expected a floating-point scalar, got {loss}"
    if description.rate_input is not None:
        yield from _input_defects(model, "learning rate", description.rate_input, _FLOATS)
    if description.seed is not None:
        yield from _input_defects(model, "seed", description.seed, frozenset(("INT64",)))
        if description.seed not in model.initial:
            yield f"seed: expected a default, and no initialiser is called {description.seed!r}"


def _input_defects(model: _Interface, what: str, name: str, elements: frozenset[str]) -> Iterator[str]:
    got = model.inputs.get(name)
    if got is None:
        yield f"{what}: {name!r} is no input of the model; its inputs are {_listed(model.inputs)}"
    elif got.element not in elements or not _may_be_scalar(got):
        expected = "a floating-point scalar" if elements == _FLOATS else "an int64 scalar"
        yield f"{what}: expected {expected} as input {name!r}, got {got}"


def _unexplained(model: _Interface, description: StepDescription) -> Iterator[str]:
    known = {state.input for state in description.states} | {*_other_inputs(description)}
    for name in model.inputs:
        if name not in known and name not in model.initial:
            yield f"input {name!r} is neither a state nor data, learning rate or seed, and has no default"


def _other_inputs(description: StepDescription) -> Iterator[str]:
    """Inputs that are no states."""
    yield from description.data
    yield from (name for name in (description.rate_input, description.seed) if name is not None)


def _may_be_scalar(given: _Type) -> bool:
    return given.shape is None or all(size == 1 for size in given.shape)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
