"""Laws of numbers: what each domain promises holds in it, and the domains agree where they overlap."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import z3

from superopt.domains import Array, Domain, ExactDomain, FieldArray, FloatDomain, PrimeFieldDomain
from superopt.domains.prime_field import BASE, DERIVED, EXPONENT_PRIME, MODULUS
from superopt.domains.symbolic import SymbolicDomain
from superopt.errors import UnsupportedError
from superopt.ops.elementwise.activation import hyperbolic_tangent, logistic, rectified

FIELD = PrimeFieldDomain()
EXACT = ExactDomain()
FLOATS = FloatDomain()
SHAPE = (3, 4)
A = FieldArray


def random(index: int, shape: tuple[int, ...] = SHAPE, stack: int = 5) -> FieldArray:
    return FIELD.random(np.random.default_rng(index), stack, shape)


def same(left: FieldArray, right: FieldArray) -> bool:
    return bool((left.residue == right.residue).all() and (left.exponent == right.exponent).all())


def same_values(left: FieldArray, right: FieldArray) -> bool:
    return bool((left.residue == right.residue).all())


ONE = FIELD.rational(1)
ZERO = FIELD.rational(0)
x, y, z = random(1), random(2), random(3)
add, mul, neg, exp, top = FIELD.add, FIELD.multiply, FIELD.negate, FIELD.exp, FIELD.maximum


def sigmoid(array: FieldArray) -> FieldArray:
    return logistic(FIELD, array)


RING_AND_ORDER: dict[str, tuple[FieldArray, FieldArray]] = {
    "x + y = y + x": (add(x, y), add(y, x)),
    "(x + y) + z = x + (y + z)": (add(add(x, y), z), add(x, add(y, z))),
    "x - x = 0": (FIELD.subtract(x, x), mul(x, ZERO)),
    "(x y) z = x (y z)": (mul(mul(x, y), z), mul(x, mul(y, z))),
    "x (y + z) = x y + x z": (mul(x, add(y, z)), add(mul(x, y), mul(x, z))),
    "x / x = 1": (FIELD.divide(x, x), add(mul(x, ZERO), ONE)),
    "1/(x y) = 1/x 1/y": (FIELD.reciprocal(mul(x, y)), mul(FIELD.reciprocal(x), FIELD.reciprocal(y))),
    "1/2 + 1/3 = 5/6": (
        add(FIELD.rational(Fraction(1, 2)), FIELD.rational(Fraction(1, 3))),
        FIELD.rational(Fraction(5, 6)),
    ),
    "max(x, y) = max(y, x)": (top(x, y), top(y, x)),
    "max(x, max(y, z)) = max(max(x, y), z)": (top(x, top(y, z)), top(top(x, y), z)),
    "max(x, x) = x": (top(x, x), x),
    "max(x, y) + z = max(x + z, y + z)": (add(top(x, y), z), top(add(x, z), add(y, z))),
    "max(x, y) + min(x, y) = x + y": (add(top(x, y), FIELD.minimum(x, y)), add(x, y)),
    "relu(relu(x)) = relu(x)": (rectified(FIELD, rectified(FIELD, x)), rectified(FIELD, x)),
    "relu(x) - relu(-x) = x": (FIELD.subtract(rectified(FIELD, x), rectified(FIELD, neg(x))), x),
}

EXPONENTIALS: dict[str, tuple[FieldArray, FieldArray]] = {
    "exp(x + y) = exp(x) exp(y)": (exp(add(x, y)), mul(exp(x), exp(y))),
    "exp(-x) = 1/exp(x)": (exp(neg(x)), FIELD.reciprocal(exp(x))),
    "exp(2/3 x)^3 = exp(2 x)": (
        (lambda third: mul(third, mul(third, third)))(exp(mul(x, FIELD.rational(Fraction(2, 3))))),
        exp(add(x, x)),
    ),
    "sigmoid(-x) = 1 - sigmoid(x)": (sigmoid(neg(x)), FIELD.subtract(ONE, sigmoid(x))),
    "tanh(-x) = -tanh(x)": (hyperbolic_tangent(FIELD, neg(x)), neg(hyperbolic_tangent(FIELD, x))),
    "exp(exp(x + y)) = exp(exp(x) exp(y))": (exp(exp(add(x, y))), exp(mul(exp(x), exp(y)))),
    "sigmoid(sigmoid(-x)) = sigmoid(1 - sigmoid(x))": (
        sigmoid(sigmoid(neg(x))),
        sigmoid(FIELD.subtract(ONE, sigmoid(x))),
    ),
    "sqrt(x y) = sqrt(x) sqrt(y)": (FIELD.sqrt(mul(x, y)), mul(FIELD.sqrt(x), FIELD.sqrt(y))),
    "sqrt(x x) sqrt(x x) = x x": (mul(FIELD.sqrt(mul(x, x)), FIELD.sqrt(mul(x, x))), mul(x, x)),
    "erf(x + y) = erf(y + x)": (FIELD.apply("erf", add(x, y)), FIELD.apply("erf", add(y, x))),
}


@pytest.mark.parametrize("law", RING_AND_ORDER)
def test_ring_and_order_of_the_prime_field(law: str) -> None:
    left, right = RING_AND_ORDER[law]
    assert same(*(FIELD.broadcast(side, SHAPE) if FIELD.shape(side) else side for side in (left, right)))


@pytest.mark.parametrize("law", EXPONENTIALS)
def test_exponentials_of_the_prime_field(law: str) -> None:
    assert same_values(*EXPONENTIALS[law])


def test_different_functions_differ() -> None:
    assert not same_values(exp(x), exp(y))
    assert not same_values(FIELD.apply("erf", x), FIELD.apply("power", x))
    cube_root, square = (FIELD.apply("power", x, (power,)) for power in (Fraction(1, 3), Fraction(2)))
    assert not same_values(cube_root, square)
    assert not same_values(sigmoid(x), hyperbolic_tangent(FIELD, x))


def test_the_primes_fit_each_other() -> None:
    assert (MODULUS - 1) % EXPONENT_PRIME == 0
    assert MODULUS % 4 == 3, "so that x^((p+1)/4) is a square root"
    for prime in (MODULUS, EXPONENT_PRIME):
        assert all(pow(base, prime - 1, prime) == 1 for base in (2, 3, 5, 7, 11, 13))
    assert pow(BASE, EXPONENT_PRIME, MODULUS) == 1, "the base generates the subgroup of that order"


def test_nothing_is_lost_in_the_largest_products() -> None:
    length = 70_000
    largest = np.full((1, 1, length), MODULUS - 1, np.int64)
    row = FieldArray(largest, np.full_like(largest, EXPONENT_PRIME - 1), largest.astype(float))
    column = FIELD.transpose(row, (1, 0))
    product = FIELD.matmul(row, column)
    assert int(product.residue[0, 0, 0]) == length * (MODULUS - 1) ** 2 % MODULUS
    assert int(product.exponent[0, 0, 0]) == length * (EXPONENT_PRIME - 1) ** 2 % EXPONENT_PRIME
    assert int(FIELD.sum(row, 1).residue[0, 0]) == length * (MODULUS - 1) % MODULUS


def test_matrix_products_are_sums_of_products() -> None:
    left, right = random(4, (2, 3)), random(5, (3, 2))
    spread = mul(FIELD.reshape(left, (2, 3, 1)), FIELD.reshape(right, (1, 3, 2)))
    assert same(FIELD.matmul(left, right), FIELD.sum(spread, 1))


def test_derived_exponents_spread_with_what_is_computed_from_them_and_no_further() -> None:
    values = exp(random(6, (2,)))
    assert (values.exponent == DERIVED).all()
    mixed = FIELD.concatenate((values, random(7, (2,))), 0)
    assert (mixed.exponent[:, :2] == DERIVED).all()
    assert (mixed.exponent[:, 2:] != DERIVED).all()
    matrix = FIELD.constant(np.array([[1, 0, 0, 0], [0, 0, 1, 2]]), np.array(1))
    product = FIELD.matmul(matrix, FIELD.reshape(mixed, (4, 1)))
    assert (product.exponent[:, 0] == DERIVED).all()
    assert (product.exponent[:, 1] != DERIVED).all(), "a factor of exactly 0 takes nothing over"
    assert (FIELD.sum(mixed, 0).exponent == DERIVED).all()
    assert same(FIELD.slice(mixed, 0, 2, 4), random(7, (2,)))


def test_stacks_of_one_stand_for_any_stack() -> None:
    single, many = random(8, stack=1), random(9, stack=4)
    repeated = FieldArray(
        *(np.repeat(part, 4, 0) for part in (single.residue, single.exponent, single.shadow))
    )
    for operation in (add, mul, top):
        assert same(operation(single, many), operation(repeated, many))
    assert same(FIELD.concatenate((single, many), 1), FIELD.concatenate((repeated, many), 1))


NUMBERS = (
    Fraction(3, 7),
    Fraction(-2),
    Fraction(1e-12),
    Fraction(1, 10**30),
    Fraction(10**40),
    Fraction(0.1),
)


@pytest.mark.parametrize("number", NUMBERS)
def test_constants_of_any_size(number: Fraction) -> None:
    assert EXACT.rational(number)[0] == number
    assert FLOATS.rational(number)[0] == float(number)
    residue = int(FIELD.rational(number).residue[0])
    assert residue * number.denominator % MODULUS == number.numerator % MODULUS
    assert FloatDomain(np.float32).rational(number).dtype == np.float32


BINARY: tuple[Callable[[Domain[Array], Array, Array], Array], ...] = (
    lambda d, a, b: d.add(a, b),
    lambda d, a, b: d.subtract(a, b),
    lambda d, a, b: d.multiply(a, b),
    lambda d, a, b: d.divide(a, b),
    lambda d, a, b: d.maximum(a, b),
    lambda d, a, b: d.minimum(a, b),
    lambda d, a, b: d.matmul(a, d.transpose(b, (1, 0))),
    lambda d, a, b: d.sum(d.multiply(a, b), 1),
    lambda d, a, b: d.max_along(d.add(a, b), 0),
    lambda d, a, b: d.concatenate((d.negate(a), b), 1),
    lambda d, a, b: d.add(d.slice(a, 1, 1, 3), d.reshape(d.slice(b, 0, 0, 1), (2, 2))[:, :1]),
    lambda d, a, b: d.add(d.multiply(a, d.rational(Fraction(1, 3))), d.broadcast(d.slice(b, 0, 1, 2), SHAPE)),
)


@pytest.mark.parametrize("operation", BINARY)
def test_floats_agree_with_exact_numbers(operation: Callable[[Domain[Array], Array, Array], Array]) -> None:
    generator = np.random.default_rng(0)
    left, right = (EXACT.random(generator, 2, SHAPE) for _ in range(2))
    exact = operation(EXACT, left, right)
    floats = operation(FLOATS, left.astype(np.float64), right.astype(np.float64))
    assert floats.shape == exact.shape
    np.testing.assert_allclose(floats, exact.astype(np.float64), rtol=1e-12, atol=1e-12)


def test_floats_do_what_ieee_says_without_a_warning() -> None:
    huge = np.full((1, 2), 1e308)
    zero = np.zeros((1, 2))
    assert np.isinf(FLOATS.add(huge, huge)).all()
    assert np.isinf(FLOATS.multiply(huge, huge)).all()
    assert np.isinf(FLOATS.exp(huge)).all()
    assert np.isinf(FLOATS.reciprocal(zero)).all()
    assert np.isnan(FLOATS.divide(zero, zero)).all()
    assert np.isnan(FLOATS.sqrt(np.full((1, 1), -1.0))).all()
    assert np.isinf(FloatDomain(np.float16).rational(10**6)).all()
    assert np.isinf(FLOATS.sum(huge, 0)).all()


def test_exact_numbers_have_no_transcendental_functions() -> None:
    array = EXACT.rational(2)
    for function in (EXACT.exp, EXACT.sqrt, lambda a: EXACT.apply("erf", a)):
        with pytest.raises(UnsupportedError, match="not rational: use the prime field"):
            function(array)
    assert EXACT.reciprocal(EXACT.rational(0))[0] == 0


def proves(domain: SymbolicDomain, context: z3.Context, left: Array, right: Array) -> bool:
    solver = z3.Solver(ctx=context)
    solver.add(*domain.facts)
    pairs = zip(left.flat, right.flat, strict=True)
    solver.add(z3.Or(*[a != b for a, b in pairs]))
    return solver.check() == z3.unsat


def test_symbolic_reals_prove_identities_and_nothing_else() -> None:
    context = z3.Context()
    domain = SymbolicDomain(context)
    a, b = domain.variables("a", (2, 2)), domain.variables("b", (2, 2))
    zero = domain.rational(0)
    assert proves(domain, context, domain.add(a, b), domain.add(b, a))
    relu = domain.maximum(a, zero)
    assert proves(domain, context, domain.maximum(relu, zero), relu)
    assert not proves(domain, context, relu, a)
    assert proves(domain, context, domain.exp(domain.add(a, b)), domain.exp(domain.add(b, a)))
    assert proves(domain, context, domain.maximum(domain.exp(a), zero), domain.exp(a)), (
        "exponentials are positive"
    )
    assert not proves(domain, context, domain.apply("erf", a), domain.exp(a))


def test_padding_puts_plain_zeros_among_symbols() -> None:
    context = z3.Context()
    domain = SymbolicDomain(context)
    a = domain.variables("a", (2,))
    padded = domain.rearrange(lambda part: np.pad(part, ((0, 0), (1, 1))), a)
    zeros = domain.rearrange(lambda part: np.pad(part * 0, ((0, 0), (1, 1))), a)
    assert proves(domain, context, domain.multiply(padded, domain.rational(0)), zeros)
    assert proves(domain, context, domain.add(padded, domain.negate(padded)), zeros)
    assert proves(domain, context, domain.maximum(padded, padded), padded)
    assert proves(domain, context, domain.sum(padded, 0), domain.sum(a, 0))
    shifted = domain.exp(padded)
    assert domain.shape(shifted) == (4,)
    assert proves(domain, context, domain.divide(shifted, shifted), domain.add(zeros, domain.rational(1)))
    assert domain.shape(domain.sqrt(padded)) == (4,)


def test_maximum_follows_the_real_order_even_where_residues_wrap() -> None:
    large, small = FIELD.rational(-1), FIELD.rational(Fraction(-3, 2))
    assert operator.gt(int(large.residue[0]), 0)
    assert same(FIELD.maximum(large, small), large)
