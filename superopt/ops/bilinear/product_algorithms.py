"""Bilinear algorithms for products of small matrices, as attributes of operators."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, cast

import numpy as np

from superopt.errors import UnfitTypesError
from superopt.ops.bilinear.filter_algorithms import Matrices

ProductAlgorithm: TypeAlias = Matrices
"""``out = result^T ((left x) * (right y))`` for the product of a matrix x [rows, inner] and a matrix y
[inner, columns], all numbered row by row: matrices with one row per multiplication, over x, y and the
product."""

STRASSEN: ProductAlgorithm = (
    ((1, 0, 0, 1), (0, 0, 1, 1), (1, 0, 0, 0), (0, 0, 0, 1), (1, 1, 0, 0), (-1, 0, 1, 0), (0, 1, 0, -1)),
    ((1, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, -1), (-1, 0, 1, 0), (0, 0, 0, 1), (1, 1, 0, 0), (0, 0, 1, 1)),
    ((1, 0, 0, 1), (0, 0, 1, -1), (0, 1, 0, 1), (1, 0, 1, 0), (-1, 1, 0, 0), (0, 0, 0, 1), (1, 0, 0, 0)),
)
"""Two times two by two by seven multiplications (Strassen 1969, Gaussian elimination is not optimal)."""

DOT: ProductAlgorithm = (((1, 0), (0, 1)), ((1, 0), (0, 1)), ((1,), (1,)))
"""One times two by one, by definition."""


@lru_cache(maxsize=4096)
def sizes_of(where: str, algorithm: object) -> tuple[int, int, int]:
    """Rows, inner size and columns of the product that an algorithm computes. Raises IllTypedError, with a
    coefficient that differs, if it computes none."""
    left, right, result = _exact(where, algorithm)
    reads, weights, outputs = left.shape[1], right.shape[1], result.shape[1]
    rows = math.isqrt(reads * outputs // weights)
    inner, columns = reads // max(rows, 1), outputs // max(rows, 1)
    if (rows * inner, inner * columns, rows * columns) != (reads, weights, outputs):
        raise UnfitTypesError(
            f"{where}: expected matrices over n*k, k*m and n*m numbers, got {reads}, {weights} and {outputs}"
        )
    computed = np.einsum("pi,pj,pk->ijk", left, right, result)
    for i, j, k in np.ndindex(reads, weights, outputs):
        (row, middle), (height, column) = divmod(i, inner), divmod(j, columns)
        expected = int(middle == height and k == row * columns + column)
        if computed[i, j, k] != expected:
            raise UnfitTypesError(
                f"{where}: no algorithm for a product of {rows} x {inner} and {inner} x {columns}: "
                f"result {k} has x[{i}] y[{j}] {computed[i, j, k]} times, expected {expected}"
            )
    return rows, inner, columns


def _exact(where: str, algorithm: object) -> list[np.ndarray]:
    """The matrices; raises IllTypedError unless they are three, of numbers, with equally many rows."""
    matrices = _parts(algorithm)
    if len(matrices) != 3:
        raise UnfitTypesError(f"{where}: expected three matrices (x, y, product), got {algorithm}")
    found: list[np.ndarray] = []
    for matrix in matrices:
        rows = [_parts(row) for row in _parts(matrix)]
        if not rows or not rows[0] or len(set(map(len, rows))) != 1:
            raise UnfitTypesError(f"{where}: expected matrices with rows of equal length, got {matrix}")
        if not all(isinstance(entry, int | Fraction) for row in rows for entry in row):
            raise UnfitTypesError(f"{where}: expected matrices of numbers, got {matrix}")
        found.append(np.array(rows, object))
    if len(set(map(len, found))) != 1:
        counts = ", ".join(str(len(matrix)) for matrix in found)
        raise UnfitTypesError(
            f"{where}: expected equally many rows, one for each multiplication, got {counts}"
        )
    return found


def _parts(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()


__all__ = ["DOT", "STRASSEN", "ProductAlgorithm", "sizes_of"]
