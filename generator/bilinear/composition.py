"""Larger bilinear algorithms out of smaller ones: sums of parts that read some of the operands each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.generator.bilinear.algorithms import BilinearAlgorithm
from superopt.generator.bilinear.maps import BilinearMap, Coefficients, filter_map


@dataclass(frozen=True)
class Part:
    """An algorithm, and which elements of the whole data, weights and outputs are its own, in order."""

    algorithm: BilinearAlgorithm
    data: Sequence[int]
    weights: Sequence[int]
    outputs: Sequence[int]


Filters = Callable[[int, int], BilinearAlgorithm]
"""An algorithm for F(outputs, taps)."""


def combined(parts: Sequence[Part]) -> BilinearAlgorithm:
    """The algorithm that runs all parts and adds what they give for the same output. Elements that no part
    names beyond the largest named one do not exist."""
    return BilinearAlgorithm(
        _stacked([(part.algorithm.left, part.data) for part in parts]),
        _stacked([(part.algorithm.right, part.weights) for part in parts]),
        _stacked([(part.algorithm.result, part.outputs) for part in parts]),
    )


def strided(outputs: int, taps: int, stride: int, filters: Filters) -> BilinearAlgorithm:
    """F(outputs, taps) by a stride, split into its phases: data and weights whose indices have the same
    remainder modulo the stride form a filter by 1. Checked to compute the filter.

    Raises InvalidOptionError for sizes below 1.
    """
    wanted = filter_map(outputs, taps, stride)
    parts: list[Part] = []
    for phase in range(min(stride, taps)):
        weights = range(phase, taps, stride)
        data = range(phase, phase + stride * (outputs + len(weights) - 1), stride)
        parts.append(Part(filters(outputs, len(weights)), data, weights, range(outputs)))
    return _checked(combined(parts), wanted)


def split_taps(outputs: int, taps: Sequence[int], filters: Filters) -> BilinearAlgorithm:
    """F(outputs, sum of taps) as a sum of filters with so many successive taps each. Checked to compute the
    filter.

    Raises InvalidOptionError for sizes below 1.
    """
    if not taps:
        raise InvalidOptionError("taps of a filter: expected at least one number, got none")
    wanted = filter_map(outputs, sum(taps))
    parts: list[Part] = []
    first = 0
    for count in taps:
        data = range(first, first + outputs + count - 1)
        parts.append(Part(filters(outputs, count), data, range(first, first + count), range(outputs)))
        first += count
    return _checked(combined(parts), wanted)


def tiled(tiles: int, outputs: int, taps: int, filters: Filters) -> BilinearAlgorithm:
    """F(tiles * outputs, taps) as tiles of F(outputs, taps), which read overlapping data. Checked to compute
    the filter.

    Raises InvalidOptionError for sizes below 1.
    """
    wanted = filter_map(tiles * outputs, taps)
    algorithm = filters(outputs, taps)
    parts = [
        Part(algorithm, range(first, first + outputs + taps - 1), range(taps), range(first, first + outputs))
        for first in range(0, tiles * outputs, outputs)
    ]
    return _checked(combined(parts), wanted)


def _stacked(matrices: Sequence[tuple[Coefficients, Sequence[int]]]) -> Coefficients:
    """The matrices below each other, the columns of each at the places given with it, 0 elsewhere."""
    width = 1 + max(max(columns) for _, columns in matrices)
    placed = [np.full((len(matrix), width), 0, object) for matrix, _ in matrices]
    for whole, (matrix, columns) in zip(placed, matrices, strict=True):
        whole[:, list(columns)] = matrix
    return np.concatenate(placed)


def _checked(algorithm: BilinearAlgorithm, wanted: BilinearMap) -> BilinearAlgorithm:
    if not algorithm.computes(wanted):
        raise AssertionError(f"the composed algorithm does not compute {wanted.name}")
    return algorithm


__all__ = ["Filters", "Part", "combined", "split_taps", "strided", "tiled"]
