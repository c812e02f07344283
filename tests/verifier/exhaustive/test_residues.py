"""Residues are the numbers modulo a prime; inverses, roots and exponentials are looked up rightly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from superopt.domains import ExactDomain
from superopt.equations import parse_equation
from superopt.errors import UnsupportedError
from superopt.instances.program import Program
from superopt.instances.values import Bound
from superopt.verifier.axiom_checks.exhaustive.degrees import DegreeDomain, bits_per_evaluation, evaluations
from superopt.verifier.axiom_checks.exhaustive.images import all_cases
from superopt.verifier.axiom_checks.exhaustive.residues import (
    EXPONENT_MODULUS,
    MODULUS,
    ResidueDomain,
    Residues,
)

RING = (
    "conv[padding=p, stride=2](x, y) = scale(conv[padding=p, stride=2](x, y), w)",
    "avgpool[kernel=2, padding=same_upper](x) = avgpool[kernel=2, padding=same_upper](x)",
    "div(sub(x, y), z) = mul(x, ones())",
    "matmul(x, concat[axis=-1](y, y)) = x",
    "maxpool[kernel=2](relu(x)) = x",
    "affine[axis=1](x, s, t) = hard_swish(x)",
)


@pytest.mark.parametrize("text", RING)
def test_residues_are_the_exact_values_modulo_the_prime(text: str) -> None:
    program = Program(parse_equation(text, "ring"))
    generator = np.random.default_rng(1)
    domain, exact = ResidueDomain(ordered=True, exponential=True), ExactDomain()
    compared = 0
    for case in all_cases(program, Bound(2)):
        numbers = [exact.random(generator, 2, tuple(map(int, t.array_shape))) for t in case.types]  # type: ignore[arg-type]
        residues = [_residues(array) for array in numbers]
        pairs = program.evaluated(domain, case, residues)
        expected = program.evaluated(exact, case, numbers)
        for (left, right), (one, two) in zip(pairs, expected, strict=True):
            assert np.array_equal(*np.broadcast_arrays(left.residue, _modulo(one, MODULUS)))
            assert np.array_equal(*np.broadcast_arrays(right.residue, _modulo(two, MODULUS)))
            assert right.exponent is not None
            assert np.array_equal(*np.broadcast_arrays(right.exponent, _modulo(two, EXPONENT_MODULUS)))
        compared += 1
        if compared == 40:
            return
    assert compared > 3


def _residues(array: np.ndarray) -> Residues:
    return Residues(_modulo(array, MODULUS), _modulo(array, EXPONENT_MODULUS), np.asarray(array, np.float64))


def _modulo(array: np.ndarray, modulus: int) -> np.ndarray:
    result = np.empty(array.shape, np.int64)
    for index in np.ndindex(array.shape):
        value = Fraction(array[index])
        result[index] = value.numerator * pow(value.denominator, -1, modulus) % modulus
    return result


def test_inverses_roots_and_powers() -> None:
    domain = ResidueDomain(ordered=False, exponential=True)
    generator = np.random.default_rng(2)
    x, y = (domain.random(generator, 1, (1000,)) for _ in range(2))
    assert (domain.multiply(x, domain.reciprocal(x)).residue == 1).all()
    zero = domain.rational(0)
    assert domain.reciprocal(zero).residue.tolist() == [0]
    together = domain.multiply(domain.sqrt(x), domain.sqrt(y))
    assert np.array_equal(domain.sqrt(domain.multiply(x, y)).residue, together.residue)
    square = domain.multiply(x, x)
    root = domain.sqrt(square).residue
    assert np.isin(root * root % MODULUS, square.residue).all()
    assert len(np.unique(domain.sqrt(_all()).residue)) == MODULUS
    sums = domain.exp(domain.add(x, y)).residue
    assert np.array_equal(sums, domain.multiply(domain.exp(x), domain.exp(y)).residue)
    assert domain.exp(zero).residue.tolist() == [1]


def _all() -> Residues:
    return Residues(np.arange(MODULUS)[np.newaxis], None, None)


def test_a_free_exponential_has_no_laws() -> None:
    domain = ResidueDomain(ordered=False, exponential=False)
    generator = np.random.default_rng(3)
    x, y = (domain.random(generator, 1, (1000,)) for _ in range(2))
    sums = domain.exp(domain.add(x, y)).residue
    products = domain.multiply(domain.exp(x), domain.exp(y)).residue
    assert (sums == products).sum() <= 2
    assert np.array_equal(domain.exp(x).residue, domain.exp(domain.add(x, domain.rational(0))).residue)


DEGREES = {
    "add(x, y) = add(y, x)": (1, False),
    "mul(x, mul(y, x)) = x": (3, False),
    "matmul(x, matmul(y, z)) = x": (3, False),
    "div(x, y) = x": (3, False),
    "relu(x) = x": (1, True),
    "sigmoid(x) = x": (3, False),
    "softmax[axis=0](x) = x": (13, True),
}


@pytest.mark.parametrize("text", DEGREES)
def test_degrees_of_the_difference_of_both_sides(text: str) -> None:
    """x / y - x has numerator x - x y and denominator y; bounds of sums of fractions are not sharp."""
    program = Program(parse_equation(text, "degrees"))
    degrees: set[int] = set()
    ordered: set[bool] = set()
    for case in all_cases(program, Bound(2, 2)):
        domain = DegreeDomain(exponential=True)
        inputs = [domain.variable(tuple(map(int, t.array_shape))) for t in case.types]  # type: ignore[arg-type]
        ((left, right),) = program.evaluated(domain, case, inputs)
        degrees.add(domain.error_degree(left, right))
        ordered.add(domain.has_order)
    assert (max(degrees), ordered) == (DEGREES[text][0], {DEGREES[text][1]})


def test_errors_are_below_2_to_the_minus_64() -> None:
    for degree in (1, 2, 7, 100, 5000, 200_000):
        for exponential in (False, True):
            count = evaluations(degree, ordered=False, exponential=exponential)
            assert count * bits_per_evaluation(degree, exponential=exponential) > 64
    with pytest.raises(UnsupportedError, match="too high"):
        evaluations(MODULUS, ordered=False, exponential=False)
