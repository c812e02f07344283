"""Optimisers as PyTorch defines them: what they keep of gradients, and how they change a parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.activation import Tanh
from superopt.ops.elementwise.arithmetic import Add, Divide, Multiply, Scale, Sqrt, Subtract
from superopt.optimizer.training.builder import SCALAR, StepBuilder
from superopt.optimizer.training.description import Role
from superopt.optimizer.training.schedules import Updates, parse_schedule
from superopt.step_options import UpdateSettings, decimal

LEARNING_RATE = "learning_rate"
"""The input with the learning rate, a 0-d float32."""


class Rates:
    """The numbers that change from update to update and belong to all parameters, as 0-d tensors of one
    type."""

    def __init__(
        self, builder: StepBuilder, settings: UpdateSettings, updates: Updates, element: ElementType
    ) -> None:
        self._builder = builder
        self._updates = updates
        self._element = element
        self._corrections: dict[float, Value] = {}
        self.learning_rate = self._learning_rate(settings)

    def correction(self, beta: float) -> Value:
        """1 - beta^t (Adam, section 3), t being the number of this update. It is 2 h / (1 + h) with
        h = tanh(-t log(beta) / 2), which loses no digits where beta^t is almost 1."""
        if beta not in self._corrections:
            self._corrections[beta] = self._correction(beta)
        return self._corrections[beta]

    def _correction(self, beta: float) -> Value:
        builder = self._builder
        if not beta:
            return builder.number(1, self._element)
        exponent = builder.scaled(
            builder.converted(self._updates.step, self._element), decimal(-math.log(beta) / 2)
        )
        half = builder.apply(Tanh(), exponent)
        return builder.apply(Divide(), builder.scaled(half, 2), builder.shifted(half, 1))

    def _learning_rate(self, settings: UpdateSettings) -> Value:
        builder, rate, schedule = self._builder, settings.base_rate, parse_schedule(settings.schedule)
        if rate is not None and schedule.is_constant:
            return builder.number(rate, self._element)
        if rate is not None:
            return builder.scaled(schedule.factor(builder, self._updates, self._element), rate)
        given = builder.input(LEARNING_RATE, TensorType(ElementType.FLOAT, SCALAR))
        given = builder.converted(given, self._element)
        if schedule.is_constant:
            return given
        return builder.apply(Multiply(), given, schedule.factor(builder, self._updates, self._element))


@dataclass(frozen=True, slots=True)
class Operands:
    """What an optimiser computes with: a parameter, its gradient and moments."""

    builder: StepBuilder
    settings: UpdateSettings
    rates: Rates
    parameter: Value
    gradient: Value
    moments: tuple[Value, ...]

    def moved(self, direction: Value, rate: Value) -> Value:
        """The parameter less the rate times the direction."""
        return self.builder.apply(Subtract(), self.parameter, self.times(direction, rate))

    def times(self, value: Value, factor: Value) -> Value:
        """A tensor times a 0-d tensor."""
        element = self.builder.type(value).element
        return self.builder.apply(Scale(), value, self.builder.converted(factor, element))

    def blended(self, old: Value, new: Value, decay: float) -> Value:
        """decay * old + (1 - decay) * new."""
        kept = self.builder.scaled(old, decimal(decay))
        return self.builder.apply(Add(), kept, self.builder.scaled(new, 1 - decimal(decay)))

    @property
    def squared(self) -> Value:
        """The gradient's squares."""
        return self.builder.apply(Multiply(), self.gradient, self.gradient)

    def normalised(self, value: Value, root: Value) -> Value:
        """A tensor over a root and epsilon."""
        return self.builder.apply(Divide(), value, self.builder.shifted(root, self.settings.divisor_term))


@dataclass(frozen=True, slots=True)
class Changed:
    """The new value of a parameter, and of its moments."""

    parameter: Value
    moments: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimiser: the moments that it keeps, with their roles, and what it computes."""

    moments: tuple[tuple[str, Role], ...]
    change: Callable[[Operands], Changed]
    decays_parameters: bool = False
    """Whether weight decay shrinks parameters (AdamW) instead of being a term of gradients."""


def _descended(given: Operands) -> Changed:
    return Changed(given.moved(given.gradient, given.rates.learning_rate))


def _velocity(given: Operands) -> Value:
    """momentum * old + gradient."""
    kept = given.builder.scaled(given.moments[0], decimal(given.settings.velocity_decay))
    return given.builder.apply(Add(), kept, given.gradient)


def _with_momentum(given: Operands) -> Changed:
    velocity = _velocity(given)
    return Changed(given.moved(velocity, given.rates.learning_rate), (velocity,))


def _with_nesterov(given: Operands) -> Changed:
    """Gradient + momentum * velocity, as PyTorch has it."""
    velocity = _velocity(given)
    ahead = given.builder.scaled(velocity, decimal(given.settings.velocity_decay))
    direction = given.builder.apply(Add(), given.gradient, ahead)
    return Changed(given.moved(direction, given.rates.learning_rate), (velocity,))


def _by_adam(given: Operands) -> Changed:
    """Kingma and Ba, "Adam", algorithm 1, in the second form of section 2: the rate and epsilon are corrected
    instead of the moments, which saves a pass over them."""
    builder, settings, rates = given.builder, given.settings, given.rates
    beta1, beta2 = settings.moment_decays
    mean = given.blended(given.moments[0], given.gradient, beta1)
    square = given.blended(given.moments[1], given.squared, beta2)
    corrected = builder.apply(Sqrt(), rates.correction(beta2))
    term = builder.converted(builder.scaled(corrected, settings.divisor_term), builder.type(square).element)
    shape = builder.type(square).shape
    divisor = builder.apply(Add(), builder.apply(Sqrt(), square), builder.repeated(term, shape))
    rate = builder.apply(Multiply(), rates.learning_rate, corrected)
    rate = builder.apply(Divide(), rate, rates.correction(beta1))
    direction = builder.apply(Divide(), mean, divisor)
    return Changed(given.moved(direction, rate), (mean, square))


def _by_adagrad(given: Operands) -> Changed:
    """Duchi, Hazan and Singer, "Adaptive subgradient methods", with a diagonal matrix."""
    total = given.builder.apply(Add(), given.moments[0], given.squared)
    direction = given.normalised(given.gradient, given.builder.apply(Sqrt(), total))
    return Changed(given.moved(direction, given.rates.learning_rate), (total,))


def _by_rmsprop(given: Operands) -> Changed:
    """Hinton's RMSprop, not centred, without momentum."""
    square = given.blended(given.moments[0], given.squared, given.settings.square_decay)
    direction = given.normalised(given.gradient, given.builder.apply(Sqrt(), square))
    return Changed(given.moved(direction, given.rates.learning_rate), (square,))


_ADAM: tuple[tuple[str, Role], ...] = (("exp_avg", Role.MOMENT), ("exp_avg_sq", Role.SECOND_MOMENT))
_VELOCITY: tuple[tuple[str, Role], ...] = (("momentum", Role.MOMENT),)
OPTIMIZERS: Mapping[str, Optimizer] = {
    "sgd": Optimizer((), _descended),
    "momentum": Optimizer(_VELOCITY, _with_momentum),
    "nesterov": Optimizer(_VELOCITY, _with_nesterov),
    "adam": Optimizer(_ADAM, _by_adam),
    "adamw": Optimizer(_ADAM, _by_adam, decays_parameters=True),
    "adagrad": Optimizer((("sum", Role.SECOND_MOMENT),), _by_adagrad),
    "rmsprop": Optimizer((("square_avg", Role.SECOND_MOMENT),), _by_rmsprop),
}
