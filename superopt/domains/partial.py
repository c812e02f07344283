"""Partial real numbers: float64 with an error bound; elements may be undefined.

An element is *undefined* where an operator's definition divides by 0, takes the root or a fractional power of
a negative number, a negative power of 0, or the logarithm of a number that is not positive, and where it
depends on an undefined element, even one multiplied by 0. It is *unknown* where rounding or overflow does not
allow to decide whether it is defined, and where it depends on an unknown element. Thus neither overflow nor
rounding is mistaken for undefinedness, and two known elements are different numbers if they differ by more
than their error bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import Array, aligned
from superopt.domains.base import Domain, Rearrangement
from superopt.domains.floats import FloatDomain, quotients
from superopt.errors import UnsupportedError

Floats: TypeAlias = "npt.NDArray[np.float64]"
Flags: TypeAlias = "npt.NDArray[np.bool_]"

_ROUNDING = 2.0**-50
"""Relative rounding error of one operation, overestimated so that bounds need not be rounded upwards."""
_FUNCTION = 1e-14
"""Relative error of a library function, overestimated likewise."""
_TINY = 1e-300
_GRID, _LARGEST, _LONGEST = 2.0**12, 2.0**10, 1 << 8
"""Products of multiples of 2^-12 up to 2^10 are exact, and so are sums of 256 of them."""


@dataclass(frozen=True, slots=True)
class PartialArray:
    """Stacked numbers: NaN where undefined; ``error`` bounds the distance to the real number, infinite where
    unknown."""

    value: Floats
    error: Floats

    @property
    def undefined(self) -> Flags:
        """Where the number is undefined."""
        return np.isnan(self.value)

    @property
    def defined(self) -> Flags:
        """Where the number is known to be defined."""
        return ~self.undefined & np.isfinite(self.error)


class PartialDomain(Domain[PartialArray]):
    """Arithmetic of partial real numbers; see the module docstring."""

    def __init__(self) -> None:
        self._floats = FloatDomain(np.float64)

    def exactly(self, values: Array) -> PartialArray:
        """Stacked exact numbers; NaN is undefined."""
        value = np.asarray(values, np.float64)
        return PartialArray(value, np.zeros(value.shape))

    def shape(self, array: PartialArray) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return array.value.shape[1:]

    def rearrange(self, function: Rearrangement, array: PartialArray) -> PartialArray:
        """Applies the function to values and errors."""
        return PartialArray(function(array.value), function(array.error))

    def concatenate(self, arrays: Sequence[PartialArray], axis: int) -> PartialArray:
        """Concatenates values and errors."""
        return PartialArray(
            self._floats.concatenate([array.value for array in arrays], axis),
            self._floats.concatenate([array.error for array in arrays], axis),
        )

    def constant(
        self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]
    ) -> PartialArray:
        """The quotients, exact where the denominator is a power of two."""
        value = quotients(numerators, denominators)
        exact = (denominators & (denominators - 1) == 0) & (np.abs(numerators) < 2**53)
        error = np.where(np.asarray(exact, np.bool_), 0.0, np.abs(value) * _ROUNDING)
        return PartialArray(value[np.newaxis], error[np.newaxis])

    def add(self, left: PartialArray, right: PartialArray) -> PartialArray:
        """Sum; the rounding error is computed (Knuth's TwoSum), so that it is 0 where there is none."""
        with np.errstate(all="ignore"):
            a, b = aligned(left.value, right.value)
            total = a + b
            second = total - a
            rounding = np.abs((a - (total - second)) + (b - second))
            error = np.add(*aligned(left.error, right.error)) + rounding
        return _known(total, error, np.isnan(a) | np.isnan(b))

    def negate(self, array: PartialArray) -> PartialArray:
        """Negation."""
        return PartialArray(np.negative(array.value), array.error)

    def multiply(self, left: PartialArray, right: PartialArray) -> PartialArray:
        """Product."""
        with np.errstate(all="ignore"):
            a, b = aligned(left.value, right.value)
            d, e = aligned(left.error, right.error)
            product = a * b
            exact = (_on_grid(a) & _on_grid(b)) | (a == 0) | (b == 0)
            rounding = np.where(exact, 0.0, np.abs(product) * _ROUNDING + _TINY)
            error = np.abs(a) * e + d * np.abs(b) + d * e + rounding
        return _known(product, error, np.isnan(a) | np.isnan(b))

    def matmul(self, left: PartialArray, right: PartialArray) -> PartialArray:
        """Matrix product; an element is undefined if its row or its column has an undefined element."""
        a, b = aligned(left.value, right.value)
        d, e = aligned(left.error, right.error)
        in_row, in_column = _any_undefined(a, -1), _any_undefined(b, -2)
        undefined = in_row[..., :, np.newaxis] | in_column[..., np.newaxis, :]
        a, b = np.nan_to_num(a), np.nan_to_num(b)
        with np.errstate(all="ignore"):
            product = np.matmul(a, b)
            size, other = np.abs(a), np.abs(b)
            magnitude = np.matmul(size, other)
            rows, columns = _all_on_grid(a, -1), _all_on_grid(b, -2)
            exact = rows[..., :, np.newaxis] & columns[..., np.newaxis, :] & (a.shape[-1] <= _LONGEST)
            rounding = (a.shape[-1] + 1) * (magnitude * _ROUNDING + _TINY)
            error = np.matmul(size, e) + np.matmul(d, other + e)
            error += np.where(exact | (magnitude == 0), 0.0, rounding)
        return _known(product, error, undefined)

    def sum(self, array: PartialArray, axis: int) -> PartialArray:
        """Sum along an axis."""
        values, axis = array.value, axis + 1
        with np.errstate(all="ignore"):
            total = values.sum(axis=axis)
            rounding = values.shape[axis] * _ROUNDING * np.abs(values).sum(axis=axis)
            exact = _all_on_grid(values, axis) | (values.shape[axis] <= 1)
            error = array.error.sum(axis=axis) + np.where(exact, 0.0, rounding)
        return _known(total, error, _any_undefined(values, axis))

    def reciprocal(self, array: PartialArray) -> PartialArray:
        """1/x, undefined at 0."""
        x, error = array.value, array.error
        with np.errstate(all="ignore"):
            result = 1 / x
            least = np.abs(x) - error
            rounding = np.where(np.abs(np.frexp(x)[0]) == 0.5, 0.0, np.abs(result) * _ROUNDING + _TINY)
            bound = np.where(least > 0, error / (np.abs(x) * least) + rounding, np.inf)
        return _known(result, bound, np.isnan(x) | ((x == 0) & (error == 0)))

    def maximum(self, left: PartialArray, right: PartialArray) -> PartialArray:
        """Elementwise maximum."""
        with np.errstate(all="ignore"):
            a, b = aligned(left.value, right.value)
            d, e = aligned(left.error, right.error)
            error = np.where(a - d > b + e, d, np.where(b - e > a + d, e, np.maximum(d, e)))
            return _known(np.maximum(a, b), error, np.isnan(a) | np.isnan(b))

    def select(self, condition: PartialArray, left: PartialArray, right: PartialArray) -> PartialArray:
        """The chosen one; unknown where the condition may be on either side of 0."""
        c, d = condition.value, condition.error
        with np.errstate(all="ignore"):
            first, decided = c > 0, (c - d > 0) | (c + d <= 0)
        value = self._floats.select(first, left.value, right.value)
        error = self._floats.select(first, left.error, right.error)
        undecided = ~np.broadcast_to(aligned(decided, value)[0], value.shape)
        error = np.where(undecided, np.inf, error)
        chosen = np.isnan(value) & ~undecided
        hidden = np.broadcast_to(aligned(np.isnan(c), value)[0], value.shape)
        return _known(np.where(undecided, 0.0, value), error, chosen | hidden)

    def exp(self, array: PartialArray) -> PartialArray:
        """Exponential."""
        with np.errstate(all="ignore"):
            result = np.exp(array.value)
            rounding = np.where((array.value == 0) & (array.error == 0), 0.0, result * _FUNCTION + _TINY)
            return _known(result, result * np.expm1(array.error) + rounding, array.undefined)

    def sqrt(self, array: PartialArray) -> PartialArray:
        """Square root, undefined below 0."""
        x, error = array.value, array.error
        with np.errstate(all="ignore"):
            result = np.sqrt(np.maximum(x, 0))
            exact = _on_grid(result) & (result * result == x)
            slope = np.where(error > 0, error / (result + np.sqrt(np.maximum(x - error, 0))), 0.0)
            bound = np.where(x - error >= 0, slope + np.where(exact, 0.0, result * _ROUNDING), np.inf)
            return _known(result, bound, np.isnan(x) | (x + error < 0))

    def apply(
        self, function: str, array: PartialArray, parameters: tuple[Fraction, ...] = ()
    ) -> PartialArray:
        """``cos``, ``erf``, ``log``, ``sin``, and ``power`` with non-negative exponents."""
        match function:
            case "cos":
                return self._wave(np.cos, array)
            case "erf":
                return self._erf(array)
            case "log":
                return self._log(array)
            case "sin":
                return self._wave(np.sin, array)
            case "power" if parameters[0].denominator == 1:
                return self._whole_power(array, int(parameters[0]))
            case "power":
                return self._fractional_power(array, float(parameters[0]))
            case _:
                raise UnsupportedError(f"no partial function {function}")

    def _erf(self, array: PartialArray) -> PartialArray:
        value = np.vectorize(math.erf, otypes=[np.float64])(array.value)
        rounding = np.where((array.value == 0) & (array.error == 0), 0.0, _FUNCTION)
        return _known(value, 2 * array.error + rounding, array.undefined)

    def _wave(self, function: Callable[[Floats], Floats], array: PartialArray) -> PartialArray:
        rounding = np.where((array.value == 0) & (array.error == 0), 0.0, _FUNCTION)
        return _known(function(array.value), np.minimum(array.error, 2) + rounding, array.undefined)

    def _log(self, array: PartialArray) -> PartialArray:
        x, error = array.value, array.error
        with np.errstate(all="ignore"):
            result = np.log(np.maximum(x, _TINY))
            rounding = np.where((x == 1) & (error == 0), 0.0, np.abs(result) * _FUNCTION + _ROUNDING)
            bound = np.where(x - error > 0, error / (x - error) + rounding, np.inf)
            return _known(result, bound, np.isnan(x) | (x + error <= 0))

    def _whole_power(self, array: PartialArray, exponent: int) -> PartialArray:
        x, error = array.value, array.error
        with np.errstate(all="ignore"):
            result = np.power(x, exponent)
            slope = exponent * np.power(np.abs(x) + error, max(exponent - 1, 0))
            rounding = np.where(exponent > 0, np.abs(result) * _FUNCTION + _TINY, 0.0)
            bound = np.where(np.isfinite(error), slope * error + rounding, np.inf)
        return _known(result, np.where((x == 0) & (error == 0), 0.0, bound), array.undefined)

    def _fractional_power(self, array: PartialArray, exponent: float) -> PartialArray:
        x, error = array.value, array.error
        with np.errstate(all="ignore"):
            result = np.power(np.maximum(x, 0), exponent)
            above, below = np.power(x + error, exponent) - result, result - np.power(x - error, exponent)
            rounding = np.where((x == 0) & (error == 0), 0.0, result * _FUNCTION + _TINY)
            bound = np.where(x - error >= 0, np.maximum(above, below) + rounding, np.inf)
            return _known(result, bound, np.isnan(x) | (x + error < 0))


def _known(value: Floats, error: Floats, undefined: Flags) -> PartialArray:
    """NaN where undefined; where the value or its error overflows, the error is infinite."""
    unknown = ~(np.isfinite(value) & np.isfinite(error)) & ~undefined
    error = np.where(undefined, 0.0, np.where(unknown, np.inf, error))
    return PartialArray(np.where(undefined, np.nan, np.where(unknown, 0.0, value)), error)


def _any_undefined(values: Floats, axis: int) -> Flags:
    return np.asarray(np.isnan(values).any(axis=axis), np.bool_)


def _all_on_grid(values: Floats, axis: int) -> Flags:
    return np.asarray(_on_grid(values).all(axis=axis), np.bool_)


def _on_grid(values: Floats) -> Flags:
    """Where products are exact: multiples of 2^-12 of limited size."""
    scaled = values * _GRID
    return (scaled == np.rint(scaled)) & (np.abs(values) <= _LARGEST)


__all__ = ["PartialArray", "PartialDomain"]
