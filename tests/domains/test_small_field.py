"""The small prime field computes what whole numbers give modulo its primes, and keeps their laws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.domains import prime_field as large
from superopt.domains.small_field import (
    BASE,
    ORDER,
    PRIME,
    SmallArray,
    SmallFieldDomain,
    exact_matmul,
    random_array,
    reduced,
)
from superopt.errors import UnsupportedError
from superopt.ops.elementwise.activation import hyperbolic_tangent, logistic, rectified

FIELD = SmallFieldDomain()
ONE = FIELD.rational(1)


def random(index: int, *shape: int) -> SmallArray:
    return random_array(np.random.default_rng(index), 3, shape, like=ONE)


x, y, z = (random(index, 3, 4) for index in range(3))
add, mul, neg, exp, top = FIELD.add, FIELD.multiply, FIELD.negate, FIELD.exp, FIELD.maximum

LAWS: dict[str, tuple[SmallArray, SmallArray]] = {
    "x (y + z) = x y + x z": (mul(x, add(y, z)), add(mul(x, y), mul(x, z))),
    "1/(x y) = 1/x 1/y": (FIELD.reciprocal(mul(x, y)), mul(FIELD.reciprocal(x), FIELD.reciprocal(y))),
    "max(x, y) + z = max(x + z, y + z)": (add(top(x, y), z), top(add(x, z), add(y, z))),
    "relu(x) - relu(-x) = x": (FIELD.subtract(rectified(FIELD, x), rectified(FIELD, neg(x))), x),
    "relu(x - x) = x - x, whatever rounding does": (
        rectified(FIELD, FIELD.subtract(add(add(x, y), z), add(x, add(y, z)))),
        FIELD.subtract(x, x),
    ),
    "exp(x + y) = exp(x) exp(y)": (exp(add(x, y)), mul(exp(x), exp(y))),
    "exp(exp(x + y)) = exp(exp(x) exp(y))": (exp(exp(add(x, y))), exp(mul(exp(x), exp(y)))),
    "exp(0 exp(x)) = 1": (exp(mul(exp(x), FIELD.subtract(y, y))), add(FIELD.subtract(x, x), ONE)),
    "sigmoid(-x) = 1 - sigmoid(x)": (logistic(FIELD, neg(x)), FIELD.subtract(ONE, logistic(FIELD, x))),
    "tanh(-x) = -tanh(x)": (hyperbolic_tangent(FIELD, neg(x)), neg(hyperbolic_tangent(FIELD, x))),
    "sqrt(x y) = sqrt(x) sqrt(y)": (FIELD.sqrt(mul(x, y)), mul(FIELD.sqrt(x), FIELD.sqrt(y))),
    "erf(x + y) = erf(y + x)": (FIELD.apply("erf", add(x, y)), FIELD.apply("erf", add(y, x))),
}


@pytest.mark.parametrize("law", LAWS)
def test_laws(law: str) -> None:
    left, right = LAWS[law]
    assert (left.residue == right.residue).all()


def test_different_functions_differ() -> None:
    found = [x, y, neg(x), exp(x), exp(y), FIELD.apply("erf", x), FIELD.apply("power", x, (Fraction(1, 3),))]
    found += [rectified(FIELD, x), FIELD.sqrt(x), logistic(FIELD, x), top(x, y), add(x, y), mul(x, y)]
    assert len({value.residue.tobytes() for value in found}) == len(found)


integers = st.integers(-(10**12), 10**12)


@settings(max_examples=50, deadline=None)
@given(st.lists(integers, min_size=8, max_size=8), st.integers(1, 10**6))
def test_arithmetic_is_that_of_whole_numbers_modulo_the_prime(numbers: list[int], divisor: int) -> None:
    left, right = (np.array(numbers[k : k + 4], np.int64).reshape(2, 2) for k in (0, 4))
    a, b = (FIELD.constant(matrix, np.array(1)) for matrix in (left, right))
    exact = [[[int(v) for v in row] for row in matrix] for matrix in (left, right)]
    product = [[sum(exact[0][i][k] * exact[1][k][j] for k in range(2)) for j in range(2)] for i in range(2)]
    assert _whole(FIELD.matmul(a, b)) == [[v % PRIME for v in row] for row in product]
    assert _whole(add(a, b)) == ((left + right) % PRIME).tolist()
    quotient = FIELD.constant(left, np.array(divisor))
    assert _whole(mul(quotient, FIELD.rational(divisor))) == (left % PRIME).tolist()
    assert _whole(FIELD.sum(a, 1)) == (left.sum(axis=1) % PRIME).tolist()


def _whole(array: SmallArray) -> list[object]:
    return (array.residue[0].astype(np.int64) % PRIME).tolist()


def test_nothing_is_lost_in_the_largest_sums() -> None:
    length = 5000
    largest = np.full((1, length), (PRIME - 1) // 2, np.float64)
    expected = ((PRIME - 1) // 2) ** 2 * length % PRIME
    assert int(exact_matmul(largest, largest.T.copy())[0, 0]) % PRIME == expected
    row = SmallArray(largest[np.newaxis].astype(np.float32))
    assert int(FIELD.matmul(row, FIELD.transpose(row, (1, 0))).residue[0, 0, 0]) % PRIME == expected
    edges = np.array([float(k * PRIME + r) for k in (0, 1, 2**29 - 1) for r in (-1, 0, 1, PRIME // 2)])
    assert (reduced(edges.copy()).astype(np.int64) % PRIME).tolist() == [int(e) % PRIME for e in edges]


def test_the_primes_fit_each_other() -> None:
    assert PRIME == 2 * ORDER + 1
    assert PRIME % 4 == 3, "so that x^((p+1)/4) is a square root"
    assert all(number % divisor for number in (PRIME, ORDER) for divisor in range(2, 1500))
    assert pow(BASE, ORDER, PRIME) == 1, "the base generates the subgroup of that order"


@pytest.mark.parametrize(
    ("base", "order", "prime"), [(BASE, ORDER, PRIME), (large.BASE, large.EXPONENT_PRIME, large.MODULUS)]
)
def test_exponentials_of_small_rationals_are_no_small_rationals(base: int, order: int, prime: int) -> None:
    small = {top * pow(bottom, -1, prime) % prime for top in range(-64, 65) for bottom in range(1, 65)}
    halves = [k * pow(m, -1, order) % order for k in range(1, 13) for m in range(1, 13)]
    assert small.isdisjoint(pow(base, exponent, prime) for exponent in halves)


def test_no_element_of_a_random_array_has_one_sign() -> None:
    shadow = random(7, 500).shadow
    assert shadow is not None
    assert (np.abs(np.sign(shadow).sum(axis=0)) == 1).all()


def test_what_is_not_carried_cannot_be_asked_for() -> None:
    bare = SmallArray(x.residue)
    assert add(bare, x).shadow is None
    with pytest.raises(UnsupportedError, match="without shadows"):
        rectified(FIELD, bare)
    with pytest.raises(UnsupportedError, match="without exponents"):
        exp(bare)
