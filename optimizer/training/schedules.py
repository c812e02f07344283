"""Learning-rate schedules: factors of the base rate, computed in the graph from the counter of updates."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.arithmetic import Add, Multiply
from superopt.ops.elementwise.order import Clip, Minimum
from superopt.ops.elementwise.selection import Equal
from superopt.ops.reduction import Exp
from superopt.optimizer.training.builder import SCALAR, Number, StepBuilder
from superopt.optimizer.training.description import Role
from superopt.step_options import SCHEDULES, decimal

_SINE_TERMS = 9
"""Terms of the Taylor series of sin, which is then exact to 5e-14 up to pi/2."""


class Updates(Protocol):
    """Counts updates, of which each takes one call of the step or several."""

    @property
    def step(self) -> Value:
        """The number of this update, from 1 on, 0-d int64."""
        ...

    def chosen(self, new: Value, old: Value) -> Value:
        """The new value if this call updates, else the old one."""
        ...


class Schedule(ABC):
    """The factor of the base learning rate as a function of the update ``t``, which counts from 1."""

    @property
    def is_constant(self) -> bool:
        """Whether the factor is always 1."""
        return False

    @abstractmethod
    def factor(self, builder: StepBuilder, updates: Updates, element: ElementType) -> Value:
        """The factor as a 0-d tensor of the element type."""


@dataclass(frozen=True, slots=True)
class ConstantSchedule(Schedule):
    """t / warmup up to 1."""

    warmup: int = 0

    @property
    def is_constant(self) -> bool:
        """Without warm-up."""
        return self.warmup == 0

    def factor(self, builder: StepBuilder, updates: Updates, element: ElementType) -> Value:
        """The warm-up."""
        return _warmed_up(builder, builder.converted(updates.step, element), self.warmup)


@dataclass(frozen=True, slots=True)
class LinearSchedule(Schedule):
    """t / warmup up to 1; then (total - t + 1) / (total - warmup), so that all of the first ``total`` updates
    have a positive rate; 0 afterwards."""

    total: int
    warmup: int = 0

    def factor(self, builder: StepBuilder, updates: Updates, element: ElementType) -> Value:
        """The warm-up times the line."""
        at = builder.converted(updates.step, element)
        length = self.total - self.warmup
        line = builder.shifted(builder.scaled(at, Fraction(-1, length)), Fraction(self.total + 1, length))
        return _product(builder, _warmed_up(builder, at, self.warmup), builder.apply(Clip(0, 1), line))


@dataclass(frozen=True, slots=True)
class CosineSchedule(Schedule):
    """t / warmup up to 1; then half a period of a cosine from 1 to ``end``, which it reaches after ``total``
    updates: end + (1 - end) (1 + cos(pi q)) / 2, q = (t - 1 - warmup) / (total - warmup)."""

    total: int
    warmup: int = 0
    end: float = 0.0

    def factor(self, builder: StepBuilder, updates: Updates, element: ElementType) -> Value:
        """The warm-up times the cosine, as cos(pi q) = -sin(pi (q - 1/2))."""
        at = builder.converted(updates.step, element)
        length = self.total - self.warmup
        share = builder.shifted(builder.scaled(at, Fraction(1, length)), Fraction(-1 - self.warmup, length))
        offset = builder.shifted(builder.apply(Clip(0, 1), share), Fraction(-1, 2))
        half = (1 - decimal(self.end)) / 2
        curve = builder.shifted(builder.scaled(_sine(builder, offset), -half), half + decimal(self.end))
        return _product(builder, _warmed_up(builder, at, self.warmup), curve)


@dataclass(frozen=True, slots=True)
class StepSchedule(Schedule):
    """``decay`` to the power of the number of times that ``every`` updates have passed. A counter state,
    ``decays``, holds that number, because the algebra has no integer division."""

    every: int
    decay: float

    def factor(self, builder: StepBuilder, updates: Updates, element: ElementType) -> Value:
        """exp(decays * log(decay))."""
        type_ = TensorType(ElementType.INT64, SCALAR)
        decays = builder.state("decays", Role.COUNTER, np.asarray(0, np.int64), type_, None)
        more = builder.shifted(decays, 1)
        due = builder.apply(Equal(), updates.step, builder.scaled(more, self.every))
        builder.hand_on("decays", updates.chosen(builder.chosen(due, more, decays), decays))
        power = builder.scaled(builder.converted(decays, element), decimal(math.log(self.decay)))
        return builder.apply(Exp(), power)


def parse_schedule(text: str) -> Schedule:
    """The schedule of a text such as ``cosine:warmup=100,total=5000,end=0.1``; raises InvalidOptionError."""
    name, _, rest = text.partition(":")
    values: dict[str, str] = {}
    for entry in rest.split(",") if rest else ():
        key, _, value = entry.partition("=")
        if key in values:
            raise _unknown(text)
        values[key] = value
    if name not in _READERS:
        raise _unknown(text)
    try:
        schedule = _READERS[name](values)
    except (KeyError, ValueError):
        raise _unknown(text) from None
    if values:
        raise _unknown(text)
    return schedule


def _unknown(text: str) -> InvalidOptionError:
    return InvalidOptionError(f"schedule: expected one of {SCHEDULES}, got {text!r}")


def _constant(values: dict[str, str]) -> Schedule:
    return ConstantSchedule(_count(values.pop("warmup", "0"), 0))


def _linear(values: dict[str, str]) -> Schedule:
    warmup = _count(values.pop("warmup", "0"), 0)
    return LinearSchedule(_count(values.pop("total"), warmup + 1), warmup)


def _cosine(values: dict[str, str]) -> Schedule:
    warmup = _count(values.pop("warmup", "0"), 0)
    total, end = _count(values.pop("total"), warmup + 1), float(values.pop("end", "0"))
    if not 0 <= end <= 1:
        raise InvalidOptionError(f"schedule: expected end between 0 and 1, got {end:g}")
    return CosineSchedule(total, warmup, end)


def _step(values: dict[str, str]) -> Schedule:
    every, decay = _count(values.pop("every"), 1), float(values.pop("factor"))
    if not 0 < decay < math.inf:
        raise InvalidOptionError(f"schedule: expected a positive factor, got {decay:g}")
    return StepSchedule(every, decay)


_READERS: Mapping[str, Callable[[dict[str, str]], Schedule]] = {
    "constant": _constant,
    "linear": _linear,
    "cosine": _cosine,
    "step": _step,
}


def _count(text: str, least: int) -> int:
    count = int(text)
    if count < least:
        raise InvalidOptionError(f"schedule: expected a number of updates of at least {least}, got {count}")
    return count


def _warmed_up(builder: StepBuilder, at: Value, warmup: int) -> Value:
    if not warmup:
        return builder.number_for(1, at)
    share = builder.scaled(at, Fraction(1, warmup))
    return builder.apply(Minimum(), share, builder.number_for(1, at))


def _product(builder: StepBuilder, left: Value, right: Value) -> Value:
    return right if left == builder.number_for(1, left) else builder.apply(Multiply(), left, right)


def _sine(builder: StepBuilder, share: Value) -> Value:
    """sin(pi x) for x between -1/2 and 1/2, by Horner's rule."""
    square = builder.apply(Multiply(), share, share)
    series: Value = builder.number_for(_sine_coefficient(_SINE_TERMS - 1), share)
    for term in reversed(range(_SINE_TERMS - 1)):
        series = builder.apply(Multiply(), series, square)
        series = builder.apply(Add(), series, builder.number_for(_sine_coefficient(term), share))
    return builder.apply(Multiply(), series, share)


def _sine_coefficient(term: int) -> Number:
    return decimal((-1) ** term * math.pi ** (2 * term + 1) / math.factorial(2 * term + 1))
