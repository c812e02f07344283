"""Bilinear maps as tensors of coefficients: filters over one axis and products of matrices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from superopt.errors import InvalidOptionError

Coefficients: TypeAlias = NDArray[np.object_]
"""Exact numbers: int or Fraction."""


@dataclass(frozen=True)
class BilinearMap:
    """``out[k] = sum over i, j of tensor[i, j, k] * left[i] * right[j]`` with whole coefficients.

    ``name`` is its text form. Two maps are equal if their tensors are.
    """

    name: str = field(compare=False)
    tensor: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BilinearMap) and np.array_equal(self.tensor, other.tensor)

    def __hash__(self) -> int:
        return hash((self.tensor.shape, self.tensor.tobytes()))

    @property
    def schoolbook(self) -> int:
        """Multiplications of the definition: one per coefficient that is not zero."""
        return int(np.count_nonzero(self.tensor))

    def nested(self, inner: BilinearMap) -> BilinearMap:
        """The map over blocks: each multiplication of this map is the inner one. Operands and results are
        numbered by this map's index first."""
        return BilinearMap(f"{self.name} of {inner.name}", np.kron(self.tensor, inner.tensor))


def filter_map(outputs: int, taps: int, stride: int = 1) -> BilinearMap:
    """F(outputs, taps): successive outputs of a filter, ``out[i] = sum over j of x[i * stride + j] * w[j]``,
    with the data on the left and the weights on the right.

    Raises InvalidOptionError for a number below 1.
    """
    _check(outputs, taps, stride)
    tensor = np.zeros(((outputs - 1) * stride + taps, taps, outputs), np.int64)
    for output in range(outputs):
        for tap in range(taps):
            tensor[output * stride + tap, tap, output] = 1
    suffix = f" by {stride}" if stride != 1 else ""
    return BilinearMap(f"F({outputs},{taps}){suffix}", tensor)


def product_map(rows: int, inner: int, columns: int) -> BilinearMap:
    """The product of a [rows, inner] and an [inner, columns] matrix, all numbered row by row.

    Raises InvalidOptionError for a number below 1.
    """
    _check(rows, inner, columns)
    tensor = np.zeros((rows, inner, inner, columns, rows, columns), np.int64)
    for row in range(rows):
        for middle in range(inner):
            for column in range(columns):
                tensor[row, middle, middle, column, row, column] = 1
    flat = tensor.reshape(rows * inner, inner * columns, rows * columns)
    return BilinearMap(f"{rows}x{inner}x{columns}", flat)


def _check(*sizes: int) -> None:
    for size in sizes:
        if size < 1:
            raise InvalidOptionError(f"a bilinear map: expected sizes of at least 1, got {size}")


__all__ = ["BilinearMap", "Coefficients", "filter_map", "product_map"]
