"""Exponential and logarithm, and sum, mean, maximum and minimum along one axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.ir.dimensions import sum_of
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    OnnxForm,
    Operator,
    Work,
    axis_of,
    moved_bytes,
    register,
    require_float,
    tensors,
)
from superopt.ops.elementwise.arithmetic import UnaryElementwise
from superopt.ops.roles import GateStep
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension, axis_by_axis

A = TypeVar("A")


@register
@dataclass(frozen=True, slots=True)
class Exp(UnaryElementwise):
    """e to the power x, elementwise."""

    name: ClassVar[str] = "exp"
    monotone: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Exp", since=6)
    overflows: ClassVar[bool] = True

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Exponential."""
        return (domain.exp(arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class Log(UnaryElementwise):
    """Natural logarithm, elementwise."""

    name: ClassVar[str] = "log"
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Log", since=6)

    @classmethod
    def is_total(cls, attributes: Mapping[str, object]) -> bool:
        """Undefined where the argument is not positive."""
        del attributes
        return False

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The named function ``log``."""
        return (domain.apply("log", arrays[0]),)


class Reduction(Operator):
    """One number for all elements along ``axis``, which is kept with size 1."""

    inputs: ClassVar[int] = 1
    along_axis: ClassVar[bool] = True
    reduction: ClassVar[bool] = True
    axis: int

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[..., n, ...] -> [..., 1, ...] for floating point tensors."""
        (only,) = tensors(self.name, 1, types)
        require_float(self.name, only)
        axis = axis_of(self.name, self.axis, only.rank)
        return (only.with_shape((*only.shape[:axis], 1, *only.shape[axis + 1 :])),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis except the reduced one."""
        return axis_by_axis(inputs, outputs, (axis_of(self.name, self.axis, outputs[0].rank),))

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """One operation per input element."""
        return Work(sum_of(t.elements for t in inputs), moved_bytes(inputs, outputs))


@register
@dataclass(frozen=True, slots=True)
class ReduceSum(Reduction):
    """The sum along an axis."""

    name: ClassVar[str] = "reduce_sum"
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    axis: int

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis; along the reduced one tasks produce terms of the sum."""
        axis = axis_of(self.name, self.axis, outputs[0].rank)
        others = axis_by_axis(inputs, outputs, (axis,))
        (own,), number = others.inputs, len(others.dimensions)
        return Splits(
            (*others.dimensions, TaskDimension(inputs[0].shape[axis], SplitKind.REDUCTION)),
            ((*own[:axis], number, *own[axis + 1 :]),),
            others.outputs,
        )

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sum."""
        return (sum_along(domain, arrays[0], self.axis),)


@register
@dataclass(frozen=True, slots=True)
class ReduceMean(Reduction):
    """The mean along an axis."""

    name: ClassVar[str] = "reduce_mean"
    gate_step: ClassVar[GateStep | None] = GateStep.CENTRING
    linear: ClassVar[bool] = True
    axis: int

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sum over the number of elements."""
        return (mean_along(domain, arrays[0], self.axis),)


@register
@dataclass(frozen=True, slots=True)
class ReduceMax(Reduction):
    """The largest element along an axis."""

    name: ClassVar[str] = "reduce_max"
    comparing: ClassVar[bool] = True
    axis: int

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Maximum."""
        axis = axis_of(self.name, self.axis, len(domain.shape(arrays[0])))
        return (domain.reshape(domain.max_along(arrays[0], axis), _kept(domain, arrays[0], axis)),)


@register
@dataclass(frozen=True, slots=True)
class ReduceMin(Reduction):
    """The smallest element along an axis."""

    name: ClassVar[str] = "reduce_min"
    comparing: ClassVar[bool] = True
    axis: int

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The negative of the largest negative."""
        return tuple(map(domain.negate, ReduceMax(self.axis).evaluate(domain, domain.negate(arrays[0]))))


def sum_along(domain: Domain[A], array: A, axis: int) -> A:
    """The sum along an axis, which is kept with size 1."""
    axis = axis_of("sum", axis, len(domain.shape(array)))
    return domain.reshape(domain.sum(array, axis), _kept(domain, array, axis))


def mean_along(domain: Domain[A], array: A, axis: int) -> A:
    """The mean along an axis, which is kept with size 1."""
    count = domain.shape(array)[axis]
    return domain.multiply(sum_along(domain, array, axis), domain.rational(Fraction(1, count)))


def _kept(domain: Domain[A], array: A, axis: int) -> tuple[int, ...]:
    shape = domain.shape(array)
    return (*shape[:axis], 1, *shape[axis + 1 :])
