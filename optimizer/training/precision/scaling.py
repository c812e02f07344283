"""Dynamic scaling of the loss, so that gradients are within the range of float16, as nodes of the step.

Micikevicius et al., "Mixed precision training", section 3.2: gradients are those of the loss times a scale, a
power of two, and are divided by it before anything else. A call whose gradients are not all finite halves the
scale and changes nothing else; after a number of finite ones in a row it doubles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.arithmetic import Add, Divide, Scale
from superopt.ops.elementwise.order import Absolute, Maximum, Minimum
from superopt.ops.elementwise.selection import Equal, Greater
from superopt.optimizer.training.builder import SCALAR, StepBuilder
from superopt.optimizer.training.description import Role

LOSS_SCALE, FINITE_CALLS = "loss_scale", "loss_scale.finite_calls"
"""States: the scale, and the number of the next call since the last change of the scale, from 1."""

LARGEST_SCALE, SMALLEST_SCALE = 2.0**24, 2.0**-14
INITIAL_SCALE = 2.0**16
"""The scale of the first call, where nothing is known about the gradients."""

GROWTH_CALLS = 2000
"""Finite calls after which the scale doubles, as in the paper."""

_LARGEST_FINITE = Fraction(float(np.finfo(np.float32).max))


@dataclass(frozen=True, slots=True)
class Unscaled:
    """Gradients without the scale, and a 0-d truth value: whether all are finite."""

    gradients: Mapping[str, Value]
    finite: Value


class LossScaling:
    """The states of the scale, added to a graph before it is differentiated; ``scale`` is the cotangent of
    the loss."""

    def __init__(self, builder: StepBuilder, initial: float) -> None:
        self._builder = builder
        scalar = TensorType(ElementType.FLOAT, SCALAR)
        counter = TensorType(ElementType.INT64, SCALAR)
        self.scale = builder.state(LOSS_SCALE, Role.SCALE, np.asarray(initial, np.float32), scalar, None)
        first = np.asarray(1, np.int64)
        self._calls = builder.state(FINITE_CALLS, Role.COUNTER, first, counter, None)

    def unscaled(self, gradients: Mapping[str, Value]) -> Unscaled:
        """Divides gradients by the scale and hands on the scale's states."""
        builder = self._builder
        inverse = builder.apply(Divide(), builder.number_for(1, self.scale), self.scale)
        finite = builder.apply(
            Greater(), builder.number_for(_LARGEST_FINITE, self.scale), self._sum(gradients.values())
        )
        self._hand_on(finite)
        return Unscaled(
            {name: builder.apply(Scale(), value, inverse) for name, value in gradients.items()}, finite
        )

    def _sum(self, gradients: Iterable[Value]) -> Value:
        """The sum of all absolute values, which is not finite if one of them is not."""
        builder = self._builder
        total, *others = (builder.total(builder.apply(Absolute(), value)) for value in gradients)
        for other in others:
            total = builder.apply(Add(), total, other)
        return total

    def _hand_on(self, finite: Value) -> None:
        builder, scale, calls = self._builder, self.scale, self._calls
        grows = builder.apply(Equal(), calls, builder.number_for(GROWTH_CALLS, calls))
        larger = builder.apply(
            Minimum(), builder.scaled(scale, 2), builder.number_for(Fraction(LARGEST_SCALE), scale)
        )
        halved = builder.scaled(scale, Fraction(1, 2))
        smaller = builder.apply(Maximum(), halved, builder.number_for(Fraction(SMALLEST_SCALE), scale))
        kept = builder.chosen(grows, larger, scale)
        builder.hand_on(LOSS_SCALE, builder.chosen(finite, kept, smaller))
        first = builder.number_for(1, calls)
        counted = builder.chosen(grows, first, builder.shifted(calls, 1))
        builder.hand_on(FINITE_CALLS, builder.chosen(finite, counted, first))


def fitting_scale(largest: float, limit: float) -> float:
    """The largest power of two by which numbers up to ``largest`` stay below a limit, at most
    ``INITIAL_SCALE``; ``SMALLEST_SCALE`` where there is none, or numbers are not finite."""
    if not math.isfinite(largest):
        return SMALLEST_SCALE
    if largest <= 0:
        return INITIAL_SCALE
    power = 2.0 ** math.floor(math.log2(limit / largest))
    return min(max(power, SMALLEST_SCALE), INITIAL_SCALE)


__all__ = ["FINITE_CALLS", "INITIAL_SCALE", "LOSS_SCALE", "LossScaling", "Unscaled", "fitting_scale"]
