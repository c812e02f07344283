"""Tensors with one number everywhere: ones, full."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import Application, AttributeTerm
from superopt.ir.types import ElementType, TensorType, ValueType
from superopt.ops.base import Operator, register, tensors
from superopt.ops.matrix import concrete
from superopt.ops.sharded.splits import Splits, axis_by_axis

A = TypeVar("A")


class Filled(Operator):
    """A tensor with one number everywhere."""

    implicit: ClassVar[tuple[str, ...]] = ("shape",)
    constant: ClassVar[bool] = True
    fills: ClassVar[bool] = True
    shape: tuple[Dimension, ...]

    @property
    @abstractmethod
    def number(self) -> Fraction | int:
        """The number."""

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """() -> shape."""
        tensors(self.name, 0, types)
        return (TensorType(ElementType.FLOAT, self.shape),)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis."""
        return axis_by_axis(inputs, outputs)

    @staticmethod
    def number_in(term: Application) -> AttributeTerm | None:
        """The number in a term of such an operator; None if left open."""
        return 1 if term.operator == Ones.name else term.attribute("value")


@register
@dataclass(frozen=True, slots=True)
class Ones(Filled):
    """A tensor of ones (TASO: I_ewmul)."""

    name: ClassVar[str] = "ones"
    shape: tuple[Dimension, ...]

    @property
    def number(self) -> Fraction | int:
        """1."""
        return 1

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """Of the shape of the part."""
        return Ones(outputs[0].shape)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Ones."""
        shape = tuple(concrete(self.name, size) for size in self.shape)
        return (domain.constant(np.ones(shape, np.int64), np.ones((), np.int64)),)


@register
@dataclass(frozen=True, slots=True)
class Full(Filled):
    """A tensor with the number ``value`` everywhere."""

    name: ClassVar[str] = "full"
    value: Fraction | int
    shape: tuple[Dimension, ...]

    @property
    def number(self) -> Fraction | int:
        """The value."""
        return self.value

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """Of the shape of the part."""
        return Full(self.value, outputs[0].shape)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The number, repeated."""
        shape = tuple(concrete(self.name, size) for size in self.shape)
        return (domain.broadcast(domain.rational(self.value), shape),)
