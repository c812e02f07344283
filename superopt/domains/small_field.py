"""Residues modulo a prime near 2^21, so small that float64 matrix products are exact: fast fingerprints.

An array holds residues, and beside them only what some operator will ask for: a float shadow, which decides
order (relu, max), and exponents, on which ``exp`` acts as x -> g^x as in ``superopt.domains.prime_field``.
One residue tells two polynomials of degree d apart but for a chance of d / 2^21; three independent ones make
a key of 63 bits.

Residues are centred, at most 2^20 in size, and held as float32. A product is below 2^40, a sum of 1024 of
them below 2^50; of such a number x, x / p is known to 2^-23 and never nearer than 2^-22 to a half, so that
rounding it finds the residue without correction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.domains.base import Array, Domain, Rearrangement
from superopt.domains.floats import FloatDomain, quotients
from superopt.errors import UnsupportedError

PRIME = 2097143
ORDER = 1048571
"""A prime; 2 ORDER = PRIME - 1, and 4 generates the subgroup of that order."""

LONGEST_SUM = 1 << 10

Residues: TypeAlias = "npt.NDArray[np.float32]"
Wide: TypeAlias = "npt.NDArray[np.float64]"

_FLOATS = FloatDomain(np.float64)


@dataclass(frozen=True, slots=True)
class SmallArray:
    """Stacked residues modulo PRIME; approximate values and exponents modulo ORDER where they are carried.

    An exponent is NaN where the value came from an exponential: it is then a hash of the residue.
    """

    residue: Residues
    shadow: Wide | None = None
    exponent: Residues | None = None

    def each(self, function: Rearrangement) -> SmallArray:
        """The function applied to every part that is carried."""
        return SmallArray(
            function(self.residue),
            None if self.shadow is None else function(self.shadow),
            None if self.exponent is None else function(self.exponent),
        )

    @property
    def bytes(self) -> int:
        """The memory of all parts."""
        return sum(part.nbytes for part in (self.residue, self.shadow, self.exponent) if part is not None)


class SmallFieldDomain(Domain[SmallArray]):
    """Arithmetic modulo PRIME; a result carries what all its arguments carry.

    Raises UnsupportedError where order is asked of arrays without shadows, or ``exp`` of arrays without
    exponents.
    """

    def shape(self, array: SmallArray) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return array.residue.shape[1:]

    def rearrange(self, function: Rearrangement, array: SmallArray) -> SmallArray:
        """Applies the function to all parts."""
        return array.each(function)

    def concatenate(self, arrays: Sequence[SmallArray], axis: int) -> SmallArray:
        """Joins all parts."""
        shadows = [array.shadow for array in arrays if array.shadow is not None]
        exponents = [array.exponent for array in arrays if array.exponent is not None]
        return SmallArray(
            _FLOATS.concatenate([array.residue for array in arrays], axis),
            _FLOATS.concatenate(shadows, axis) if len(shadows) == len(arrays) else None,
            _FLOATS.concatenate(exponents, axis) if len(exponents) == len(arrays) else None,
        )

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> SmallArray:
        """The quotients in both fields and as floats."""
        return SmallArray(
            _quotients(numerators, denominators, PRIME)[np.newaxis],
            quotients(numerators, denominators)[np.newaxis],
            _quotients(numerators, denominators, ORDER)[np.newaxis],
        )

    def rational(self, value: Fraction | int | float) -> SmallArray:
        """The number in both fields and as a float, made once."""
        return _rational(Fraction(value))

    def add(self, left: SmallArray, right: SmallArray) -> SmallArray:
        """Sum in both fields."""
        return SmallArray(
            _short(_FLOATS.add(left.residue, right.residue), PRIME),
            _both(_FLOATS.add, left.shadow, right.shadow),
            _both(lambda a, b: _short(_FLOATS.add(a, b), ORDER), left.exponent, right.exponent),
        )

    def negate(self, array: SmallArray) -> SmallArray:
        """Negation in both fields."""
        return array.each(np.negative)

    def multiply(self, left: SmallArray, right: SmallArray) -> SmallArray:
        """Product in both fields."""
        return self._product(_FLOATS.multiply, left, right, 1)

    def matmul(self, left: SmallArray, right: SmallArray) -> SmallArray:
        """Matrix product in both fields, exact."""
        return self._product(_FLOATS.matmul, left, right, left.residue.shape[-1])

    def sum(self, array: SmallArray, axis: int) -> SmallArray:
        """Sum along an axis in both fields."""
        return SmallArray(
            reduced(array.residue.sum(axis=axis + 1, dtype=np.float64)),
            None if array.shadow is None else _FLOATS.sum(array.shadow, axis),
            None
            if array.exponent is None
            else reduced(array.exponent.sum(axis=axis + 1, dtype=np.float64), ORDER),
        )

    def reciprocal(self, array: SmallArray) -> SmallArray:
        """Modular inverses; 0 for 0."""
        return SmallArray(
            _power(array.residue, PRIME - 2, PRIME),
            None if array.shadow is None else _FLOATS.reciprocal(array.shadow),
            None if array.exponent is None else _power(array.exponent, ORDER - 2, ORDER),
        )

    def maximum(self, left: SmallArray, right: SmallArray) -> SmallArray:
        """The argument whose shadow is larger.

        Shadows of equal values differ by rounding, but which of two equal residues is taken does not matter.
        """
        if left.shadow is None or right.shadow is None:
            raise UnsupportedError("order is asked of residues without shadows")
        rank = max(left.shadow.ndim, right.shadow.ndim)
        first, second = _of_rank(left.shadow, rank), _of_rank(right.shadow, rank)
        with np.errstate(invalid="ignore"):
            larger = np.greater_equal(first, second)

        def chosen(a: Array, b: Array) -> Array:
            return np.where(larger, _of_rank(a, rank), _of_rank(b, rank))

        return SmallArray(
            chosen(left.residue, right.residue),
            _FLOATS.maximum(first, second),
            _both(chosen, left.exponent, right.exponent),
        )

    def _element(self, array: SmallArray, axis: int, index: int) -> SmallArray:
        """A view: nobody writes into it."""
        place = (slice(None),) * (axis + 1) + (index,)
        return array.each(lambda part: part[place])

    def exp(self, array: SmallArray) -> SmallArray:
        """g to the power of the exponent."""
        if array.exponent is None:
            raise UnsupportedError("exp is asked of residues without exponents")
        exponent = np.mod(array.exponent, ORDER)
        hashed = np.isnan(exponent)
        if hashed.any():
            exponent = np.where(hashed, _hashed(array.residue, "exp") % ORDER, exponent)
        residue = _power_of(4, exponent.astype(np.int64))
        return _derived(residue, None if array.shadow is None else _FLOATS.exp(array.shadow))

    def sqrt(self, array: SmallArray) -> SmallArray:
        """x^((p+1)/4): multiplicative, and a square root of every square, up to its sign."""
        return _derived_from(
            array,
            _power(array.residue, (PRIME + 1) // 4, PRIME),
            None if array.shadow is None else _FLOATS.sqrt(np.abs(array.shadow)),
        )

    def apply(self, function: str, array: SmallArray, parameters: tuple[Fraction, ...] = ()) -> SmallArray:
        """A random function: a keyed hash of the residue; the shadow is a smooth function of the shadow."""
        key = f"{function}{parameters}"
        shadow = None
        if array.shadow is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                shadow = np.sin(array.shadow * (1 + _key(key) % 7) + _key(key) % 1000)
        return _derived_from(array, reduced((_hashed(array.residue, key) % PRIME).astype(np.float64)), shadow)

    def _product(
        self, product: Callable[[Array, Array], Array], left: SmallArray, right: SmallArray, length: int
    ) -> SmallArray:
        exponent = None
        if left.exponent is not None and right.exponent is not None:
            exponent = _exact(product, left.exponent, right.exponent, length, ORDER)
            hashed = np.isnan(left.exponent), np.isnan(right.exponent)
            if hashed[0].any() or hashed[1].any():
                one = product(hashed[0].astype(np.float64), _is_not_zero(right))
                other = product(_is_not_zero(left), hashed[1].astype(np.float64))
                finite = _exact(
                    product, np.nan_to_num(left.exponent), np.nan_to_num(right.exponent), length, ORDER
                )
                exponent = np.where(one + other > 0, np.float32(np.nan), finite)
        return SmallArray(
            _exact(product, left.residue, right.residue, length, PRIME),
            _both(product, left.shadow, right.shadow),
            exponent,
        )


def reduced(values: Wide, modulus: int = PRIME) -> Residues:
    """The centred residues of whole numbers below 2^50; the array given is overwritten."""
    return reduced_in_place(values, modulus).astype(np.float32)


def reduced_in_place(values: Wide, modulus: int = PRIME) -> Wide:
    """The same, as float64, in the array given."""
    quotient = values * (1.0 / modulus)
    np.rint(quotient, out=quotient)
    quotient *= modulus
    values -= quotient
    return values


def exact_matmul(left: Wide, right: Wide) -> Wide:
    """The residues of a matrix product of residues, all float64."""
    length = left.shape[-1]
    if length <= LONGEST_SUM:
        return reduced_in_place(np.matmul(left, right))
    cut = length // 2
    first = exact_matmul(left[..., :cut], right[..., :cut, :])
    return reduced_in_place(first + exact_matmul(left[..., cut:], right[..., cut:, :]))


def random_array(
    generator: np.random.Generator, stack: int, shape: tuple[int, ...], *, like: SmallArray
) -> SmallArray:
    """Uniform residues that carry what ``like`` carries; no element has one sign in all of the stack."""
    full = (stack, *shape)
    residue = generator.integers(1, PRIME, full).astype(np.float64)
    exponent = generator.integers(1, ORDER, full).astype(np.float64)
    shadow = generator.normal(size=full)
    if stack > 1:
        one_sign = np.abs(np.sign(shadow).sum(axis=0)) == stack
        turned = generator.integers(0, stack, shape)
        shadow *= np.where(one_sign & (np.arange(stack).reshape(-1, *(1,) * len(shape)) == turned), -1, 1)
    return SmallArray(
        reduced(residue),
        None if like.shadow is None else shadow,
        None if like.exponent is None else reduced(exponent, ORDER),
    )


def _short(values: Array, modulus: int) -> Residues:
    """The centred residues of a sum of two, in float32, where it is exact."""
    quotient = np.rint(values * np.float32(1.0 / modulus))
    quotient *= np.float32(modulus)
    return values - quotient


def _of_rank(array: Array, rank: int) -> Array:
    return array.reshape((array.shape[0], *(1,) * (rank - array.ndim), *array.shape[1:]))


def _both(function: Callable[[Array, Array], Array], left: Array | None, right: Array | None) -> Array | None:
    return None if left is None or right is None else function(left, right)


def _exact(
    product: Callable[[Array, Array], Array], left: Residues, right: Residues, length: int, modulus: int
) -> Residues:
    if length <= LONGEST_SUM:
        return reduced(product(left.astype(np.float64), right.astype(np.float64)), modulus)
    cut = length // 2
    first = _exact(product, left[..., :cut], right[..., :cut, :], cut, modulus)
    second = _exact(product, left[..., cut:], right[..., cut:, :], length - cut, modulus)
    return _short(first + second, modulus)


def _derived(residue: Residues, shadow: Wide | None) -> SmallArray:
    return SmallArray(residue, shadow, np.full(residue.shape, np.nan, np.float32))


def _derived_from(array: SmallArray, residue: Residues, shadow: Wide | None) -> SmallArray:
    return SmallArray(residue, shadow) if array.exponent is None else _derived(residue, shadow)


def _is_not_zero(array: SmallArray) -> Wide:
    return ((array.residue != 0) | (array.exponent != 0)).astype(np.float64)


@lru_cache(maxsize=4096)
def _rational(value: Fraction) -> SmallArray:
    """One number in both fields and as a float; nobody writes into it."""
    made = SmallFieldDomain().constant(np.array(value.numerator), np.array(value.denominator))
    for part in (made.residue, made.shadow, made.exponent):
        assert part is not None
        part.flags.writeable = False
    return made


def _quotients(numerators: Array, denominators: Array, modulus: int) -> Residues:
    top = np.asarray(numerators % modulus, np.float64)
    inverse = _power(np.asarray(denominators % modulus, np.float64), modulus - 2, modulus)
    return np.asarray(reduced(np.atleast_1d(top * inverse), modulus)).reshape(np.shape(top * inverse))


def _power(base: Array, exponent: int, modulus: int) -> Residues:
    """Elementwise modular power by repeated squaring."""
    square = np.atleast_1d(np.array(base, np.float64))
    result = np.ones(square.shape)
    while exponent:
        if exponent & 1:
            result = reduced_in_place(result * square, modulus)
        square = reduced_in_place(square * square, modulus)
        exponent >>= 1
    return result.astype(np.float32).reshape(np.shape(base))


def _power_of(base: int, exponents: npt.NDArray[np.int64]) -> Residues:
    """``base`` to each of the powers."""
    result = np.ones(exponents.shape)
    square = float(base)
    remaining = exponents.copy()
    while remaining.any():
        result = np.where(remaining & 1, reduced_in_place(result * square), result)
        square = float(int(square) ** 2 % PRIME)
        remaining >>= 1
    return reduced(result)


def _key(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=7).digest(), "big")


def _hashed(residue: Residues, key: str) -> npt.NDArray[np.int64]:
    """A keyed 63-bit mixing of every element (the finaliser of SplitMix64)."""
    mixed = residue.astype(np.int64).astype(np.uint64) + np.uint64(_key(key))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
