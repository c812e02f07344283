"""Product of matrices by a bilinear algorithm: fewer multiplications of blocks than the definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    Operator,
    Work,
    equal_dimensions,
    moved_bytes,
    register,
    require_float,
    require_rank,
    same_element,
    tensors,
)
from superopt.ops.bilinear.filter_algorithms import Matrix
from superopt.ops.bilinear.product_algorithms import DOT, STRASSEN, ProductAlgorithm, sizes_of
from superopt.ops.bilinear.product_schedule import ProductSchedule
from superopt.ops.roles import Product
from superopt.ops.sharded.sharding import require_divisible
from superopt.ops.sharded.splits import Splits, TaskDimension, kind_of_axis, undivided

A = TypeVar("A")
_TYPICAL: Mapping[str, tuple[object, ...]] = {"algorithm": (STRASSEN, DOT)}


@register
@dataclass(frozen=True, slots=True)
class ProductTransform(Operator):
    """The second matrix of a product as its algorithm multiplies it: the matrix is divided into blocks, and
    the combinations of blocks for all multiplications are put one below the other. The term has a type only
    if the algorithm computes a product, coefficient by coefficient, and its sizes divide those of the
    matrix."""

    name: ClassVar[str] = "product_transform"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    positions: ClassVar[int | None] = 2
    ranks: ClassVar[tuple[int, ...]] = (2,)
    parameters: ClassVar[int | None] = 0
    from_rules: ClassVar[bool] = True
    typical: ClassVar[Mapping[str, tuple[object, ...]]] = _TYPICAL
    algorithm: ProductAlgorithm

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[k, m] -> [multiplications k / inner, m / columns]."""
        (weight,) = tensors(self.name, 1, types)
        require_rank(self.name, weight, 2)
        require_float(self.name, weight)
        _, inner, columns = sizes_of(self.name, self.algorithm)
        height = _part(f"{self.name}, rows", weight.shape[0], inner)
        width = _part(f"{self.name}, columns", weight.shape[1], columns)
        return (weight.with_shape((len(self.algorithm[1]) * height, width)),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Combinations of blocks."""
        _, inner, columns = sizes_of(self.name, self.algorithm)
        height, width = domain.shape(arrays[0])
        size, across = height // inner, width // columns
        blocks = _blocks(domain, domain.reshape(arrays[0], (inner, size, columns, across)), (0, 2, 1, 3))
        combined = _combined(domain, self.algorithm[1], blocks)
        return (domain.reshape(combined, (len(self.algorithm[1]) * size, across)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """None: it is computed once, before the run."""
        return undivided(inputs, outputs)


@register
@dataclass(frozen=True, slots=True)
class BilinearMatmul(Operator):
    """``matmul`` with a plain matrix, block by block: the second input is the matrix after
    ``product_transform`` by the same algorithm. Blocks of the first input are its rows in turn and ranges of
    its columns. The term has a type only if the algorithm computes a product, coefficient by coefficient, and
    its sizes divide rows and columns. (Strassen 1969, Gaussian elimination is not optimal.)"""

    name: ClassVar[str] = "bilinear_matmul"
    inputs: ClassVar[int] = 2
    polynomial: ClassVar[bool] = True
    positions: ClassVar[int | None] = 2
    product: ClassVar[Product | None] = Product.MATRIX
    ranks: ClassVar[tuple[int, ...]] = (2, 2, 3, 4)
    parameters: ClassVar[int | None] = 1
    rounds_more: ClassVar[bool] = True
    from_rules: ClassVar[bool] = True
    typical: ClassVar[Mapping[str, tuple[object, ...]]] = _TYPICAL
    algorithm: ProductAlgorithm

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([..., s, k], [multiplications k / inner, m / columns]) -> [..., s, m]."""
        data, weight = tensors(self.name, 2, types)
        same_element(self.name, data, weight)
        require_float(self.name, data)
        require_rank(f"{self.name}, first input", data, 2, 64)
        require_rank(f"{self.name}, second input", weight, 2)
        rows, inner, columns = sizes_of(self.name, self.algorithm)
        size = _part(f"{self.name}, rows of the second input", weight.shape[0], len(self.algorithm[1]))
        equal_dimensions(self.name, data.shape[-1], size * inner)
        _part(f"{self.name}, rows", data.shape[-2], rows)
        return (data.with_shape((*data.shape[:-1], weight.shape[1] * columns)),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Combines blocks, multiplies those of each multiplication, combines the products."""
        data, weight = arrays
        rows, inner, columns = sizes_of(self.name, self.algorithm)
        left, _, result = self.algorithm
        *batch, height, _ = domain.shape(data)
        total, across = domain.shape(weight)
        size, steps, count = total // len(left), height // rows, len(batch)
        first = tuple(range(count))
        separate = domain.reshape(data, (*batch, steps, rows, inner, size))
        order = (*first, count + 1, count + 2, count, count + 3)
        combined = _combined(domain, left, _blocks(domain, separate, order))
        weights = domain.reshape(weight, (*(1 for _ in batch), len(left), size, across))
        products = domain.matmul(combined, weights)
        blocks = _combined(domain, tuple(zip(*result, strict=True)), products)
        separate = domain.reshape(blocks, (*batch, rows, columns, steps, across))
        order = (*first, count + 2, count, count + 1, count + 3)
        return (domain.reshape(domain.transpose(separate, order), (*batch, height, columns * across)),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Batch axes: blocks share rows and columns."""
        batch = tuple(range(outputs[0].rank - 2))
        dimensions = tuple(TaskDimension(outputs[0].shape[axis], kind_of_axis(axis)) for axis in batch)
        return Splits(dimensions, ((*batch, None, None), (None, None)), ((*batch, None, None),))

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """Two operations per multiplication of the products of blocks, and those of the sums of blocks."""
        rows, inner, columns = sizes_of(self.name, self.algorithm)
        schedule = ProductSchedule.of(self.algorithm)
        multiplied = outputs[0].elements * inputs[0].shape[-1] * 2 * len(schedule.left)
        sums = len(schedule.data.sums) * floor_divide(inputs[0].elements, rows * inner)
        sums += len(schedule.products.sums) * floor_divide(outputs[0].elements, rows * columns)
        return Work(floor_divide(multiplied, rows * inner * columns) + sums, moved_bytes(inputs, outputs))


def _part(where: str, size: Dimension, parts: int) -> Dimension:
    """A part of a dimension; raises unless it divides into so many."""
    require_divisible(where, size, parts)
    return floor_divide(size, parts)


def _blocks(domain: Domain[A], separate: A, order: tuple[int, ...]) -> A:
    """[..., blocks, rows of a block, columns of a block], where the axes that number blocks become two before
    the last."""
    moved = domain.transpose(separate, order)
    *batch, down, across, height, width = domain.shape(moved)
    return domain.reshape(moved, (*batch, down * across, height, width))


def _combined(domain: Domain[A], matrix: Matrix, blocks: A) -> A:
    """[..., blocks, height, width] -> [..., combinations, height, width]."""
    *batch, count, height, width = domain.shape(blocks)
    exact = [[Fraction(entry) for entry in row] for row in matrix]
    numerators = np.array([[entry.numerator for entry in row] for row in exact], np.int64)
    denominators = np.array([[entry.denominator for entry in row] for row in exact], np.int64)
    shape = (*(1 for _ in batch), *numerators.shape)
    constant = domain.reshape(domain.constant(numerators, denominators), shape)
    combined = domain.matmul(constant, domain.reshape(blocks, (*batch, count, height * width)))
    return domain.reshape(combined, (*batch, len(matrix), height, width))


__all__ = ["BilinearMatmul", "ProductTransform"]
