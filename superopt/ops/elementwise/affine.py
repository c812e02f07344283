"""Per-channel scale and shift: the inference form of batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    Operator,
    axis_of,
    equal_dimensions,
    register,
    require_float,
    require_rank,
    same_element,
    tensors,
)
from superopt.ops.roles import FusionRole, GateStep
from superopt.ops.sharded.splits import SplitKind, Splits, TaskDimension, kind_of_axis

A = TypeVar("A")


class ChannelOperator(Operator):
    """A tensor combined with vectors that hold one number for each position along ``axis``."""

    positions: ClassVar[int | None] = 1
    axis: int
    parameters: ClassVar[int | None] = 1
    side_rank: ClassVar[int | None] = 1
    role: ClassVar[FusionRole | None] = FusionRole.VECTOR
    inputs: ClassVar[int] = 2
    side_inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    per_channel: ClassVar[bool] = True

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """(t, vector, ...) -> t; vectors are as long as the axis."""
        data, *vectors = tensors(self.name, self.inputs, types)
        same_element(self.name, data, *vectors)
        axis = axis_of(self.name, self.axis, data.rank)
        for vector in vectors:
            require_rank(f"{self.name}, vector", vector, 1)
            equal_dimensions(self.name, data.shape[axis], vector.shape[0])
        return (data,)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis; the vectors, which are parameters, follow theirs."""
        own = axis_of(self.name, self.axis, outputs[0].rank)
        dimensions = [TaskDimension(size, kind_of_axis(axis)) for axis, size in enumerate(outputs[0].shape)]
        dimensions[own] = TaskDimension(outputs[0].shape[own], SplitKind.PARAMETER)
        every = tuple(range(outputs[0].rank))
        return Splits(tuple(dimensions), (every, *((own,) for _ in inputs[1:])), (every,))

    def spread(self, domain: Domain[A], data: A, vector: A) -> A:
        """The vector along the axis, shaped to broadcast with the tensor."""
        rank = len(domain.shape(data))
        axis = axis_of(self.name, self.axis, rank)
        length = domain.shape(vector)[0]
        return domain.reshape(vector, (*(1,) * axis, length, *(1,) * (rank - axis - 1)))


@register
@dataclass(frozen=True, slots=True)
class Affine(ChannelOperator):
    """x * a + b with a and b per channel: batch normalisation at inference."""

    name: ClassVar[str] = "affine"
    gate_step: ClassVar[GateStep | None] = GateStep.CENTRING
    inputs: ClassVar[int] = 3
    side_inputs: ClassVar[int] = 2
    composite: ClassVar[bool] = True
    axis: int

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Product and sum."""
        data, factor, term = arrays
        product = domain.multiply(data, self.spread(domain, data, factor))
        return (domain.add(product, self.spread(domain, data, term)),)


@register
@dataclass(frozen=True, slots=True)
class ChannelScale(ChannelOperator):
    """x * a with a per channel."""

    name: ClassVar[str] = "channel_scale"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    neutral: ClassVar[int | None] = 1
    gate_step: ClassVar[GateStep | None] = GateStep.SCALING
    axis: int

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Product."""
        data, factor = arrays
        return (domain.multiply(data, self.spread(domain, data, factor)),)


@register
@dataclass(frozen=True, slots=True)
class BiasAdd(ChannelOperator):
    """x + b with b per channel."""

    name: ClassVar[str] = "bias_add"
    neutral: ClassVar[int | None] = 0
    gate_step: ClassVar[GateStep | None] = GateStep.SCALING
    linear: ClassVar[bool] = True
    axis: int

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sum."""
        data, term = arrays
        return (domain.add(data, self.spread(domain, data, term)),)


class BatchNormVector(Operator):
    """A vector computed from the statistics of a batch normalisation; always constant-folded."""

    positions: ClassVar[int | None] = 1
    parameters: ClassVar[int | None] = 1
    equal_inputs: ClassVar[bool] = True
    ranks: ClassVar[tuple[int, ...]] = (1,)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([c], ...) -> [c]."""
        vectors = tensors(self.name, self.inputs, types)
        same_element(self.name, *vectors)
        require_float(self.name, *vectors)
        for vector in vectors:
            require_rank(self.name, vector, 1)
            equal_dimensions(self.name, vector.shape[0], vectors[0].shape[0])
        return (vectors[0],)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Channels."""
        channels = TaskDimension(outputs[0].shape[0], SplitKind.PARAMETER)
        return Splits((channels,), tuple((0,) for _ in inputs), ((0,),))


@register
@dataclass(frozen=True, slots=True)
class BatchNormScale(BatchNormVector):
    """gamma / sqrt(variance + epsilon), from (gamma, variance)."""

    name: ClassVar[str] = "batchnorm_scale"
    inputs: ClassVar[int] = 2
    epsilon: Fraction | int = Fraction(1, 100000)

    @classmethod
    def is_total(cls, attributes: Mapping[str, object]) -> bool:
        """Undefined where a variance is -epsilon or less."""
        del attributes
        return False

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The factor of the affine step."""
        gamma, variance = arrays
        return (domain.divide(gamma, domain.sqrt(domain.add(variance, domain.rational(self.epsilon)))),)


@register
@dataclass(frozen=True, slots=True)
class BatchNormShift(BatchNormVector):
    """beta - mean * scale, from (scale, beta, mean)."""

    name: ClassVar[str] = "batchnorm_shift"
    inputs: ClassVar[int] = 3

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The term of the affine step."""
        factor, beta, mean = arrays
        return (domain.subtract(beta, domain.multiply(mean, factor)),)
