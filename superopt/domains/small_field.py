"""Residues modulo a prime near 2^21, for which float64 matrix products are exact: fast fingerprints.

An array holds residues, and in addition only what some operator needs: a float shadow, which decides order
(relu, max), and exponents, on which ``exp`` acts as x -> g^x as in ``superopt.domains.prime_field``. One
residue fails to distinguish two polynomials of degree d with probability at most d / 2^21; three independent
ones make a 63-bit key.

Residues are centred, at most 2^20 in size, and held as float32. A product is below 2^40, a sum of 1024 of
them below 2^50; for such a number x, x / p is known to 2^-23 and never within 2^-22 of a half, so that
rounding gives the exact residue.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import HOST, Array, Device, Namespace, aligned, namespace, round_in_place
from superopt.domains.base import Domain, Rearrangement
from superopt.domains.floats import quotients
from superopt.errors import UnsupportedError

PRIME = 2097143
ORDER = 1048571
"""A prime; 2 ORDER = PRIME - 1."""

BASE = 271828**2 % PRIME
"""Base of exponentials: a square, so that it generates the subgroup of order ORDER, and such that
exponentials of small rational numbers are not small rational numbers, as exp(1/2) would be with base 4."""

LONGEST_SUM = 1 << 10

Residues: TypeAlias = "npt.NDArray[np.float32]"
Wide: TypeAlias = "npt.NDArray[np.float64]"


@dataclass(frozen=True, slots=True)
class SmallArray:
    """Stacked residues modulo PRIME, with optional approximate values and exponents modulo ORDER. An exponent
    is NaN where the value came from an exponential: it is then a hash of the residue."""

    residue: Residues
    shadow: Wide | None = None
    exponent: Residues | None = None

    def each(self, function: Rearrangement) -> SmallArray:
        """Applies the function to every part that is present."""
        return SmallArray(
            function(self.residue),
            None if self.shadow is None else function(self.shadow),
            None if self.exponent is None else function(self.exponent),
        )

    @property
    def bytes(self) -> int:
        """Bytes of all parts."""
        shadow = 0 if self.shadow is None else 8 * self.shadow.size
        exponent = 0 if self.exponent is None else 4 * self.exponent.size
        return 4 * self.residue.size + shadow + exponent


class SmallFieldDomain(Domain[SmallArray]):
    """Arithmetic modulo PRIME on arrays of one device; a result has the parts that all its arguments have.
    Residues and exponents are the same on every device; shadows differ by rounding. Raises UnsupportedError
    where order is required of arrays without shadows, or ``exp`` of arrays without exponents."""

    def __init__(self, device: Device = HOST) -> None:
        self._device = device

    def shape(self, array: SmallArray) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return array.residue.shape[1:]

    def rearrange(self, function: Rearrangement, array: SmallArray) -> SmallArray:
        """Applies the function to all parts."""
        return array.each(function)

    def concatenate(self, arrays: Sequence[SmallArray], axis: int) -> SmallArray:
        """Concatenates all parts."""
        shadows = [array.shadow for array in arrays if array.shadow is not None]
        exponents = [array.exponent for array in arrays if array.exponent is not None]
        return SmallArray(
            _concatenated([array.residue for array in arrays], axis),
            _concatenated(shadows, axis) if len(shadows) == len(arrays) else None,
            _concatenated(exponents, axis) if len(exponents) == len(arrays) else None,
        )

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> SmallArray:
        """The quotients in both fields and as floats."""
        return SmallArray(
            _quotients(numerators, denominators, PRIME)[np.newaxis],
            quotients(numerators, denominators)[np.newaxis],
            _quotients(numerators, denominators, ORDER)[np.newaxis],
        ).each(self._device.put)

    def rational(self, value: Fraction | int | float) -> SmallArray:
        """The number in both fields and as a float, cached."""
        return _rational(Fraction(value), self._device)

    def add(self, left: SmallArray, right: SmallArray) -> SmallArray:
        """Sum in both fields."""
        return SmallArray(
            _short(_sum(left.residue, right.residue), PRIME),
            _both(_sum, left.shadow, right.shadow),
            _both(lambda a, b: _short(_sum(a, b), ORDER), left.exponent, right.exponent),
        )

    def negate(self, array: SmallArray) -> SmallArray:
        """Negation in both fields."""
        return array.each(lambda part: -part)

    def multiply(self, left: SmallArray, right: SmallArray) -> SmallArray:
        """Product in both fields."""
        return self._product(_times, left, right, 1)

    def matmul(self, left: SmallArray, right: SmallArray) -> SmallArray:
        """Matrix product in both fields, exact."""
        return self._product(_matmul, left, right, left.residue.shape[-1])

    def sum(self, array: SmallArray, axis: int) -> SmallArray:
        """Sum along an axis in both fields."""
        return SmallArray(
            reduced(_along(array.residue, axis)),
            None if array.shadow is None else _along(array.shadow, axis),
            None if array.exponent is None else reduced(_along(array.exponent, axis), ORDER),
        )

    def reciprocal(self, array: SmallArray) -> SmallArray:
        """Modular inverses; 0 for 0."""
        return SmallArray(
            _power(array.residue, PRIME - 2, PRIME),
            _shadow(array, lambda xp, shadow: xp.reciprocal(shadow)),
            None if array.exponent is None else _power(array.exponent, ORDER - 2, ORDER),
        )

    def maximum(self, left: SmallArray, right: SmallArray) -> SmallArray:
        """The argument whose shadow is larger. Shadows of equal values differ by rounding, but then both
        residues are equal."""
        if left.shadow is None or right.shadow is None:
            raise UnsupportedError("order is asked of residues without shadows")
        first, second = aligned(left.shadow, right.shadow)
        with np.errstate(invalid="ignore"):
            larger = first >= second
            shadow = namespace(first).maximum(first, second)

        def chosen(a: Array, b: Array) -> Array:
            a, b = aligned(a, b)
            return namespace(a).where(larger, a, b)

        return SmallArray(
            chosen(left.residue, right.residue), shadow, _both(chosen, left.exponent, right.exponent)
        )

    def select(self, condition: SmallArray, left: SmallArray, right: SmallArray) -> SmallArray:
        """The argument chosen by the shadow of the condition."""
        if condition.shadow is None:
            raise UnsupportedError("order is asked of residues without shadows")
        first = condition.shadow > 0

        def chosen(a: Array, b: Array) -> Array:
            a, b = aligned(a, b)
            return namespace(a).where(aligned(first, a)[0], *(aligned(first, part)[1] for part in (a, b)))

        parts = ((left.shadow, right.shadow), (left.exponent, right.exponent))
        return SmallArray(chosen(left.residue, right.residue), *(_both(chosen, *pair) for pair in parts))

    def exp(self, array: SmallArray) -> SmallArray:
        """g to the power of the exponent."""
        if array.exponent is None:
            raise UnsupportedError("exp is asked of residues without exponents")
        xp = namespace(array.exponent)
        hashed = xp.isnan(array.exponent)
        own = xp.where(hashed, 0.0, array.exponent)
        exponent = xp.astype(xp.where(own < 0, own + ORDER, own), xp.int64)
        if bool(xp.any(hashed)):
            exponent = xp.where(hashed, _hashed(array.residue, "exp") % ORDER, exponent)
        return _derived(_power_of(BASE, exponent), _shadow(array, lambda xp, shadow: xp.exp(shadow)))

    def sqrt(self, array: SmallArray) -> SmallArray:
        """x^((p+1)/4): multiplicative, and a square root of every square, up to sign."""
        return _derived_from(
            array,
            _power(array.residue, (PRIME + 1) // 4, PRIME),
            _shadow(array, lambda xp, shadow: xp.sqrt(xp.abs(shadow))),
        )

    def apply(self, function: str, array: SmallArray, parameters: tuple[Fraction, ...] = ()) -> SmallArray:
        """A random function: a keyed hash of the residue; the shadow is a smooth function of the shadow."""
        key = f"{function}{parameters}"
        factor, shift = 1 + _key(key) % 7, _key(key) % 1000
        xp = namespace(array.residue)
        return _derived_from(
            array,
            reduced(xp.astype(_hashed(array.residue, key) % PRIME, xp.float64)),
            _shadow(array, lambda xp, shadow: xp.sin(shadow * factor + shift)),
        )

    def _product(
        self, product: Callable[[Array, Array], Array], left: SmallArray, right: SmallArray, length: int
    ) -> SmallArray:
        exponent = None
        if left.exponent is not None and right.exponent is not None:
            xp = namespace(left.exponent)
            first, second = xp.isnan(left.exponent), xp.isnan(right.exponent)
            if bool(xp.any(first)) or bool(xp.any(second)):
                one = product(xp.astype(first, xp.float64), _is_not_zero(right))
                other = product(_is_not_zero(left), xp.astype(second, xp.float64))
                finite = _exact(
                    product,
                    xp.where(first, 0.0, left.exponent),
                    xp.where(second, 0.0, right.exponent),
                    length,
                    ORDER,
                )
                exponent = xp.where(one + other > 0, math.nan, finite)
            else:
                exponent = _exact(product, left.exponent, right.exponent, length, ORDER)
        return SmallArray(
            _exact(product, left.residue, right.residue, length, PRIME),
            _both(product, left.shadow, right.shadow),
            exponent,
        )


def reduced(values: Wide, modulus: int = PRIME) -> Residues:
    """The centred residues of whole numbers below 2^50; overwrites the given array."""
    xp = namespace(values)
    return xp.astype(reduced_in_place(values, modulus), xp.float32)


def reduced_in_place(values: Wide, modulus: int = PRIME) -> Wide:
    """The same, as float64, in place."""
    quotient = values * (1.0 / modulus)
    round_in_place(quotient)
    quotient *= modulus
    values -= quotient
    return values


def exact_matmul(left: Wide, right: Wide) -> Wide:
    """The residues of a matrix product of residues, all float64."""
    length = left.shape[-1]
    if length <= LONGEST_SUM:
        return reduced_in_place(left @ right)
    cut = length // 2
    first = exact_matmul(left[..., :cut], right[..., :cut, :])
    return reduced_in_place(first + exact_matmul(left[..., cut:], right[..., cut:, :]))


def random_array(
    generator: np.random.Generator, stack: int, shape: tuple[int, ...], *, like: SmallArray
) -> SmallArray:
    """Uniform residues with the same parts as ``like``; every element takes both signs within the stack."""
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
    """The centred residues of a sum of two, exact in float32."""
    quotient: Array = values * (1.0 / modulus)
    round_in_place(quotient)
    quotient *= modulus
    return values - quotient


def _both(function: Callable[[Array, Array], Array], left: Array | None, right: Array | None) -> Array | None:
    return None if left is None or right is None else function(left, right)


def _shadow(array: SmallArray, function: Callable[[Namespace, Wide], Wide]) -> Wide | None:
    """A function of the shadow; undefined results do not raise."""
    if array.shadow is None:
        return None
    with np.errstate(all="ignore"):
        return function(namespace(array.shadow), array.shadow)


def _sum(left: Array, right: Array) -> Array:
    first, second = aligned(left, right)
    with np.errstate(over="ignore", invalid="ignore"):
        return first + second


def _times(left: Array, right: Array) -> Array:
    first, second = aligned(left, right)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return first * second


def _matmul(left: Array, right: Array) -> Array:
    first, second = aligned(left, right)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return first @ second


def _along(array: Array, axis: int) -> Wide:
    """The sum along an axis, in float64."""
    xp = namespace(array)
    with np.errstate(over="ignore", invalid="ignore"):
        return xp.sum(array, axis=axis + 1, dtype=xp.float64)


def _concatenated(arrays: Sequence[Array], axis: int) -> Array:
    xp = namespace(arrays[0])
    stack = max(array.shape[0] for array in arrays)
    full = [xp.broadcast_to(array, (stack, *array.shape[1:])) for array in arrays]
    return xp.concat(full, axis=axis + 1)


def _exact(
    product: Callable[[Array, Array], Array], left: Residues, right: Residues, length: int, modulus: int
) -> Residues:
    if length <= LONGEST_SUM:
        xp = namespace(left)
        return reduced(product(xp.astype(left, xp.float64), xp.astype(right, xp.float64)), modulus)
    cut = length // 2
    first = _exact(product, left[..., :cut], right[..., :cut, :], cut, modulus)
    second = _exact(product, left[..., cut:], right[..., cut:, :], length - cut, modulus)
    return _short(first + second, modulus)


def _derived(residue: Residues, shadow: Wide | None) -> SmallArray:
    return SmallArray(residue, shadow, namespace(residue).full_like(residue, math.nan))


def _derived_from(array: SmallArray, residue: Residues, shadow: Wide | None) -> SmallArray:
    return SmallArray(residue, shadow) if array.exponent is None else _derived(residue, shadow)


def _is_not_zero(array: SmallArray) -> Wide:
    assert array.exponent is not None
    xp = namespace(array.residue)
    return xp.astype((array.residue != 0) | (array.exponent != 0), xp.float64)


@lru_cache(maxsize=4096)
def _rational(value: Fraction, device: Device) -> SmallArray:
    """The number in both fields and as a float; read-only."""
    return SmallFieldDomain(device).constant(np.array(value.numerator), np.array(value.denominator))


def _quotients(numerators: Array, denominators: Array, modulus: int) -> Residues:
    top, bottom = (np.asarray(array % modulus, np.float64) for array in (numerators, denominators))
    whole = top * _power(bottom.reshape(-1), modulus - 2, modulus).reshape(bottom.shape)
    return reduced(np.reshape(whole, -1), modulus).reshape(np.shape(whole))


def _power(base: Array, exponent: int, modulus: int) -> Residues:
    """Elementwise modular power by repeated squaring."""
    xp = namespace(base)
    square = xp.astype(base, xp.float64)
    result = xp.ones_like(square)
    while exponent:
        if exponent & 1:
            result = reduced_in_place(result * square, modulus)
        square = reduced_in_place(square * square, modulus)
        exponent >>= 1
    return xp.astype(result, xp.float32)


def _power_of(base: int, exponents: npt.NDArray[np.int64]) -> Residues:
    """``base`` to each of the powers, which are below ORDER."""
    xp = namespace(exponents)
    result, square = xp.ones_like(xp.astype(exponents, xp.float64)), base
    for bit in range(ORDER.bit_length()):
        result = xp.where(((exponents >> bit) & 1) > 0, reduced_in_place(result * float(square)), result)
        square = square**2 % PRIME
    return reduced(result)


def _key(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=7).digest(), "big")


def _hashed(residue: Residues, key: str) -> npt.NDArray[np.int64]:
    """Keyed 63-bit hash of every element (the finaliser of SplitMix64)."""
    xp = namespace(residue)
    mixed = xp.astype(xp.astype(residue, xp.int64), xp.uint64) + _key(key)
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB
    return xp.astype((mixed ^ (mixed >> 31)) >> 1, xp.int64)
