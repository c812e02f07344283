"""Elementwise operators defined by order: the larger and smaller of two, absolute value, bounds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.ops.base import OnnxForm, register
from superopt.ops.elementwise.activation import rectified
from superopt.ops.elementwise.affine import ChannelOperator
from superopt.ops.elementwise.arithmetic import BinaryElementwise, UnaryElementwise
from superopt.ops.roles import FusionRole

A = TypeVar("A")


class Extremum(BinaryElementwise):
    """One of two numbers, chosen by their order."""

    comparing: ClassVar[bool] = True
    commutative: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True


@register
@dataclass(frozen=True, slots=True)
class Maximum(Extremum):
    """max(x, y)."""

    name: ClassVar[str] = "maximum"

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The larger one."""
        return (domain.maximum(arrays[0], arrays[1]),)


@register
@dataclass(frozen=True, slots=True)
class Minimum(Extremum):
    """min(x, y)."""

    name: ClassVar[str] = "minimum"
    composite: ClassVar[bool] = True

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The smaller one."""
        return (domain.minimum(arrays[0], arrays[1]),)


@register
@dataclass(frozen=True, slots=True)
class Absolute(UnaryElementwise):
    """max(x, -x)."""

    name: ClassVar[str] = "absolute"
    comparing: ClassVar[bool] = True
    composite: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Abs", since=6)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The larger of x and -x."""
        return (domain.maximum(arrays[0], domain.negate(arrays[0])),)


@register
@dataclass(frozen=True, slots=True)
class Clip(UnaryElementwise):
    """min(max(x, low), high): ``high`` everywhere if the bounds are in the wrong order, as in ONNX."""

    name: ClassVar[str] = "clip"
    comparing: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    role: ClassVar[FusionRole | None] = FusionRole.ACTIVATION
    low: Fraction | int
    high: Fraction | int

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Bounded below, then above."""
        bounded = domain.maximum(arrays[0], domain.rational(self.low))
        return (domain.minimum(bounded, domain.rational(self.high)),)


@register
@dataclass(frozen=True, slots=True)
class LeakyRelu(UnaryElementwise):
    """x where it is positive, else alpha x."""

    name: ClassVar[str] = "leaky_relu"
    comparing: ClassVar[bool] = True
    composite: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    role: ClassVar[FusionRole | None] = FusionRole.ACTIVATION
    onnx: ClassVar[OnnxForm | None] = OnnxForm("LeakyRelu", attributes=(("alpha", "alpha"),), since=6)
    alpha: Fraction | int = Fraction(1, 100)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The positive part, and alpha times the negative part."""
        (x,) = arrays
        positive = rectified(domain, x)
        negative = domain.subtract(x, positive)
        return (domain.add(positive, domain.multiply(negative, domain.rational(self.alpha))),)


@register
@dataclass(frozen=True, slots=True)
class PRelu(ChannelOperator):
    """x times a slope per channel where x is negative, else x; then the slope may be undefined."""

    name: ClassVar[str] = "prelu"
    polynomial: ClassVar[bool] = False
    comparing: ClassVar[bool] = True
    composite: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    role: ClassVar[FusionRole | None] = None
    axis: int

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The product where the negated data is positive, else the data."""
        data, slope = arrays
        sloped = domain.multiply(data, self.spread(domain, data, slope))
        return (domain.select(domain.negate(data), sloped, data),)
