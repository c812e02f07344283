"""Data movement operators: concat, split and its halves, reshape, broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.errors import RankMismatchError, UnfitTypesError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import GraphOperator
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    OnnxForm,
    Operator,
    all_tensors,
    axis_of,
    equal_dimensions,
    register,
    require_rank,
    same_element,
    tensors,
)
from superopt.ops.matrix import concrete, keeps_order
from superopt.ops.roles import FusionRole
from superopt.ops.sharded.splits import Splits, TaskDimension, axis_by_axis, kind_of_axis, reshaped

A = TypeVar("A")


class Joining(Operator):
    """Tensors combined along an axis, in order."""

    moves: ClassVar[bool] = True
    joins: ClassVar[bool] = True
    axis: int


@register
@dataclass(frozen=True, slots=True)
class Concat(Joining):
    """Concatenation along an axis; of any number of tensors in a graph, of two in a rule."""

    name: ClassVar[str] = "concat"
    inputs: ClassVar[int] = 2
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Concat", attributes=(("axis", "axis"),), since=4)
    axis: int

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """For a single tensor."""
        del output
        return "there is nothing to join" if len(inputs) == 1 else None

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """Equal shapes except for the axis, along which sizes add up."""
        parts = all_tensors(self.name, types)
        if not parts:
            raise UnfitTypesError(f"{self.name}: expected at least one input, got none")
        same_element(self.name, *parts)
        first = parts[0]
        axis = axis_of(self.name, self.axis, first.rank)
        total = first.shape[axis]
        for part in parts[1:]:
            require_rank(self.name, part, first.rank)
            for index, (a, b) in enumerate(zip(first.shape, part.shape, strict=True)):
                if index != axis:
                    equal_dimensions(self.name, a, b)
            total = total + part.shape[axis]
        return (first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :])),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis except the concatenated one."""
        return axis_by_axis(inputs, outputs, (axis_of(self.name, self.axis, outputs[0].rank),))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Concatenated arrays."""
        axis = axis_of(self.name, self.axis, len(domain.shape(arrays[0])))
        return (domain.concatenate(arrays, axis),)


def joined_along(axis: int) -> Joining:
    """The operator that concatenates tensors along an axis."""
    return Concat(axis)


class Cutting(Operator):
    """Divides a tensor along an axis into pieces, one per output."""

    moves: ClassVar[bool] = True
    axis: int
    sizes: tuple[Dimension, ...]


@register
@dataclass(frozen=True, slots=True)
class Split(Cutting):
    """Splits a tensor along an axis into pieces of the given sizes."""

    name: ClassVar[str] = "split"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,),)
    axis: int
    sizes: tuple[Dimension, ...]

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """For a single piece."""
        del inputs, output
        return "there is one piece" if len(self.sizes) == 1 else None

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """One output per size; the sizes add up to the dimension."""
        (whole,) = tensors(self.name, 1, types)
        axis = axis_of(self.name, self.axis, whole.rank)
        total: Dimension = 0
        for size in self.sizes:
            total = total + size
        equal_dimensions(self.name, whole.shape[axis], total)
        return tuple(_resized(whole, axis, size) for size in self.sizes)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis except the one that is split."""
        return axis_by_axis(inputs, outputs, (axis_of(self.name, self.axis, inputs[0].rank),))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The pieces."""
        (whole,) = arrays
        axis = axis_of(self.name, self.axis, len(domain.shape(whole)))
        pieces: list[A] = []
        start = 0
        for size in self.sizes:
            stop = start + concrete(self.name, size)
            pieces.append(domain.slice(whole, axis, start, stop))
            start = stop
        return tuple(pieces)


class Half(Operator):
    """One of the two pieces of a tensor split at ``size`` along ``axis``: the form of a split in rules."""

    moves: ClassVar[bool] = True
    in_graphs: ClassVar[str | None] = Split.name
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    along_axis: ClassVar[bool] = True
    cuts: ClassVar[bool] = True
    axis: int
    size: Dimension

    @property
    def port(self) -> int:
        """The corresponding output of ``cut``."""
        return self.half or 0

    def cut(self, extent: Dimension) -> Cutting:
        """The operator that represents both halves of a tensor of that size in graphs."""
        return Split(self.axis, (self.size, extent - self.size))

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """The dimension becomes ``size``, or the remainder."""
        (whole,) = tensors(self.name, 1, types)
        axis = axis_of(self.name, self.axis, whole.rank)
        extent = whole.shape[axis]
        if isinstance(self.size, int) and isinstance(extent, int) and not 0 < self.size < extent:
            raise UnfitTypesError(f"{self.name}: cannot cut {extent} at {self.size}")
        return (_resized(whole, axis, (self.size, extent - self.size)[self.port]),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis except the one that is split."""
        return axis_by_axis(inputs, outputs, (axis_of(self.name, self.axis, inputs[0].rank),))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The piece."""
        (whole,) = arrays
        axis = axis_of(self.name, self.axis, len(domain.shape(whole)))
        cut = concrete(self.name, self.size)
        bounds = ((0, cut), (cut, domain.shape(whole)[axis]))[self.port]
        return (domain.slice(whole, axis, *bounds),)


@register
@dataclass(frozen=True, slots=True)
class Split0(Half):
    """The first half."""

    name: ClassVar[str] = "split0"
    implicit: ClassVar[tuple[str, ...]] = ("size",)
    half: ClassVar[int | None] = 0
    axis: int
    size: Dimension


@register
@dataclass(frozen=True, slots=True)
class Split1(Half):
    """The second half."""

    name: ClassVar[str] = "split1"
    implicit: ClassVar[tuple[str, ...]] = ("size",)
    half: ClassVar[int | None] = 1
    axis: int
    size: Dimension


_SHAPED = "the shape is that already"


@register
@dataclass(frozen=True, slots=True)
class Reshape(Operator):
    """Changes the shape, keeping elements in row-major order."""

    name: ClassVar[str] = "reshape"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    positions: ClassVar[int | None] = None
    moves: ClassVar[bool] = True
    renames: ClassVar[bool] = True
    shape: tuple[Dimension, ...]

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """If the shape is the tensor's own."""
        return _SHAPED if inputs[0] == output else None

    def merged_with(self, inner: GraphOperator, rank: int) -> tuple[Operator, str] | None:
        """With a reshape: the last shape is used."""
        del rank
        return (self, "two reshapes are one") if isinstance(inner, Reshape) else None

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """The number of elements is preserved."""
        (only,) = tensors(self.name, 1, types)
        result = only.with_shape(self.shape)
        equal_dimensions(self.name, only.elements, result.elements)
        return (result,)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Factors that are outermost on both sides: unchanged axes, and outer parts of merged or divided
        ones."""
        return reshaped(inputs[0], outputs[0])

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """A reshape to the shape of the part."""
        return Reshape(outputs[0].shape)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Reshaped."""
        return (domain.reshape(arrays[0], tuple(concrete(self.name, size) for size in self.shape)),)


@register
@dataclass(frozen=True, slots=True)
class Broadcast(Operator):
    """numpy broadcasting to a shape: trailing axes are aligned; axes of size 1 and missing axes are
    repeated."""

    name: ClassVar[str] = "broadcast"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    implicit: ClassVar[tuple[str, ...]] = ("shape",)
    moves: ClassVar[bool] = True
    repeats: ClassVar[bool] = True
    role: ClassVar[FusionRole | None] = FusionRole.TRANSPARENT
    shape: tuple[Dimension, ...]

    @classmethod
    def optional_sizes(cls, *inputs: TensorType) -> tuple[Dimension, ...]:
        """Any axis may be 1."""
        return inputs[0].shape if inputs else ()

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """If the shape is the tensor's own."""
        return _SHAPED if inputs[0] == output else None

    def merged_with(self, inner: GraphOperator, rank: int) -> tuple[Operator, str] | None:
        """With a broadcast: the last shape is used."""
        del rank
        return (self, "two broadcasts are one") if isinstance(inner, Broadcast) else None

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """Every dimension is 1 or equals the aligned one of the target."""
        (only,) = tensors(self.name, 1, types)
        if only.rank > len(self.shape):
            raise RankMismatchError(self.name, f"at most {len(self.shape)}", only.rank)
        for own, target in zip(reversed(only.shape), reversed(self.shape), strict=False):
            if own != 1:
                equal_dimensions(self.name, own, target)
        return (only.with_shape(self.shape),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis of the result; the input follows those that it has at full size."""
        (only,), (result,) = inputs, outputs
        missing = result.rank - only.rank
        return Splits(
            tuple(TaskDimension(size, kind_of_axis(axis)) for axis, size in enumerate(result.shape)),
            (tuple(None if size == 1 else missing + axis for axis, size in enumerate(only.shape)),),
            (tuple(range(result.rank)),),
        )

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """A broadcast to the shape of the part."""
        return Broadcast(outputs[0].shape)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Repeated."""
        return (domain.broadcast(arrays[0], tuple(concrete(self.name, size) for size in self.shape)),)


def _resized(whole: TensorType, axis: int, size: Dimension) -> TensorType:
    return whole.with_shape((*whole.shape[:axis], size, *whole.shape[axis + 1 :]))


def reordering_nothing(operator: Operator, operand: TensorType) -> Operator | None:
    """The change of shape that the operator amounts to where it only moves axes of size 1; None else."""
    permutation = operator.permutation(operand.rank)
    if permutation is None or not keeps_order(permutation, operand.shape):
        return None
    return Reshape(tuple(operand.shape[axis] for axis in permutation))
