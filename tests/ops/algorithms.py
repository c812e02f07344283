"""Algorithms for filters and products, as attributes of operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import cast

from superopt.generator.bilinear.filters import filters
from superopt.generator.bilinear.flips import reduced
from superopt.generator.bilinear.maps import Coefficients, product_map
from superopt.generator.bilinear.products import products
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import AttributeTerm, Equation, Variable, attribute_variables, variables
from superopt.ops.bilinear.filter_algorithms import KARATSUBA, FilterAlgorithm, Matrices, Matrix
from superopt.ops.bilinear.product_algorithms import STRASSEN, ProductAlgorithm
from superopt.ops.terms import instantiate

BY_HALVES: Matrices = (
    ((Fraction(1, 2), Fraction(-1, 2), 0), (0, 1, 0), (0, 1, -1)),
    ((2, 0), (1, 1), (0, 1)),
    ((1, 0), (1, 1), (0, -1)),
)
"""Karatsuba's algorithm, with a factor moved from the data to the weights."""

OPEN: Mapping[str, AttributeTerm] = {
    "algorithm": cast("AttributeTerm", STRASSEN),
    "columns": (),
    "rows": cast("AttributeTerm", KARATSUBA),
    "zeros": (1, 0),
}


@cache
def algorithm(outputs: int, taps: int) -> FilterAlgorithm:
    """The algorithm for F(outputs, taps) with the least error; of no outputs, none."""
    if not outputs:
        return ()
    best = filters(outputs, taps)[0].algorithm
    return _matrix(best.left), _matrix(best.right), _matrix(best.result)


def with_algorithms(equation: Equation) -> Equation:
    """The equation with an algorithm for rows, none for columns, and one for products, where these are left
    open, and with kernels that are completed by a row of zeros: the sampler of instances has no values."""
    terms = (*equation.left, *equation.right)
    names = {name: Variable(name) for name in variables(*terms)}
    values: dict[str, AttributeTerm] = {name: AttributeVariable(name) for name in attribute_variables(*terms)}
    for application in equation.applications:
        for name, value in application.attributes:
            if name in OPEN and isinstance(value, AttributeVariable):
                values[value.name] = OPEN[name]
    left, right = (
        tuple(instantiate(term, names, values) for term in side) for side in (equation.left, equation.right)
    )
    return replace(equation, left=left, right=right)


def _matrix(coefficients: Coefficients) -> Matrix:
    return tuple(tuple(Fraction(entry) for entry in row) for row in coefficients)


@cache
def product_algorithm(rows: int, inner: int, columns: int) -> ProductAlgorithm:
    """The algorithm for a product with the fewest multiplications that a short search finds."""
    found = reduced(product_map(rows, inner, columns), flips=300_000).algorithm
    return _matrix(found.left), _matrix(found.right), _matrix(found.result)


@cache
def product_with_shared_sums() -> ProductAlgorithm:
    """An algorithm for 2x2x2 with 11 additions, as few as a search over many seeds finds; this seed finds it
    at once."""
    found = products((2, 2, 2), target=7, seed=17, walks=1)[0].algorithm
    return _matrix(found.left), _matrix(found.right), _matrix(found.result)
