"""Matrix operators: product, transposition, identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.errors import IllTypedError, UnfitTypesError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import GraphOperator
from superopt.ir.types import ElementType, TensorType, ValueType
from superopt.ops.base import (
    OnnxForm,
    Operator,
    Work,
    equal_dimensions,
    moved_bytes,
    register,
    require_rank,
    same_element,
    tensors,
)
from superopt.ops.roles import Product
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension, kind_of_axis

A = TypeVar("A")


@register
@dataclass(frozen=True, slots=True)
class Matmul(Operator):
    """Matrix product over the last two axes; batch dimensions are equal, or one operand is a plain matrix."""

    name: ClassVar[str] = "matmul"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    inputs: ClassVar[int] = 2
    polynomial: ClassVar[bool] = True
    positions: ClassVar[int | None] = 2
    onnx: ClassVar[OnnxForm | None] = OnnxForm("MatMul", since=1)
    product: ClassVar[Product | None] = Product.MATRIX
    ranks: ClassVar[tuple[int, ...]] = (2, 2, 3, 4)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([..., m, k], [..., k, n]) -> [..., m, n]."""
        left, right = tensors(self.name, 2, types)
        same_element(self.name, left, right)
        require_rank(f"{self.name}, first input", left, 2, 64)
        require_rank(f"{self.name}, second input", right, 2, 64)
        equal_dimensions(self.name, left.shape[-1], right.shape[-2])
        batch = left.shape[:-2] or right.shape[:-2]
        if left.rank > 2 and right.rank > 2:
            require_rank(f"{self.name}, second input", right, left.rank)
            for a, b in zip(left.shape[:-2], right.shape[:-2], strict=True):
                equal_dimensions(self.name, a, b)
        return (left.with_shape((*batch, left.shape[-2], right.shape[-1])),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Matrix product."""
        return (domain.matmul(arrays[0], arrays[1]),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Batch axes, rows, columns, and the inner dimension, over which tasks produce terms of a sum."""
        left, right = inputs
        (result,) = outputs
        batch = tuple(range(result.rank - 2))
        rows, columns, inner = result.rank - 2, result.rank - 1, result.rank
        outer = tuple(TaskDimension(result.shape[axis], kind_of_axis(axis)) for axis in (*batch, rows))
        return Splits(
            (
                *outer,
                TaskDimension(result.shape[-1], SplitKind.PARAMETER),
                TaskDimension(left.shape[-1], SplitKind.REDUCTION),
            ),
            (
                (*batch, rows, inner) if left.rank > 2 else (rows, inner),
                (*batch, inner, columns) if right.rank > 2 else (inner, columns),
            ),
            ((*batch, rows, columns),),
        )

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """2 m n k operations."""
        return Work(outputs[0].elements * inputs[0].shape[-1] * 2, moved_bytes(inputs, outputs))


@register
@dataclass(frozen=True, slots=True)
class Transpose(Operator):
    """Axis i of the result is axis ``perm[i]``; without ``perm`` the last two axes are swapped."""

    name: ClassVar[str] = "transpose"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    positions: ClassVar[int | None] = 2
    moves: ClassVar[bool] = True
    ranks: ClassVar[tuple[int, ...]] = (2, 2, 3, 4)
    perm: tuple[int, ...] = ()

    def permutation(self, rank: int) -> tuple[int, ...]:
        """The full permutation at that rank; raises IllTypedError."""
        return permutation_of(self.perm, rank)

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """If the permutation is the identity."""
        del inputs
        rank = len(output.shape) if isinstance(output, TensorType) else -1
        same = rank >= 0 and self.permutation(rank) == tuple(range(rank))
        return "axes stay where they are" if same else None

    def merged_with(self, inner: GraphOperator, rank: int) -> tuple[Operator, str] | None:
        """With a transposition: the composed permutation."""
        if not isinstance(inner, Transpose):
            return None
        first = inner.permutation(rank)
        together = tuple(first[axis] for axis in self.permutation(rank))
        if together == tuple(range(rank)):
            return Transpose(together), "two transpositions that cancel"
        swapped = rank > 1 and together == permutation_of((), rank)
        return Transpose(() if swapped else together), "two transpositions are one"

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """Permuted shape."""
        (only,) = tensors(self.name, 1, types)
        return (only.with_shape(tuple(only.shape[axis] for axis in self.permutation(only.rank))),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis of the input, at its new position."""
        shape = inputs[0].shape
        dimensions = tuple(TaskDimension(size, kind_of_axis(axis)) for axis, size in enumerate(shape))
        return Splits(dimensions, (tuple(range(len(shape))),), (self.permutation(len(shape)),))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Permuted axes."""
        return (domain.transpose(arrays[0], self.permutation(len(domain.shape(arrays[0])))),)


@register
@dataclass(frozen=True, slots=True)
class IdentityMatrix(Operator):
    """The identity matrix (TASO: I_matmul)."""

    name: ClassVar[str] = "identity_matrix"
    positions: ClassVar[int | None] = 2
    implicit: ClassVar[tuple[str, ...]] = ("size",)
    constant: ClassVar[bool] = True
    neutral_for: ClassVar[str | None] = Matmul.name
    size: Dimension

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """() -> [size, size]."""
        tensors(self.name, 0, types)
        return (TensorType(ElementType.FLOAT, (self.size, self.size)),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Ones on the diagonal."""
        size = concrete(self.name, self.size)
        return (domain.constant(np.eye(size, dtype=np.int64), np.ones((), np.int64)),)


def keeps_order(permutation: Sequence[int], shape: Sequence[Dimension]) -> bool:
    """Whether the permutation only moves axes of size 1 of a tensor, so that it only changes its shape."""
    others = [axis for axis in permutation if shape[axis] != 1]
    return others == sorted(others)


def permutation_of(perm: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The full permutation that ``perm`` denotes at that rank; raises IllTypedError."""
    if not perm:
        if rank < 2:
            raise UnfitTypesError(f"{Transpose.name}: expected rank >= 2, got {rank}")
        return (*range(rank - 2), rank - 1, rank - 2)
    if sorted(perm) != list(range(rank)):
        raise UnfitTypesError(f"{Transpose.name}: perm={perm} is no permutation of {rank} axes")
    return perm


def concrete(where: str, dimension: Dimension) -> int:
    """The dimension as a number; raises IllTypedError for a symbol."""
    if not isinstance(dimension, int):
        raise IllTypedError(f"{where}: expected a known size, got {dimension}")
    return dimension
