"""Sizes as floating-point numbers: what exporters write between a Cast to float and a Floor.

``Cast(Floor(Cast(size, float) * 0.5), int)`` is ``size // 2``. Single precision holds products with the
factors that are accepted here exactly, and rounds a quotient to no whole number that it does not reach, for
sizes below 2**24 divided by the numerator of the factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from superopt.errors import SuperoptError
from superopt.ir.bounds import is_not_negative
from superopt.ir.dimensions import Dimension, floor_divide

_FINEST, _LARGEST = 64, 256
"""Largest denominator, a power of two, and largest numerator of a factor."""


class InexactError(SuperoptError):
    """The number is not known exactly."""


@dataclass(frozen=True, slots=True)
class RealSize:
    """``numerator / denominator``, which is not negative."""

    numerator: Dimension
    denominator: int = 1

    @staticmethod
    def of(size: Dimension) -> RealSize:
        """A size as a real number; raises InexactError where it may be negative."""
        if not is_not_negative(size):
            raise InexactError(f"{size} may be negative")
        return RealSize(size)

    def floor(self) -> Dimension:
        """The largest whole number that is not larger."""
        return floor_divide(self.numerator, self.denominator)

    def ceil(self) -> Dimension:
        """The smallest whole number that is not smaller."""
        return floor_divide(self.numerator + (self.denominator - 1), self.denominator)

    def __mul__(self, other: object) -> RealSize:
        factor = _exact(other)
        if self.denominator & (self.denominator - 1) or factor.denominator * self.denominator > _FINEST:
            raise InexactError("a product of fractions")
        return RealSize(self.numerator * factor.numerator, self.denominator * factor.denominator)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> RealSize:
        divisor = _exact(other)
        if self.denominator != 1 or divisor.denominator != 1:
            raise InexactError("a quotient of fractions")
        return RealSize(self.numerator, divisor.numerator)


def _exact(number: object) -> Fraction:
    if not isinstance(number, int | float) or not math.isfinite(number) or number <= 0:
        raise InexactError(f"{number} is not a positive number")
    factor = Fraction(number)
    if factor.denominator > _FINEST or factor.numerator > _LARGEST:
        raise InexactError(f"{number} is rounded")
    return factor


__all__ = ["InexactError", "RealSize"]
