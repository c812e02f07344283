"""Random inputs for adjoint statements, in the prime field and over floats, as stacks of samples."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from superopt.domains.arrays import Array
from superopt.domains.modular import power
from superopt.domains.prime_field import EXPONENT_PRIME, MODULUS, FieldArray, PrimeFieldDomain


class RootedField(PrimeFieldDomain):
    """The prime field with rational powers that satisfy all laws of powers, where they are taken of squares.

    The squares are a group of prime order EXPONENT_PRIME, in which every rational power exists; ``sqrt`` is
    the power 1/2. ``usable`` tells for each of ``stack`` samples whether all roots so far were of squares,
    and no exponential had an exponent that is only a hash; elsewhere identities need not hold.
    """

    def __init__(self, stack: int) -> None:
        super().__init__()
        self.usable = np.ones(stack, np.bool_)

    def squares(self, generator: np.random.Generator, shape: tuple[int, ...]) -> FieldArray:
        """Random squares, with shadows of both signs."""
        drawn = self.random(generator, len(self.usable), shape)
        return FieldArray(drawn.residue * drawn.residue % MODULUS, drawn.exponent, drawn.shadow)

    def sqrt(self, array: FieldArray) -> FieldArray:
        """The square root of a square that is a square itself."""
        root = super().sqrt(array)
        self._exclude(root.residue * root.residue % MODULUS != array.residue)
        return root

    def exp(self, array: FieldArray) -> FieldArray:
        """The exponential where the exponent is known."""
        self._exclude(array.exponent < 0)
        return super().exp(array)

    def apply(self, function: str, array: FieldArray, parameters: tuple[Fraction, ...] = ()) -> FieldArray:
        """As the prime field, but ``power`` satisfies the laws of powers."""
        result = super().apply(function, array, parameters)
        if function != "power":
            return result
        (exponent,) = parameters
        self._exclude(power(array.residue, EXPONENT_PRIME, MODULUS) != 1)
        order = exponent.numerator * pow(exponent.denominator, -1, EXPONENT_PRIME) % EXPONENT_PRIME
        return FieldArray(power(array.residue, order, MODULUS), result.exponent, result.shadow)

    def _exclude(self, wrong: Array) -> None:
        self.usable &= ~wrong.reshape(len(wrong), -1).any(axis=1)


def floats(generator: np.random.Generator, stack: int, shape: tuple[int, ...]) -> Array:
    """Numbers of both signs in the first half of the stack, positive ones in the second."""
    drawn = generator.normal(size=(stack, *shape))
    drawn[stack // 2 :] = np.abs(drawn[stack // 2 :]) + 0.25
    return drawn


__all__ = ["RootedField", "floats"]
