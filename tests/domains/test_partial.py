"""Partial real numbers: where operations are undefined, and that errors bound the distance to the truth."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import numpy as np
import pytest

from superopt.domains import Array, Domain, ExactDomain, PartialArray, PartialDomain
from superopt.errors import UnsupportedError

A = TypeVar("A")

P = PartialDomain()
NAN = float("nan")


def vector(*values: float) -> PartialArray:
    return P.exactly(np.array([values]))


def written(array: PartialArray) -> list[object]:
    """Each element as a number, "undefined" or "unknown"."""
    return [
        "undefined" if undefined else round(float(value), 6) if defined else "unknown"
        for value, undefined, defined in zip(
            array.value.flat, array.undefined.flat, array.defined.flat, strict=True
        )
    ]


x = vector(-2, 0, 4, NAN)
THIRD = P.reciprocal(vector(3, 3, 3, 3))
UNDEFINED: dict[str, tuple[PartialArray, list[object]]] = {
    "1/x": (P.reciprocal(x), [-0.5, "undefined", 0.25, "undefined"]),
    "sqrt(x)": (P.sqrt(x), ["undefined", 0, 2, "undefined"]),
    "x^(1/3)": (P.apply("power", x, (Fraction(1, 3),)), ["undefined", 0, 1.587401, "undefined"]),
    "x^9": (P.apply("power", x, (Fraction(9),)), [-512, 0, 262144, "undefined"]),
    "x^0": (P.apply("power", x, (Fraction(0),)), [1, 1, 1, "undefined"]),
    "erf(x)": (P.apply("erf", x), [-0.995322, 0, 1, "undefined"]),
    "exp(x)": (P.exp(x), [0.135335, 1, 54.59815, "undefined"]),
    "max(x, 0)": (P.maximum(x, P.rational(0)), [0, 0, 4, "undefined"]),
    "min(x, 0)": (P.minimum(x, P.rational(0)), [-2, 0, 0, "undefined"]),
    "0 x": (P.multiply(x, P.rational(0)), [0, 0, 0, "undefined"]),
    "x + 1": (P.add(x, P.rational(1)), [-1, 1, 5, "undefined"]),
    "sum x": (P.sum(x, 0), ["undefined"]),
    "1/(x - x)": (P.reciprocal(P.subtract(x, x)), ["undefined"] * 4),
    "1/(exp(1000) x)": (P.reciprocal(P.multiply(P.exp(vector(1000)), x)), ["unknown"] * 3 + ["undefined"]),
    "0 exp(1000)": (P.multiply(P.exp(vector(1000)), P.rational(0)), ["unknown"]),
    "exp(-1000) > 0": (P.reciprocal(P.exp(vector(-1000))), ["unknown"]),
    "1/(3 (1/3) - 1)": (
        P.reciprocal(P.subtract(P.multiply(vector(3), THIRD), P.rational(1))),
        ["unknown"] * 4,
    ),
    "sqrt(3 (1/3) - 1)": (P.sqrt(P.subtract(P.multiply(vector(3), THIRD), P.rational(1))), ["unknown"] * 4),
    "sqrt(2 (1/3))^2": (P.sqrt(P.multiply(vector(12), THIRD)), [2, 2, 2, 2]),
}


@pytest.mark.parametrize("text", UNDEFINED)
def test_elements_are_undefined_unknown_or_numbers(text: str) -> None:
    found, expected = UNDEFINED[text]
    assert written(found) == expected


def test_a_row_with_an_undefined_element_makes_a_row_of_a_product_undefined() -> None:
    left = P.exactly(np.array([[[1.0, NAN], [2, 3]]]))
    right = P.exactly(np.array([[[0.0, 1], [0, 0]]]))
    assert written(P.matmul(left, right)) == ["undefined", "undefined", 0, 2]
    assert written(P.matmul(right, left)) == [2, "undefined", 0, "undefined"]


def test_overflow_in_a_product_is_unknown() -> None:
    row, column = P.exactly(np.full((1, 1, 2), 1e200)), P.exactly(np.array([[[1e200], [-1e200]]]))
    assert written(P.matmul(row, column)) == ["unknown"]


def formula(domain: Domain[A], a: A, b: A, c: A) -> A:
    quotient = domain.divide(a, domain.add(b, domain.rational(Fraction(1, 3))))
    product = domain.matmul(domain.maximum(quotient, b), c)
    return domain.subtract(domain.multiply(product, product), domain.rational(Fraction(2, 7)))


def rounded(numbers: Array) -> PartialArray:
    """Fractions as floats, with what is lost."""
    values = numbers.astype(np.float64)
    lost = [abs(Fraction(value) - number) for value, number in zip(values.flat, numbers.flat, strict=True)]
    return PartialArray(values, np.array(lost, np.float64).reshape(values.shape))


def test_errors_bound_the_distance_to_exact_numbers() -> None:
    exact, generator = ExactDomain(), np.random.default_rng(3)
    a, b, c = (exact.random(generator, 4, shape) for shape in ((5, 6), (5, 6), (6, 3)))
    truth, found = formula(exact, a, b, c), formula(P, rounded(a), rounded(b), rounded(c))
    for value, error, number in zip(found.value.flat, found.error.flat, truth.flat, strict=True):
        assert abs(Fraction(value) - number) <= Fraction(error)
    assert found.error.max() < 1e-4


def test_a_function_without_a_meaning_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no partial function gamma"):
        P.apply("gamma", x)
