"""Rules that compute convolutions and products of matrices by bilinear algorithms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, cast

from superopt.generator.bilinear.algorithms import BilinearAlgorithm
from superopt.generator.bilinear.filters import FilterAlgorithm
from superopt.generator.bilinear.maps import Coefficients
from superopt.generator.bilinear.products import ProductAlgorithm
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, AttributeTerm, Direction, Equation, Variable

LARGEST_AMPLIFICATION = 40.0
"""Rounding errors of a rule relative to those of the definition, at most; those of two axes multiply."""

Attributes: TypeAlias = "tuple[tuple[str, AttributeTerm], ...]"


@dataclass(frozen=True)
class BilinearRule:
    """A rule, and the map that its algorithm computes."""

    equation: Equation
    provenance: str


def filter_rules(found: FilterAlgorithm) -> Iterator[BilinearRule]:
    """The rules for any convolution with stride 1 whose kernel has as many rows, columns or both as the
    filter has taps, where rounding errors stay within ``LARGEST_AMPLIFICATION``. Where the outputs of a tile
    divide the taps, a kernel may have several parts of so many taps along one axis; there is a rule for each
    number of zeros that completes the last part. None for a filter of one tap, which has nothing to save."""
    if found.taps == 1:
        return
    algorithm = matrices(found.algorithm)
    may_have_parts = found.taps % found.outputs == 0
    for axes in (("columns",), ("rows",), *(() if may_have_parts else (("rows", "columns"),))):
        if found.amplification ** len(axes) > LARGEST_AMPLIFICATION:
            continue
        attributes = tuple((axis, algorithm) for axis in axes)
        for zeros in range(found.taps if may_have_parts else 1):
            completed = (0, zeros) if axes == ("columns",) else (zeros, 0)
            yield BilinearRule(_equation(attributes, completed), f"F({found.outputs},{found.taps})")


def product_rules(found: Iterable[ProductAlgorithm]) -> Iterator[BilinearRule]:
    """The rules for any product by a plain matrix whose sizes those of the algorithm divide, where rounding
    errors stay within ``LARGEST_AMPLIFICATION``."""
    for each in found:
        if each.amplification <= LARGEST_AMPLIFICATION:
            yield BilinearRule(_product_equation(each.algorithm), "x".join(map(str, each.sizes)))


def matrices(algorithm: BilinearAlgorithm) -> AttributeTerm:
    """The algorithm as an attribute of an operator: its matrices over data, weights and results."""
    parts = (algorithm.left, algorithm.right, algorithm.result)
    return cast("AttributeTerm", tuple(map(_rows, parts)))


def _equation(algorithms: Attributes, zeros: tuple[int, int]) -> Equation:
    x, y = Variable("x"), Variable("y")
    padding, dilation = ("padding", AttributeVariable("p")), ("dilation", AttributeVariable("d"))
    completed: Attributes = (("zeros", zeros),) if any(zeros) else ()
    kernel = Application("filter_transform", (*algorithms, *completed), (y,))
    source = Application("conv", (padding, dilation), (x, y))
    target = Application("bilinear_conv", (*algorithms, padding, *completed, dilation), (x, kernel))
    return Equation((source,), (target,), direction=Direction.FORWARD)


def _product_equation(algorithm: BilinearAlgorithm) -> Equation:
    x, y, attributes = Variable("x"), Variable("y"), (("algorithm", matrices(algorithm)),)
    transformed = Application("product_transform", attributes, (y,))
    source = Application("matmul", (), (x, y))
    target = Application("bilinear_matmul", attributes, (x, transformed))
    return Equation((source,), (target,), direction=Direction.FORWARD)


def _rows(matrix: Coefficients) -> tuple[tuple[int | Fraction, ...], ...]:
    return tuple(tuple(_number(Fraction(entry)) for entry in row) for row in matrix)


def _number(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


__all__ = ["LARGEST_AMPLIFICATION", "BilinearRule", "filter_rules", "matrices", "product_rules"]
