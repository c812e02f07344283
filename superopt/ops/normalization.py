"""Normalisation across channels, and of rows by their mean and mean square."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    OnnxForm,
    Operator,
    Work,
    equal_dimensions,
    moved_bytes,
    number_of,
    register,
    require_float,
    require_rank,
    same_element,
    tensors,
)
from superopt.ops.elementwise.arithmetic import Power, UnaryElementwise
from superopt.ops.images.convolution import band, require_window
from superopt.ops.reduction import mean_along
from superopt.ops.roles import FusionRole
from superopt.ops.sharded.splits import Splits, axis_by_axis

A = TypeVar("A")


@register
@dataclass(frozen=True, slots=True)
class LocalResponseNormalization(UnaryElementwise):
    """x (bias + alpha / size * sum of squares over ``size`` adjacent channels)^-beta."""

    name: ClassVar[str] = "lrn"
    positions: ClassVar[int | None] = 4
    ranks: ClassVar[tuple[int, ...]] = (4,)
    element_wise: ClassVar[bool] = False
    typical: ClassVar[Mapping[str, tuple[object, ...]]] = {"beta": (Fraction(3, 4), Fraction(1, 2))}
    onnx: ClassVar[OnnxForm | None] = OnnxForm(
        "LRN", attributes=(("size", "size"), ("alpha", "alpha"), ("beta", "beta"), ("bias", "bias"))
    )
    size: int
    alpha: Fraction | int = Fraction(1, 10000)
    beta: Fraction | int = Fraction(3, 4)
    bias: Fraction | int = 1

    @classmethod
    def is_total(cls, attributes: Mapping[str, object]) -> bool:
        """If the base of the power is positive, or the power is a product."""
        alpha, beta, bias = (number_of(cls.name, attributes, name) for name in ("alpha", "beta", "bias"))
        positive = alpha is not None and bias is not None and alpha >= 0 and bias > 0
        return positive or (beta is not None and Power.is_total({"exponent": -beta}))

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[n, c, h, w] -> [n, c, h, w]."""
        (data,) = tensors(self.name, 1, types)
        require_window(self.name, self.size)
        require_rank(self.name, data, 4)
        require_float(self.name, data)
        return (data,)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis except the channels."""
        return axis_by_axis(inputs, outputs, (1,))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The definition of ONNX, the sum as a product with a band matrix."""
        (data,) = arrays
        n, c, h, w = domain.shape(data)
        squares = domain.reshape(domain.multiply(data, data), (n, c, h * w))
        matrix = domain.constant(band(c, self.size), np.ones((), np.int64))
        sums = domain.reshape(domain.matmul(matrix, squares), (n, c, h, w))
        weighted = domain.multiply(sums, domain.rational(Fraction(self.alpha) / self.size))
        base = domain.add(weighted, domain.rational(self.bias))
        (factor,) = Power(-Fraction(self.beta)).evaluate(domain, base)
        return (domain.multiply(data, factor),)

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """A sum and a power per element."""
        return Work(outputs[0].elements * (self.size + 20), moved_bytes(inputs, outputs))


class RowNormalization(Operator):
    """Rows along the last axis, normalised and multiplied by one number for each position in a row."""

    positions: ClassVar[int | None] = 1
    parameters: ClassVar[int | None] = 1
    side_rank: ClassVar[int | None] = 1
    role: ClassVar[FusionRole | None] = FusionRole.NORMALIZATION
    epsilon: Fraction | int

    @classmethod
    def is_total(cls, attributes: Mapping[str, object]) -> bool:
        """For positive epsilon, since the divisor is at least its square root."""
        epsilon = number_of(cls.name, attributes, "epsilon")
        return epsilon is not None and epsilon > 0

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """([..., n], [n], ...) -> [..., n]."""
        data, *vectors = tensors(self.name, self.inputs, types)
        require_float(self.name, data)
        same_element(self.name, data, *vectors)
        require_rank(self.name, data, 1, 64)
        for vector in vectors:
            require_rank(f"{self.name}, vector", vector, 1)
            equal_dimensions(self.name, data.shape[-1], vector.shape[0])
        return (data,)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis except the last, over which means are taken."""
        return axis_by_axis(inputs, outputs, (outputs[0].rank - 1,))

    def by_mean_square(self, domain: Domain[A], data: A) -> A:
        """x / sqrt(mean of squares + epsilon)."""
        square = mean_along(domain, domain.multiply(data, data), -1)
        divisor = domain.sqrt(domain.add(square, domain.rational(self.epsilon)))
        return domain.divide(data, domain.broadcast(divisor, domain.shape(data)))

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """Eight operations per element."""
        return Work(outputs[0].elements * 8, moved_bytes(inputs, outputs))


@register
@dataclass(frozen=True, slots=True)
class RmsNormalization(RowNormalization):
    """x / sqrt(mean(x^2) + epsilon) * scale, from (x, scale); means are along the last axis."""

    name: ClassVar[str] = "rms_normalization"
    inputs: ClassVar[int] = 2
    side_inputs: ClassVar[int] = 1
    epsilon: Fraction | int = Fraction(1, 100000)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The definition of ONNX."""
        data, factor = arrays
        return (domain.multiply(self.by_mean_square(domain, data), factor),)


@register
@dataclass(frozen=True, slots=True)
class LayerNormalization(RowNormalization):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, from (x, scale, bias), along the last axis."""

    name: ClassVar[str] = "layer_normalization"
    inputs: ClassVar[int] = 3
    side_inputs: ClassVar[int] = 2
    epsilon: Fraction | int = Fraction(1, 100000)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The definition of ONNX."""
        data, factor, term = arrays
        mean = domain.broadcast(mean_along(domain, data, -1), domain.shape(data))
        normal = self.by_mean_square(domain, domain.subtract(data, mean))
        return (domain.add(domain.multiply(normal, factor), term),)
