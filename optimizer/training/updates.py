"""Updates of parameters by gradients, as nodes of a graph: an optimiser, weight decay, clipping, accumulation
over calls, calls that are skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction

import numpy as np

from superopt.domains import Array
from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.ir.graph import GraphEditor, Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.protos import dtype_of
from superopt.ops.elementwise.arithmetic import Add, Divide, Multiply, Scale, Sqrt, Subtract
from superopt.ops.elementwise.order import Minimum
from superopt.ops.elementwise.selection import Equal, LogicalAnd
from superopt.optimizer.training.builder import SCALAR, NewState, StepBuilder
from superopt.optimizer.training.description import Role
from superopt.optimizer.training.optimizers import OPTIMIZERS, Operands, Optimizer, Rates
from superopt.optimizer.training.precision.scaling import LossScaling
from superopt.step_options import UpdateSettings, decimal

STEP, MICROSTEP = "step", "microstep"
"""Counters from 1: of updates, and of the calls that make one update."""

_CLIP_TERM = Fraction(1, 10**6)
_LOW = frozenset((ElementType.FLOAT16, ElementType.BFLOAT16))


@dataclass(frozen=True)
class AddedUpdates:
    """New parameters by name, the states of the optimiser, the names of the other inputs that came with them,
    and the content of the constants that did, by label. ``finite`` is a 0-d truth value, whether the call
    changes any state; None where every call does."""

    states: tuple[NewState, ...]
    new_parameters: Mapping[str, Value]
    inputs: tuple[str, ...]
    weights: Mapping[str, Array]
    finite: Value | None = None


def add_updates(
    editor: GraphEditor,
    gradients: Mapping[str, tuple[Value, Value]],
    settings: UpdateSettings,
    loss_scale: float | None = None,
) -> AddedUpdates:
    """The updates of parameters, given by name with their present value and gradient, which have one type.
    With a ``loss_scale``, the first value of that state, gradients are those of the loss times the state.

    The state ``step`` counts updates from 1. With accumulation, only every K-th call updates: it uses the
    mean of K gradients; the other calls leave parameters, moments and ``step`` as they are. Parameters of
    less than 32 bits are updated in float32, and their moments are float32.

    Raises InvalidModelError for a parameter that is not a floating point tensor of known sizes, and
    InvalidOptionError for a pattern of ``no_decay`` that no name fits.
    """
    for pattern in settings.no_decay:
        if not any(fnmatchcase(name, pattern) for name in gradients):
            raise InvalidOptionError(
                f"no_decay: expected a pattern that a parameter's name fits, got {pattern!r}"
            )
    builder = StepBuilder(editor)
    parameters = [_parameter(builder, name, *pair) for name, pair in gradients.items()]
    finite = None
    if loss_scale is not None:
        scaling = LossScaling(builder, loss_scale)
        unscaled = scaling.unscaled({parameter.name: parameter.gradient for parameter in parameters})
        parameters = [p.with_gradient(unscaled.gradients[p.name]) for p in parameters]
        finite = unscaled.finite
    calls = _Calls(builder, settings.accumulate, finite)
    parameters = [calls.accumulated(parameter) for parameter in parameters]
    if settings.clip_norm is not None:
        parameters = list(_clipped(builder, parameters, decimal(settings.clip_norm)))
    element = _widest(parameters)
    update = _Update(builder, settings, calls, Rates(builder, settings, calls, element))
    new = {parameter.name: update.of(parameter) for parameter in parameters}
    calls.count()
    return AddedUpdates(builder.states, new, builder.inputs, builder.weights, finite)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter and its gradient in the type in which it is updated; ``own`` is its type in the model."""

    name: str
    value: Value
    gradient: Value
    type: TensorType
    own: ElementType

    def with_gradient(self, gradient: Value) -> _Parameter:
        return _Parameter(self.name, self.value, gradient, self.type, self.own)


def _parameter(builder: StepBuilder, name: str, value: Value, gradient: Value) -> _Parameter:
    type_ = builder.type(value)
    if not type_.element.is_float or not all(isinstance(size, int) for size in type_.shape):
        raise InvalidModelError(
            f"parameter {name}: expected a floating point tensor of known sizes, got {type_}"
        )
    if builder.type(gradient) != type_:
        raise InvalidModelError(
            f"parameter {name}: expected a gradient {type_}, got {builder.type(gradient)}"
        )
    element = ElementType.FLOAT if type_.element in _LOW else type_.element
    value, gradient = builder.converted(value, element), builder.converted(gradient, element)
    return _Parameter(name, value, gradient, TensorType(element, type_.shape), type_.element)


def _widest(parameters: list[_Parameter]) -> ElementType:
    """The type of numbers that belong to all parameters."""
    elements = {parameter.type.element for parameter in parameters}
    return ElementType.DOUBLE if ElementType.DOUBLE in elements else ElementType.FLOAT


def _new_state(builder: StepBuilder, parameter: _Parameter, suffix: str, role: Role) -> tuple[str, Value]:
    """A state of zeros of a parameter's type: its name and present value."""
    name = f"{parameter.name}.{suffix}"
    sizes = tuple(size for size in parameter.type.shape if isinstance(size, int))
    initial = np.zeros(sizes, dtype_of(parameter.type.element))
    return name, builder.state(name, role, initial, parameter.type, parameter.name)


class _Calls:
    """Counts calls and updates, and decides which call updates. A call that is not ``finite`` changes
    nothing."""

    def __init__(self, builder: StepBuilder, calls_per_update: int, finite: Value | None) -> None:
        self._builder = builder
        self._calls = calls_per_update
        self._finite = finite
        self.step = self._counter(STEP)
        self._updates = finite
        if calls_per_update > 1:
            self._call = self._counter(MICROSTEP)
            last = builder.apply(Equal(), self._call, builder.number_for(calls_per_update, self._call))
            self._updates = last if finite is None else builder.apply(LogicalAnd(), last, finite)

    def accumulated(self, parameter: _Parameter) -> _Parameter:
        """The parameter with the mean gradient of the calls since the last update and this one."""
        if self._calls == 1:
            return parameter
        builder = self._builder
        name, before = _new_state(builder, parameter, "accumulated", Role.ACCUMULATOR)
        total = builder.apply(Add(), before, parameter.gradient)
        kept = self.chosen(builder.filled(0, total), total)
        builder.hand_on(name, builder.chosen(self._finite, kept, before))
        return parameter.with_gradient(builder.scaled(total, Fraction(1, self._calls)))

    def chosen(self, new: Value, old: Value) -> Value:
        """The new value if this call updates, else the old one."""
        return self._builder.chosen(self._updates, new, old)

    def count(self) -> None:
        """Hands on the counters."""
        builder = self._builder
        builder.hand_on(STEP, self.chosen(builder.shifted(self.step, 1), self.step))
        if self._calls > 1:
            first = builder.number_for(1, self._call)
            counted = self.chosen(first, builder.shifted(self._call, 1))
            builder.hand_on(MICROSTEP, builder.chosen(self._finite, counted, self._call))

    def _counter(self, name: str) -> Value:
        type_ = TensorType(ElementType.INT64, SCALAR)
        return self._builder.state(name, Role.COUNTER, np.asarray(1, np.int64), type_, None)


def _clipped(builder: StepBuilder, parameters: list[_Parameter], largest: Fraction) -> Iterator[_Parameter]:
    """Gradients times min(1, largest / (norm + 1e-6)), where norm is that of all of them."""
    element = _widest(parameters)
    squares = [
        builder.converted(builder.total(builder.apply(Multiply(), p.gradient, p.gradient)), element)
        for p in parameters
    ]
    total = squares[0]
    for square in squares[1:]:
        total = builder.apply(Add(), total, square)
    norm = builder.shifted(builder.apply(Sqrt(), total), _CLIP_TERM)
    quotient = builder.apply(Divide(), builder.number(largest, element), norm)
    factor = builder.apply(Minimum(), quotient, builder.number(1, element))
    for parameter in parameters:
        own = builder.converted(factor, parameter.type.element)
        yield parameter.with_gradient(builder.apply(Scale(), parameter.gradient, own))


@dataclass(frozen=True, slots=True)
class _Update:
    """The update of every parameter."""

    builder: StepBuilder
    settings: UpdateSettings
    calls: _Calls
    rates: Rates

    def of(self, parameter: _Parameter) -> Value:
        """The parameter's new value, in its own type."""
        optimizer = OPTIMIZERS[self.settings.optimizer]
        states = [_new_state(self.builder, parameter, *moment) for moment in optimizer.moments]
        changed = optimizer.change(self._operands(optimizer, parameter, tuple(old for _, old in states)))
        for (name, old), new in zip(states, changed.moments, strict=True):
            self.builder.hand_on(name, self.calls.chosen(new, old))
        return self.builder.converted(self.calls.chosen(changed.parameter, parameter.value), parameter.own)

    def _operands(self, optimizer: Optimizer, parameter: _Parameter, moments: tuple[Value, ...]) -> Operands:
        """The operands, with weight decay in the parameter or in the gradient."""
        builder, decay = self.builder, self._decay(parameter)
        value, gradient = parameter.value, parameter.gradient
        if decay and optimizer.decays_parameters:
            lost = builder.scaled(self.rates.learning_rate, decay)
            kept = builder.apply(Subtract(), builder.number_for(1, lost), lost)
            value = builder.apply(Scale(), value, builder.converted(kept, parameter.type.element))
        elif decay:
            gradient = builder.apply(Add(), gradient, builder.scaled(value, decay))
        return Operands(builder, self.settings, self.rates, value, gradient, moments)

    def _decay(self, parameter: _Parameter) -> Fraction:
        settings = self.settings
        is_excluded = any(fnmatchcase(parameter.name, pattern) for pattern in settings.no_decay)
        if is_excluded or (settings.decayed == "matrices" and parameter.type.rank < 2):
            return Fraction(0)
        return settings.decay_rate


__all__ = ["MICROSTEP", "STEP", "AddedUpdates", "NewState", "add_updates"]
