"""Residues modulo a prime with a float shadow that decides order: exact fingerprints of tensor programs.

Ring identities hold exactly; two different polynomials of degree d agree on a random point with probability
at most d / p. ``relu`` and ``max`` are decided by the shadow, so that order keeps its real identities.
``exp`` is the homomorphism x -> g^x from residues modulo p' (the *exponent*, stored with the residue) to
residues modulo p, where p' divides p - 1. The result of an exponential, or of another function outside the
ring, has a *derived* exponent: a keyed hash of its residue, so that equal values keep equal exponents (the
construction of Mirage, OSDI 2025, section 5). As a consequence, only the exponential of a value from which an
exponential has cancelled, as in exp(exp(x) / exp(x)), differs from exp(1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from superopt.domains.base import Array, Domain, Rearrangement
from superopt.domains.floats import FloatDomain, quotients
from superopt.domains.modular import inverse, power

EXPONENT_PRIME = 1073741789
MODULUS = 2147483579
BASE = 271828**2 % MODULUS
"""Base of exponentials, as in ``superopt.domains.small_field``."""
DERIVED = -1
"""Marks a derived exponent, which is a hash of the residue."""

_TERMS_PER_PRODUCT = 1 << 15
_DIGIT_BITS = 10


@dataclass(frozen=True, slots=True)
class FieldArray:
    """Stacked residues modulo MODULUS, exponents modulo EXPONENT_PRIME or DERIVED, approximate values."""

    residue: npt.NDArray[np.int64]
    exponent: npt.NDArray[np.int64]
    shadow: npt.NDArray[np.float64]


class PrimeFieldDomain(Domain[FieldArray]):
    """Exact arithmetic for fingerprints; see the module docstring."""

    def __init__(self) -> None:
        self._floats = FloatDomain(np.float64)

    def random(self, generator: np.random.Generator, stack: int, shape: tuple[int, ...]) -> FieldArray:
        """Uniform residues, with shadows distributed around 0."""
        full = (stack, *shape)
        return FieldArray(
            generator.integers(1, MODULUS, full, dtype=np.int64),
            generator.integers(1, EXPONENT_PRIME, full, dtype=np.int64),
            generator.normal(size=full),
        )

    def shape(self, array: FieldArray) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return array.residue.shape[1:]

    def rearrange(self, function: Rearrangement, array: FieldArray) -> FieldArray:
        """Applies the function to all three parts."""
        return FieldArray(function(array.residue), function(array.exponent), function(array.shadow))

    def concatenate(self, arrays: Sequence[FieldArray], axis: int) -> FieldArray:
        """Concatenates all three parts."""
        return FieldArray(
            self._floats.concatenate([array.residue for array in arrays], axis),
            self._floats.concatenate([array.exponent for array in arrays], axis),
            self._floats.concatenate([array.shadow for array in arrays], axis),
        )

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> FieldArray:
        """The quotients in both fields and as floats."""
        return FieldArray(
            _quotients(numerators, denominators, MODULUS)[np.newaxis],
            _quotients(numerators, denominators, EXPONENT_PRIME)[np.newaxis],
            quotients(numerators, denominators)[np.newaxis],
        )

    def rational(self, value: Fraction | int | float) -> FieldArray:
        """The number in both fields and as a float, cached."""
        return _rational(Fraction(value))

    def add(self, left: FieldArray, right: FieldArray) -> FieldArray:
        """Sum in both fields."""
        exponent = self._floats.add(left.exponent, right.exponent) % EXPONENT_PRIME
        if _has_derived(left) or _has_derived(right):
            exponent[self._floats.add(left.exponent < 0, right.exponent < 0)] = DERIVED
        return FieldArray(
            self._floats.add(left.residue, right.residue) % MODULUS,
            exponent,
            self._floats.add(left.shadow, right.shadow),
        )

    def negate(self, array: FieldArray) -> FieldArray:
        """Negation in both fields."""
        exponent = -array.exponent % EXPONENT_PRIME
        if _has_derived(array):
            exponent[array.exponent < 0] = DERIVED
        return FieldArray(-array.residue % MODULUS, exponent, -array.shadow)

    def multiply(self, left: FieldArray, right: FieldArray) -> FieldArray:
        """Product in both fields."""
        exponent = self._floats.multiply(left.exponent, right.exponent) % EXPONENT_PRIME
        if _has_derived(left) or _has_derived(right):
            exponent[self._derived_by(self._floats.multiply, left, right)] = DERIVED
        return FieldArray(
            self._floats.multiply(left.residue, right.residue) % MODULUS,
            exponent,
            self._floats.multiply(left.shadow, right.shadow),
        )

    def matmul(self, left: FieldArray, right: FieldArray) -> FieldArray:
        """Matrix product in both fields, exact."""
        exponent = self._matmul(left.exponent, right.exponent, EXPONENT_PRIME)
        if _has_derived(left) or _has_derived(right):
            exponent[self._derived_by(self._floats.matmul, left, right)] = DERIVED
        return FieldArray(
            self._matmul(left.residue, right.residue, MODULUS),
            exponent,
            self._floats.matmul(left.shadow, right.shadow),
        )

    def sum(self, array: FieldArray, axis: int) -> FieldArray:
        """Sum along an axis in both fields."""
        exponent = array.exponent.sum(axis=axis + 1) % EXPONENT_PRIME
        if _has_derived(array):
            exponent[(array.exponent < 0).any(axis=axis + 1)] = DERIVED
        return FieldArray(
            array.residue.sum(axis=axis + 1) % MODULUS, exponent, self._floats.sum(array.shadow, axis)
        )

    def reciprocal(self, array: FieldArray) -> FieldArray:
        """Modular inverses; 0 for 0."""
        exponent = inverse(np.maximum(array.exponent, 0), EXPONENT_PRIME)
        if _has_derived(array):
            exponent[array.exponent < 0] = DERIVED
        return FieldArray(inverse(array.residue, MODULUS), exponent, self._floats.reciprocal(array.shadow))

    def maximum(self, left: FieldArray, right: FieldArray) -> FieldArray:
        """The argument whose shadow is larger."""
        larger = self._floats.subtract(left.shadow, right.shadow) >= 0
        zeros = np.zeros_like(larger, dtype=np.int64)
        shadow = self._floats.maximum(left.shadow, right.shadow)
        return FieldArray(
            np.where(larger, self._floats.add(left.residue, zeros), self._floats.add(right.residue, zeros)),
            np.where(larger, self._floats.add(left.exponent, zeros), self._floats.add(right.exponent, zeros)),
            shadow,
        )

    def select(self, condition: FieldArray, left: FieldArray, right: FieldArray) -> FieldArray:
        """The argument chosen by the shadow of the condition."""
        select, shadow = self._floats.select, condition.shadow
        return FieldArray(
            select(shadow, left.residue, right.residue),
            select(shadow, left.exponent, right.exponent),
            select(shadow, left.shadow, right.shadow),
        )

    def exp(self, array: FieldArray) -> FieldArray:
        """g to the power of the exponent."""
        exponent = array.exponent
        if _has_derived(array):
            exponent = np.where(exponent < 0, _hashed(array.residue, "exp") % EXPONENT_PRIME, exponent)
        return _derived(_powers_of_base(exponent), self._floats.exp(array.shadow))

    def sqrt(self, array: FieldArray) -> FieldArray:
        """x^((p+1)/4): multiplicative, and a square root of every square, up to sign."""
        residue = power(array.residue, (MODULUS + 1) // 4, MODULUS)
        return _derived(residue, self._floats.sqrt(np.abs(array.shadow)))

    def apply(self, function: str, array: FieldArray, parameters: tuple[Fraction, ...] = ()) -> FieldArray:
        """A random function: a keyed hash of the residue; the shadow is a smooth function of the shadow."""
        key = f"{function}{parameters}"
        with np.errstate(invalid="ignore", over="ignore"):
            shadow = np.sin(array.shadow * (1 + _key(key) % 7) + _key(key) % 1000)
        return _derived(_hashed(array.residue, key) % MODULUS, shadow)

    def _matmul(
        self, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], modulus: int
    ) -> npt.NDArray[np.int64]:
        """Splits one factor into 16-bit halves and long sums into parts, so that 63 bits suffice."""
        length = left.shape[-1]
        if length > _TERMS_PER_PRODUCT:
            cut = length // 2
            first = self._matmul(left[..., :cut], right[..., :cut, :], modulus)
            return (first + self._matmul(left[..., cut:], right[..., cut:, :], modulus)) % modulus
        high = self._floats.matmul(left >> 16, right) % modulus
        low = self._floats.matmul(left & 0xFFFF, right) % modulus
        return ((high << 16) + low) % modulus

    def _derived_by(
        self, product: Callable[[Array, Array], Array], left: FieldArray, right: FieldArray
    ) -> npt.NDArray[np.bool_]:
        """Where a product has a derived factor and the other is not exactly 0."""
        one = product((left.exponent < 0).astype(np.float64), _is_not_zero(right))
        other = product(_is_not_zero(left), (right.exponent < 0).astype(np.float64))
        return one + other > 0


def _has_derived(array: FieldArray) -> bool:
    return bool((array.exponent < 0).any())


def _derived(residue: npt.NDArray[np.int64], shadow: npt.NDArray[np.float64]) -> FieldArray:
    return FieldArray(residue, np.full(residue.shape, DERIVED, np.int64), shadow)


def _is_not_zero(array: FieldArray) -> npt.NDArray[np.float64]:
    return ((array.residue != 0) | (array.exponent != 0)).astype(np.float64)


@lru_cache(maxsize=4096)
def _rational(value: Fraction) -> FieldArray:
    """The number in both fields and as a float; read-only."""
    top, bottom = np.array(value.numerator), np.array(value.denominator)
    parts = FieldArray(
        _quotients(top, bottom, MODULUS)[np.newaxis],
        _quotients(top, bottom, EXPONENT_PRIME)[np.newaxis],
        quotients(top, bottom)[np.newaxis],
    )
    for part in (parts.residue, parts.exponent, parts.shadow):
        part.flags.writeable = False
    return parts


def _quotients(numerators: Array, denominators: Array, modulus: int) -> npt.NDArray[np.int64]:
    if (denominators == 1).all():
        return np.asarray(numerators % modulus, np.int64)
    return _multiply(numerators % modulus, inverse(denominators % modulus, modulus), modulus)


def _multiply(left: Array, right: Array, modulus: int) -> npt.NDArray[np.int64]:
    return np.asarray(left, np.int64) * np.asarray(right, np.int64) % modulus


@lru_cache(maxsize=1)
def _powers_by_digit() -> tuple[npt.NDArray[np.int64], ...]:
    """BASE to the power of every value of each digit of an exponent."""
    digits = np.arange(1 << _DIGIT_BITS)
    return tuple(
        np.array([pow(BASE, int(digit) << shift, MODULUS) for digit in digits])
        for shift in range(0, EXPONENT_PRIME.bit_length(), _DIGIT_BITS)
    )


def _powers_of_base(exponents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """BASE to the power of each exponent below EXPONENT_PRIME, as a product over its digits."""
    result = np.ones(exponents.shape, np.int64)
    for place, powers in enumerate(_powers_by_digit()):
        digits = (exponents >> (place * _DIGIT_BITS)) & ((1 << _DIGIT_BITS) - 1)
        result = result * powers[digits] % MODULUS
    return result


def _key(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=7).digest(), "big")


def _hashed(values: npt.NDArray[np.int64], key: str) -> npt.NDArray[np.int64]:
    """Keyed 63-bit hash of every element (the finaliser of SplitMix64)."""
    mixed = values.astype(np.uint64) + np.uint64(_key(key))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
