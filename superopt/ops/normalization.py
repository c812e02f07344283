"""Normalisation across channels."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import OnnxForm, Work, moved_bytes, register, require_float, require_rank, tensors
from superopt.ops.convolution import band
from superopt.ops.elementwise import Power, UnaryElementwise

A = TypeVar("A")


@register
@dataclass(frozen=True, slots=True)
class LocalResponseNormalization(UnaryElementwise):
    """x (bias + alpha / size * sum of squares over ``size`` neighbouring channels)^-beta."""

    name: ClassVar[str] = "lrn"
    element_wise: ClassVar[bool] = False
    onnx: ClassVar[OnnxForm | None] = OnnxForm(
        "LRN", attributes=(("size", "size"), ("alpha", "alpha"), ("beta", "beta"), ("bias", "bias"))
    )
    size: int
    alpha: Fraction | int = Fraction(1, 10000)
    beta: Fraction | int = Fraction(3, 4)
    bias: Fraction | int = 1

    def infer(self, *types: ValueType) -> tuple[TensorType, ...]:
        """[n, c, h, w] -> [n, c, h, w]."""
        (data,) = tensors(self.name, 1, types)
        require_rank(self.name, data, 4)
        require_float(self.name, data)
        return (data,)

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
