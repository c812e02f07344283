"""Floating-point domain: the arithmetic of runtimes, for folding weights and comparing results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import Array, aligned
from superopt.domains.base import Domain, Rearrangement
from superopt.errors import UnsupportedError


class FloatDomain(Domain[Array]):
    """Arrays of one floating point type; ``dtype`` is that of constants."""

    def __init__(self, dtype: npt.DTypeLike = np.float64) -> None:
        self._dtype = np.dtype(dtype)

    def shape(self, array: Array) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return array.shape[1:]

    def rearrange(self, function: Rearrangement, array: Array) -> Array:
        """Applies the function."""
        return function(array)

    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Concatenates along an axis; broadcasts stacks of length 1."""
        stack = max(array.shape[0] for array in arrays)
        full = [np.broadcast_to(array, (stack, *array.shape[1:])) for array in arrays]
        return np.concatenate(full, axis=axis + 1)

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> Array:
        """The quotients, rounded once."""
        with np.errstate(over="ignore", under="ignore"):
            return quotients(numerators, denominators).astype(self._dtype)[np.newaxis]

    def add(self, left: Array, right: Array) -> Array:
        """Sum."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.add(*aligned(left, right))

    def negate(self, array: Array) -> Array:
        """Negation."""
        return np.negative(array)

    def multiply(self, left: Array, right: Array) -> Array:
        """Product."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.multiply(*aligned(left, right))

    def matmul(self, left: Array, right: Array) -> Array:
        """Matrix product."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.matmul(*aligned(left, right))

    def sum(self, array: Array, axis: int) -> Array:
        """Sum along an axis."""
        with np.errstate(over="ignore", invalid="ignore"):
            return array.sum(axis=axis + 1, dtype=array.dtype)

    def reciprocal(self, array: Array) -> Array:
        """1/x, infinite at 0."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            return np.reciprocal(array)

    def maximum(self, left: Array, right: Array) -> Array:
        """Elementwise maximum."""
        with np.errstate(invalid="ignore"):
            return np.maximum(*aligned(left, right))

    def select(self, condition: Array, left: Array, right: Array) -> Array:
        """The chosen one; NaN where the condition is."""
        left, right = aligned(left, right)
        (condition, left), (_, right) = aligned(condition, left), aligned(condition, right)
        with np.errstate(invalid="ignore"):
            chosen = np.where(condition > 0, left, right)
        if condition.dtype.kind != "f" or chosen.dtype.kind != "f":
            return chosen
        return np.where(np.isnan(condition), chosen.dtype.type(np.nan), chosen)

    def rows(self, table: Array, indices: Array) -> Array:
        """The rows at once; NaN where an index is."""
        count, stack = table.shape[1], max(len(table), len(indices))
        unknown = np.isnan(indices) if indices.dtype.kind == "f" else np.zeros(indices.shape, np.bool_)
        whole = indices if indices.dtype.kind in "iu" else np.ceil(np.where(unknown, 0, indices) - 0.5)
        nearest = np.clip(whole, -count, count - 1).astype(np.int64)
        pairs = zip(
            np.resize(np.arange(len(table)), stack), np.resize(np.arange(len(indices)), stack), strict=True
        )
        found = np.stack([table[one][nearest[two]] for one, two in pairs])
        if unknown.any():
            hidden = unknown.reshape(*unknown.shape, *(1,) * (table.ndim - 2))
            found = np.where(hidden, table.dtype.type(np.nan), found)
        return found

    def exp(self, array: Array) -> Array:
        """Exponential."""
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(array)

    def sqrt(self, array: Array) -> Array:
        """Square root; NaN below 0."""
        with np.errstate(invalid="ignore"):
            return np.sqrt(array)

    def apply(self, function: str, array: Array, parameters: tuple[Fraction, ...] = ()) -> Array:
        """``cos``, ``erf``, ``log``, ``power`` and ``sin`` by numpy and math."""
        try:
            implementation = _FUNCTIONS[function]
        except KeyError:
            raise UnsupportedError(f"no floating point implementation of {function}") from None
        return implementation(array, parameters).astype(array.dtype)


def quotients(numerators: Array, denominators: Array) -> npt.NDArray[np.float64]:
    """The quotients of integers of any size (including arrays of Python integers), rounded once."""
    return np.asarray(np.true_divide(numerators, denominators), np.float64)


def _erf(array: Array, _parameters: tuple[Fraction, ...]) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(array)


def _sin(array: Array, _parameters: tuple[Fraction, ...]) -> Array:
    with np.errstate(invalid="ignore"):
        return np.sin(array)


def _cos(array: Array, _parameters: tuple[Fraction, ...]) -> Array:
    with np.errstate(invalid="ignore"):
        return np.cos(array)


def _log(array: Array, _parameters: tuple[Fraction, ...]) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(array)


def _power(array: Array, parameters: tuple[Fraction, ...]) -> Array:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        return np.power(array, float(parameters[0]))


_FUNCTIONS: Mapping[str, Callable[[Array, tuple[Fraction, ...]], Array]] = {
    "cos": _cos,
    "erf": _erf,
    "log": _log,
    "power": _power,
    "sin": _sin,
}
