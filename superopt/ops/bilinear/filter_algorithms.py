"""Bilinear algorithms for filters along one axis, as attributes of operators, and the tiles of an axis."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, TypeGuard, cast

import numpy as np

from superopt.errors import UnfitTypesError
from superopt.ir.bounds import surely_below
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ops.base import equal_dimensions
from superopt.ops.sharded.sharding import require_divisible

Matrix: TypeAlias = "tuple[tuple[int | Fraction, ...], ...]"
Matrices: TypeAlias = "tuple[Matrix, Matrix, Matrix]"
FilterAlgorithm: TypeAlias = "Matrices | tuple[()]"
"""``out = result^T ((left x) * (right w))`` for successive outputs of a filter along one axis: matrices with
one row per multiplication, over the data, the weights and the outputs of a tile. () is the definition."""

KARATSUBA: Matrices = (
    ((1, -1, 0), (0, 1, 0), (0, 1, -1)),
    ((1, 0), (1, 1), (0, 1)),
    ((1, 0), (1, 1), (0, -1)),
)
"""Two outputs of two taps by three multiplications (Karatsuba 1962)."""


def by_definition(taps: int) -> Matrices:
    """One output of a filter, with one multiplication per tap."""
    identity = tuple(tuple(int(i == j) for j in range(taps)) for i in range(taps))
    return identity, identity, ((1,),) * taps


def is_given(algorithm: FilterAlgorithm) -> TypeGuard[Matrices]:
    """Whether it is not the definition; ``taps_of`` checks what it is."""
    return algorithm != ()


@lru_cache(maxsize=4096)
def taps_of(where: str, algorithm: Matrices) -> int:
    """The number of taps of the filter that an algorithm computes. Raises IllTypedError, with a coefficient
    that differs, if it computes none."""
    if len(_parts(algorithm)) != 3 or not all(map(_is_matrix, algorithm)):
        raise UnfitTypesError(f"{where}: expected three matrices (data, weights, results), got {algorithm}")
    if (
        any(len({len(row) for row in matrix}) != 1 for matrix in algorithm)
        or len(set(map(len, algorithm))) != 1
    ):
        raise UnfitTypesError(f"{where}: expected matrices with equally many rows, each of one length")
    left, right, result = (np.array(matrix, object) for matrix in algorithm)
    reads, taps, outputs = left.shape[1], right.shape[1], result.shape[1]
    if reads != outputs + taps - 1:
        raise UnfitTypesError(
            f"{where}: expected to read {outputs + taps - 1} numbers for {outputs} outputs of {taps} taps, "
            f"got {reads}"
        )
    computed = np.einsum("pi,pj,pk->ijk", left, right, result)
    for i, j, k in np.ndindex(reads, taps, outputs):
        expected = int(i == j + k)
        if computed[i, j, k] != expected:
            raise UnfitTypesError(
                f"{where}: no algorithm for a filter: output {k} has x[{i}] w[{j}] "
                f"{computed[i, j, k]} times, expected {expected}"
            )
    return taps


def parts_of(where: str, extent: Dimension, algorithm: Matrices, zeros: int) -> Dimension:
    """The parts of a kernel of that extent, of as many taps each as the algorithm has, the last completed by
    ``zeros`` taps. Raises IllTypedError unless there are such parts: several only if the outputs of a tile
    divide the taps, so that a part further is a whole number of tiles further."""
    taps = taps_of(where, algorithm)
    _check_zeros(where, algorithm, zeros)
    if taps % len(algorithm[2][0]):
        equal_dimensions(f"{where}, taps", extent, taps)
        return 1
    if zeros and surely_below(extent + zeros, 2 * taps):
        parts = f"several parts of {taps} taps"
        raise UnfitTypesError(f"{where}: expected zeros behind {parts}, got {extent} taps")
    require_divisible(f"{where}, taps", extent + zeros, taps)
    return floor_divide(extent + zeros, taps)


def extent_of(where: str, parts: Dimension, algorithm: Matrices, zeros: int) -> Dimension:
    """The extent of the kernel that has so many parts; raises IllTypedError as ``parts_of``."""
    taps = taps_of(where, algorithm)
    _check_zeros(where, algorithm, zeros)
    if taps % len(algorithm[2][0]):
        equal_dimensions(f"{where}, extent of the transformed kernel", parts, 1)
    return parts * taps - zeros


def _check_zeros(where: str, algorithm: Matrices, zeros: int) -> None:
    taps = taps_of(where, algorithm)
    if zeros and (not 0 < zeros < taps or taps % len(algorithm[2][0])):
        raise UnfitTypesError(f"{where}: expected fewer than {taps} zeros behind parts, got {zeros}")


def _is_matrix(value: object) -> bool:
    """Whether it has rows of numbers, none of them empty."""
    rows = _parts(value)
    return bool(rows) and all(
        _parts(row) and all(isinstance(entry, int | Fraction) for entry in _parts(row)) for row in rows
    )


def _parts(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()


def entries(matrix: Matrix) -> int:
    """The entries that are not zero."""
    return sum(entry != 0 for row in matrix for entry in row)


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tiles along one axis of an image of that ``size``, with zeros ``before`` and ``behind`` it, for a
    kernel of that ``extent``. The outputs of a tile are sums over all ``parts`` of the kernel, each of which
    is multiplied with the tile that begins as much later as the part does in the kernel."""

    algorithm: Matrices
    extent: int
    size: int
    before: int
    behind: int

    @property
    def left(self) -> Matrix:
        """[points, reads]: the transform of the data."""
        return self.algorithm[0]

    @property
    def result(self) -> Matrix:
        """[points, step]: the transposed transform of the products."""
        return self.algorithm[2]

    @property
    def points(self) -> int:
        """Multiplications of a tile."""
        return len(self.left)

    @property
    def reads(self) -> int:
        """Numbers that a tile reads."""
        return len(self.left[0])

    @property
    def step(self) -> int:
        """Outputs of a tile."""
        return len(self.result[0])

    @property
    def outputs(self) -> int:
        """Outputs along the axis."""
        return self.size + self.before + self.behind - (self.extent - 1)

    @property
    def tiles(self) -> int:
        """Tiles of outputs along the axis, the last of which may be partial."""
        return -(-self.outputs // self.step)

    @property
    def parts(self) -> int:
        """Parts of the kernel, of as many taps each as the algorithm has."""
        return -(-self.extent // len(self.algorithm[1][0]))

    @property
    def apart(self) -> int:
        """Tiles between those of two parts; 1 for a single part."""
        return len(self.algorithm[1][0]) // self.step if self.parts > 1 else 1

    @property
    def read_tiles(self) -> int:
        """Tiles of the image that are transformed: more than ``tiles`` for several parts."""
        return self.tiles + (self.parts - 1) * self.apart

    @property
    def after(self) -> int:
        """Zeros behind the image that complete the last tile."""
        return (self.read_tiles - 1) * self.step + self.reads - self.size - self.before


__all__ = [
    "KARATSUBA",
    "FilterAlgorithm",
    "Matrices",
    "Matrix",
    "Tiling",
    "by_definition",
    "entries",
    "extent_of",
    "is_given",
    "parts_of",
    "taps_of",
]
