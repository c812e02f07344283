"""Number domain of residues modulo a small prime with lookup tables, for identity testing.

The construction is that of ``superopt.domains.prime_field`` (Mirage, OSDI 2025, section 5): ring operations
are exact; ``maximum`` is decided by a float *shadow*; ``exp`` is the homomorphism x -> g^x from residues
modulo q, the *exponents*, to residues modulo p = 2 q + 1. Here inverses, powers of g and square roots are
looked up, so that one evaluation costs little, and a case is evaluated as often as its error asks for. An
equation without order has no shadows, one without ``exp`` no exponents. With ``exp`` *free*, it is a keyed
hash: what holds then holds whatever function stands in the place of ``exp``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from superopt.domains.base import Array, Domain, Rearrangement
from superopt.domains.floats import FloatDomain
from superopt.domains.modular import inverse

MODULUS = 1047587
EXPONENT_MODULUS = 523793
"""Both prime, MODULUS = 2 EXPONENT_MODULUS + 1, and 3 modulo 8, so that ``sqrt`` is one to one."""

_GENERATOR = 4
_FLOATS = FloatDomain()
Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Residues:
    """Stacked residues modulo MODULUS; exponents where they are known and needed; shadows where needed."""

    residue: Integers
    exponent: Integers | None
    shadow: Reals | None


class ResidueDomain(Domain[Residues]):
    """Exact arithmetic for identity testing; see the module.

    ``ordered`` carries shadows, ``exponential`` carries exponents; without these ``exp`` is a free function.
    """

    def __init__(self, *, ordered: bool, exponential: bool) -> None:
        self._ordered = ordered
        self._exponential = exponential

    def random(self, generator: np.random.Generator, stack: int, shape: tuple[int, ...]) -> Residues:
        """Uniform non-zero residues and exponents, independent of each other and of the shadows."""
        full = (stack, *shape)
        return Residues(
            generator.integers(1, MODULUS, full, dtype=np.int64),
            generator.integers(1, EXPONENT_MODULUS, full, dtype=np.int64) if self._exponential else None,
            generator.normal(size=full) if self._ordered else None,
        )

    def shape(self, array: Residues) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return array.residue.shape[1:]

    def rearrange(self, function: Rearrangement, array: Residues) -> Residues:
        """Applies the function to every part."""
        return Residues(
            function(array.residue),
            None if array.exponent is None else function(array.exponent),
            None if array.shadow is None else function(array.shadow),
        )

    def concatenate(self, arrays: Sequence[Residues], axis: int) -> Residues:
        """Joins every part."""
        exponents = [array.exponent for array in arrays if array.exponent is not None]
        shadows = [array.shadow for array in arrays if array.shadow is not None]
        return Residues(
            _joined([array.residue for array in arrays], axis),
            _joined(exponents, axis) if len(exponents) == len(arrays) else None,
            _joined(shadows, axis) if len(shadows) == len(arrays) else None,
        )

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> Residues:
        """The quotients in both fields and as floats."""
        shadow = np.asarray(np.true_divide(numerators, denominators), np.float64)
        return Residues(
            _quotients(numerators, denominators, MODULUS)[np.newaxis],
            _quotients(numerators, denominators, EXPONENT_MODULUS)[np.newaxis] if self._exponential else None,
            shadow[np.newaxis] if self._ordered else None,
        )

    def rational(self, value: Fraction | int | float) -> Residues:
        """One number, made once."""
        number = _rational(Fraction(value))
        return Residues(
            number.residue,
            number.exponent if self._exponential else None,
            number.shadow if self._ordered else None,
        )

    def add(self, left: Residues, right: Residues) -> Residues:
        """Sum in every part."""
        shape, other = _shapes(left.residue, right.residue)
        exponent = shadow = None
        if left.exponent is not None and right.exponent is not None:
            exponent = (left.exponent.reshape(shape) + right.exponent.reshape(other)) % EXPONENT_MODULUS
        if left.shadow is not None and right.shadow is not None:
            shadow = left.shadow.reshape(shape) + right.shadow.reshape(other)
        return Residues(
            (left.residue.reshape(shape) + right.residue.reshape(other)) % MODULUS, exponent, shadow
        )

    def negate(self, array: Residues) -> Residues:
        """Negation in every part."""
        return Residues(
            -array.residue % MODULUS,
            None if array.exponent is None else -array.exponent % EXPONENT_MODULUS,
            None if array.shadow is None else -array.shadow,
        )

    def multiply(self, left: Residues, right: Residues) -> Residues:
        """Product in every part."""
        shape, other = _shapes(left.residue, right.residue)
        exponent = shadow = None
        if left.exponent is not None and right.exponent is not None:
            exponent = left.exponent.reshape(shape) * right.exponent.reshape(other) % EXPONENT_MODULUS
        if left.shadow is not None and right.shadow is not None:
            shadow = left.shadow.reshape(shape) * right.shadow.reshape(other)
        return Residues(
            left.residue.reshape(shape) * right.residue.reshape(other) % MODULUS, exponent, shadow
        )

    def matmul(self, left: Residues, right: Residues) -> Residues:
        """Matrix product in every part; products are below 2^40, so that 2^23 of them add up exactly."""
        shape, other = _shapes(left.residue, right.residue)
        exponent = shadow = None
        if left.exponent is not None and right.exponent is not None:
            exponent = (
                np.matmul(left.exponent.reshape(shape), right.exponent.reshape(other)) % EXPONENT_MODULUS
            )
        if left.shadow is not None and right.shadow is not None:
            shadow = np.matmul(left.shadow.reshape(shape), right.shadow.reshape(other))
        residue = np.matmul(left.residue.reshape(shape), right.residue.reshape(other)) % MODULUS
        return Residues(residue, exponent, shadow)

    def sum(self, array: Residues, axis: int) -> Residues:
        """Sum along an axis in every part."""
        return Residues(
            array.residue.sum(axis=axis + 1) % MODULUS,
            None if array.exponent is None else array.exponent.sum(axis=axis + 1) % EXPONENT_MODULUS,
            None if array.shadow is None else array.shadow.sum(axis=axis + 1),
        )

    def reciprocal(self, array: Residues) -> Residues:
        """Inverses from the tables; 0 for 0."""
        shadow = None
        if array.shadow is not None:
            with np.errstate(divide="ignore"):
                shadow = np.reciprocal(array.shadow)
        return Residues(
            _tables().inverses[array.residue],
            None if array.exponent is None else _exponent_inverses()[array.exponent],
            shadow,
        )

    def maximum(self, left: Residues, right: Residues) -> Residues:
        """The argument whose shadow is larger."""
        shape, other = _shapes(left.residue, right.residue)
        one, two = _shadow(left).reshape(shape), _shadow(right).reshape(other)
        larger = one >= two
        exponent = None
        if left.exponent is not None and right.exponent is not None:
            exponent = np.where(larger, left.exponent.reshape(shape), right.exponent.reshape(other))
        return Residues(
            np.where(larger, left.residue.reshape(shape), right.residue.reshape(other)),
            exponent,
            np.where(larger, one, two),
        )

    def select(self, condition: Residues, left: Residues, right: Residues) -> Residues:
        """The argument chosen by the shadow of the condition."""
        by, chosen = _shadow(condition), _FLOATS.select
        exponent = shadow = None
        if left.exponent is not None and right.exponent is not None:
            exponent = chosen(by, left.exponent, right.exponent)
        if left.shadow is not None and right.shadow is not None:
            shadow = chosen(by, left.shadow, right.shadow)
        return Residues(chosen(by, left.residue, right.residue), exponent, shadow)

    def max_along(self, array: Residues, axis: int) -> Residues:
        """The element with the largest shadow along an axis, which is dropped."""
        best = np.expand_dims(_shadow(array).argmax(axis=axis + 1), axis + 1)
        return self.rearrange(lambda part: np.take_along_axis(part, best, axis + 1).squeeze(axis + 1), array)

    def exp(self, array: Residues) -> Residues:
        """g to the power of the exponent; where that is not known, a hash of the residue."""
        shadow = None
        if array.shadow is not None:
            with np.errstate(over="ignore", under="ignore"):
                shadow = np.exp(array.shadow)
        if array.exponent is not None:
            return Residues(_tables().powers[array.exponent], None, shadow)
        return Residues(_hashed(array.residue, "exp"), None, shadow)

    def sqrt(self, array: Residues) -> Residues:
        """x^((p+1)/4): multiplicative, one to one, a square root of every square up to its sign."""
        shadow = None if array.shadow is None else np.sqrt(np.abs(array.shadow))
        return Residues(_tables().roots[array.residue], None, shadow)

    def apply(self, function: str, array: Residues, parameters: tuple[Fraction, ...] = ()) -> Residues:
        """A random function: a keyed hash of the residue; the shadow is a smooth function of the shadow."""
        key = f"{function}{parameters}"
        shadow = None
        if array.shadow is not None:
            with np.errstate(invalid="ignore"):
                shadow = np.sin(array.shadow * (1 + _key(key) % 7) + _key(key) % 1000)
        return Residues(_hashed(array.residue, key), None, shadow)


@dataclass(frozen=True, slots=True)
class _Tables:
    inverses: Integers
    roots: Integers
    powers: Integers


@cache
def _tables() -> _Tables:
    """Inverses and roots of all residues, and the powers of the generator: 20 MB, made in 0.1 s."""
    logarithms_of = _powers(_primitive_root(), MODULUS, MODULUS - 1)
    inverses, roots = np.zeros(MODULUS, np.int64), np.zeros(MODULUS, np.int64)
    steps = np.arange(MODULUS - 1)
    inverses[logarithms_of] = logarithms_of[-steps % (MODULUS - 1)]
    roots[logarithms_of] = logarithms_of[steps * ((MODULUS + 1) // 4) % (MODULUS - 1)]
    return _Tables(inverses, roots, _powers(_GENERATOR, MODULUS, EXPONENT_MODULUS))


@cache
def _exponent_inverses() -> Integers:
    """Of all exponents."""
    return inverse(np.arange(EXPONENT_MODULUS), EXPONENT_MODULUS)


def _primitive_root() -> int:
    """p - 1 = 2 q, so everything but 1, -1 and the squares generates."""
    return next(
        g for g in range(2, MODULUS) if pow(g, 2, MODULUS) != 1 and pow(g, EXPONENT_MODULUS, MODULUS) != 1
    )


def _powers(base: int, modulus: int, count: int) -> Integers:
    """1, base, base^2, ..., by doubling."""
    result = np.ones(1, np.int64)
    while len(result) < count:
        result = np.concatenate([result, result * pow(base, len(result), modulus) % modulus])
    return result[:count]


@lru_cache(maxsize=4096)
def _rational(value: Fraction) -> Residues:
    shadow = np.asarray([value.numerator / value.denominator], np.float64)
    return Residues(
        np.asarray([_quotient(value.numerator, value.denominator, MODULUS)]),
        np.asarray([_quotient(value.numerator, value.denominator, EXPONENT_MODULUS)]),
        shadow,
    )


def _quotient(numerator: int, denominator: int, modulus: int) -> int:
    return numerator * pow(denominator, -1, modulus) % modulus


def _quotients(numerators: Array, denominators: Array, modulus: int) -> Integers:
    inverses = _tables().inverses if modulus == MODULUS else _exponent_inverses()
    return np.asarray(numerators % modulus * inverses[denominators % modulus] % modulus)


def _shadow(array: Residues) -> Reals:
    if array.shadow is None:
        raise ValueError("an equation with order was evaluated without shadows")
    return array.shadow


def _shapes(left: Array, right: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of equal rank, the missing axes put between the stack axis and the others."""
    if left.ndim == right.ndim:
        return left.shape, right.shape
    rank = max(left.ndim, right.ndim)
    one, two = ((a.shape[0], *(1,) * (rank - a.ndim), *a.shape[1:]) for a in (left, right))
    return one, two


def _joined(arrays: Sequence[Array], axis: int) -> Array:
    stack = max(array.shape[0] for array in arrays)
    return np.concatenate([np.broadcast_to(a, (stack, *a.shape[1:])) for a in arrays], axis=axis + 1)


@lru_cache(maxsize=4096)
def _key(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=7).digest(), "big")


def _hashed(values: Integers, key: str) -> Integers:
    """A keyed mixing of every element (the finaliser of SplitMix64), modulo MODULUS."""
    mixed = values.astype(np.uint64) + np.uint64(_key(key))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(MODULUS)).astype(np.int64)
