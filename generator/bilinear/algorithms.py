"""Bilinear algorithms: a map as few products of sums of its operands, with exact coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from superopt.generator.bilinear.maps import BilinearMap, Coefficients


@dataclass(frozen=True, eq=False)
class BilinearAlgorithm:
    """``out = result.T @ ((left @ x) * (right @ w))``: with as many rows in each matrix as multiplications.

    ``left`` [multiplications, data], ``right`` [multiplications, weights], ``result`` [multiplications,
    outputs]. (Winograd 1980, Arithmetic Complexity of Computations, chapter 2.)
    """

    left: Coefficients
    right: Coefficients
    result: Coefficients

    @property
    def multiplications(self) -> int:
        """The products of computed numbers; constants that transform operands are not counted."""
        return len(self.left)

    def tensor(self) -> Coefficients:
        """The coefficients of the map that it computes, exactly: [data, weights, outputs]."""
        pairs = self.left[:, :, None] * self.right[:, None, :]
        flat = pairs.reshape(self.multiplications, -1).T.dot(self.result)
        return flat.reshape(self.left.shape[1], self.right.shape[1], self.result.shape[1])

    def computes(self, wanted: BilinearMap) -> bool:
        """Whether it computes that map: a polynomial identity, checked coefficient by coefficient."""
        found = self.tensor()
        return found.shape == wanted.tensor.shape and bool(np.all(found == wanted.tensor))

    def nested(self, inner: BilinearAlgorithm) -> BilinearAlgorithm:
        """The algorithm for nested maps: each multiplication is one run of the inner algorithm. Its
        multiplications are the product of both."""
        return BilinearAlgorithm(
            np.kron(self.left, inner.left),
            np.kron(self.right, inner.right),
            np.kron(self.result, inner.result),
        )

    def whole(self) -> BilinearAlgorithm:
        """The same algorithm with whole coefficients for data and results as far as that is possible by
        moving factors of a multiplication to the weights, whose transform is computed beforehand."""
        left, right = self.left.copy(), self.right.copy()
        for row in range(self.multiplications):
            factor = _common_factor(left[row])
            left[row], right[row] = left[row] / factor, right[row] * factor
        return BilinearAlgorithm(left, right, self.result)


@dataclass(frozen=True, slots=True, order=True)
class TransformCost:
    """Work of applying the transforms of data and results once: additions, and multiplications by constants
    other than 0, 1 and -1, powers of two apart."""

    additions: int
    multiplications: int
    shifts: int


def transform_cost(algorithm: BilinearAlgorithm) -> TransformCost:
    """The work of the transforms of data and results; that of weights is done beforehand."""
    entries = [*_exact(algorithm.left), *_exact(algorithm.result)]
    used = sum(entry != 0 for entry in entries)
    sums = sum(map(np.any, algorithm.left)) + sum(map(np.any, algorithm.result.T))
    scaling = [abs(entry) for entry in entries if abs(entry) not in (0, 1)]
    shifts = sum(_is_power_of_two(entry) for entry in scaling)
    return TransformCost(used - int(sums), len(scaling) - shifts, shifts)


def amplification(algorithm: BilinearAlgorithm, wanted: BilinearMap) -> float:
    """How much larger its rounding error is than that of the definition, for independent operands.

    For each output, the root of the sum over multiplications of (result entry)^2 * |left row|^2 * |right
    row|^2 in Euclidean norms, over the same of the definition; the largest over the outputs. It does not
    change when factors move between the three matrices.
    """
    ours = _spread(algorithm.left, algorithm.right, algorithm.result)
    definition = np.square(wanted.tensor.astype(float)).sum(axis=(0, 1))
    return float(np.sqrt(np.max(ours / definition)))


def worst_amplification(algorithm: BilinearAlgorithm, wanted: BilinearMap) -> float:
    """As ``amplification`` for the worst operands: sums of absolute values instead of Euclidean norms."""
    left, right, result = (
        np.abs(matrix.astype(float)) for matrix in (algorithm.left, algorithm.right, algorithm.result)
    )
    ours = (left.sum(axis=1) * right.sum(axis=1)) @ result
    return float(np.max(ours / np.abs(wanted.tensor).sum(axis=(0, 1))))


def _spread(left: Coefficients, right: Coefficients, result: Coefficients) -> np.ndarray:
    squares = [np.square(matrix.astype(float)) for matrix in (left, right, result)]
    return (squares[0].sum(axis=1) * squares[1].sum(axis=1)) @ squares[2]


def _common_factor(row: Coefficients) -> Fraction:
    """The largest number of which all entries are whole multiples; 1 for a row of zeros."""
    entries = [entry for entry in _exact(row) if entry != 0]
    if not entries:
        return Fraction(1)
    return Fraction(
        math.gcd(*(entry.numerator for entry in entries)), math.lcm(*(entry.denominator for entry in entries))
    )


def _exact(matrix: Coefficients) -> list[Fraction]:
    """The entries, row by row."""
    return [Fraction(entry) for entry in cast("list[int | Fraction]", matrix.ravel().tolist())]


def _is_power_of_two(number: Fraction) -> bool:
    return number.numerator.bit_count() == 1 and number.denominator.bit_count() == 1


__all__ = ["BilinearAlgorithm", "TransformCost", "amplification", "transform_cost", "worst_amplification"]
