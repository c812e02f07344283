"""Dual numbers: the derivative of every operator is that of central differences; ties; exactness."""
# pyright: reportUnknownMemberType=false
# JAX leaves what its functions take untyped.

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from superopt.domains import FloatDomain, PrimeFieldDomain
from superopt.errors import UnsupportedError
from superopt.instances.channels import Sizes
from superopt.instances.drawn import DrawnInstances
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, Equation, Variable
from superopt.ops.base import OPERATORS, attribute_names
from superopt.verifier.adjoints import Dual, DualDomain, why_no_adjoint
from tests.ops.algorithms import OPEN
from tests.verifier.adjoints.differences import TOLERANCE, drawn_arrays, jacobian, shape_of

SIZED_BY_EQUATIONS = {"avgpool_gradient", "conv_data_gradient", "conv_weight_gradient"}
"""Only an equation determines their shape; tests/optimizer/training/test_reverse.py tries them."""

DIFFERENTIABLE = sorted(
    name
    for name, operator in OPERATORS.items()
    if not why_no_adjoint(operator) and name not in SIZED_BY_EQUATIONS
)
FLOATS = DualDomain(FloatDomain(np.float64))


def applied(name: str) -> Application:
    """The operator applied to variables, with a variable for each attribute that types do not determine
    and that the sampler has values for."""
    operator = OPERATORS[name]
    attributes = tuple(
        (attribute, OPEN.get(attribute, AttributeVariable(f"a{index}")))
        for index, attribute in enumerate(attribute_names(name))
        if attribute not in operator.implicit
    )
    return Application(name, attributes, tuple(Variable(f"x{index}") for index in range(operator.inputs)))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_those_of_central_differences(name: str) -> None:
    application, generator = applied(name), np.random.default_rng(7)
    tried = 0
    for instance in DrawnInstances(Equation((application,), (application,)), Sizes(), 3).instances(8):
        operator = instance.typing.operators[application]
        arrays = drawn_arrays(instance, generator)
        for index in set(range(len(arrays))) - OPERATORS[name].conditions:
            direction = generator.normal(size=arrays[f"x{index}"].shape)
            inputs = [Dual(arrays[f"x{i}"], direction if i == index else None) for i in range(len(arrays))]
            (result,) = operator.evaluate(FLOATS, *inputs)
            columns = jacobian(application, instance, arrays, f"x{index}")
            expected = np.tensordot(direction.reshape(-1), columns, axes=1)
            found = FLOATS.tangent(result)[0]
            assert found.shape == shape_of(instance.typing.types[application])
            scale = 1 + np.abs(columns).max(initial=0)
            assert np.abs(found - expected).max(initial=0) <= TOLERANCE * scale, str(instance)
            tried += 1
    assert tried >= 4


JAX: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "erf": jax.scipy.special.erf,
    "exp": jnp.exp,
    "log": jnp.log,
    "sigmoid": jax.nn.sigmoid,
    "softmax": jax.nn.softmax,
    "sqrt": jnp.sqrt,
    "tanh": jnp.tanh,
}


@pytest.mark.parametrize("name", JAX)
def test_derivatives_are_those_of_jax(name: str) -> None:
    points, direction = np.random.default_rng(3).uniform(0.25, 3, (2, 12))
    (result,) = OPERATORS[name]().evaluate(FLOATS, Dual(points[None], direction[None]))
    with jax.enable_x64():
        _, expected = jax.jvp(JAX[name], (jnp.asarray(points),), (jnp.asarray(direction),))
    np.testing.assert_allclose(FLOATS.tangent(result)[0], np.asarray(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(1.0, 0.0, 2.0), (0.0, 1.0, 3.0), (1.0, 1.0, 3.0)],
    ids=["left larger", "right larger", "tie"],
)
def test_a_maximum_has_the_derivative_of_the_larger_one_and_at_ties_of_the_second(
    left: float, right: float, expected: float
) -> None:
    result = FLOATS.maximum(_number(left, 2.0), _number(right, 3.0))
    assert FLOATS.tangent(result).tolist() == [[expected]]


def test_relu_at_zero_has_derivative_zero() -> None:
    (result,) = OPERATORS["relu"]().evaluate(FLOATS, _number(0.0, 1.0))
    assert FLOATS.tangent(result).tolist() == [[0.0]]


def test_the_first_of_the_largest_elements_has_the_derivative() -> None:
    row = Dual(np.array([[1.0, 5.0, 5.0, 2.0]]), np.array([[1.0, 10.0, 100.0, 1000.0]]))
    assert FLOATS.tangent(FLOATS.max_along(row, 0)).tolist() == [10.0]


def test_conditions_have_no_derivative() -> None:
    result = FLOATS.select(_number(1.0, 7.0), _number(2.0, 3.0), _number(4.0, 5.0))
    assert (result.value.tolist(), FLOATS.tangent(result).tolist()) == ([[2.0]], [[3.0]])


def test_quotients_are_exact_in_the_prime_field() -> None:
    field, generator = PrimeFieldDomain(), np.random.default_rng(1)
    dual = DualDomain(field)
    x, v = field.random(generator, 4, (3,)), field.random(generator, 4, (3,))
    one = dual.divide(Dual(x, v), Dual(x, v))
    assert not dual.tangent(one).residue.any()
    assert (one.value.residue == 1).all()


def test_constants_have_derivative_zero() -> None:
    assert FLOATS.rational(Fraction(1, 2)).tangent is None
    assert FLOATS.tangent(FLOATS.rational(3)).tolist() == [0.0]


def test_a_function_without_a_known_derivative_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="gamma"):
        FLOATS.apply("gamma", FLOATS.rational(1))


def _number(value: float, tangent: float) -> Dual[np.ndarray]:
    return Dual(np.array([[value]]), np.array([[tangent]]))
