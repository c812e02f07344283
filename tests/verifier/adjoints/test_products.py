"""Vector-Jacobian products from the semantics of operators are those of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from superopt.domains import FloatDomain
from superopt.ops import operator_from_attributes
from superopt.verifier.adjoints.products import vector_jacobian_product


def convolved(x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (2, 1), "VALID", feature_group_count=2)


CASES: dict[str, tuple[dict[str, object], Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "tanh": ({}, jnp.tanh, ((2, 3),)),
    "div": ({}, jnp.divide, ((2, 3), (2, 3))),
    "matmul": ({}, jnp.matmul, ((2, 3), (4, 3, 2))),
    "softmax": ({"axis": 0}, lambda x: jax.nn.softmax(x, 0), ((3, 2),)),
    "reduce_max": ({"axis": 1}, lambda x: x.max(1, keepdims=True), ((2, 3),)),
    "concat": ({"axis": 1}, lambda x, y: jnp.concatenate((x, y), 1), ((2, 1), (2, 3))),
    "conv": ({"stride": (2, 1)}, convolved, ((1, 4, 4, 3), (2, 2, 2, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_the_product_is_that_of_jax(name: str) -> None:
    attributes, function, shapes = CASES[name]
    random = np.random.default_rng(7)
    arrays = [random.normal(size=(2, *shape)) for shape in shapes]
    operator = operator_from_attributes(name, attributes)
    (result,) = operator.evaluate(FloatDomain(np.float64), *arrays)
    cotangent = random.normal(size=result.shape)
    with jax.enable_x64():
        for operand in range(len(shapes)):
            found = vector_jacobian_product(operator, operand, FloatDomain(np.float64), arrays, cotangent)
            assert found.shape == arrays[operand].shape
            for sample in range(2):
                _, pulled = jax.vjp(function, *(jnp.asarray(array[sample]) for array in arrays))
                wanted = pulled(jnp.asarray(cotangent[sample]))[operand]
                np.testing.assert_allclose(found[sample], wanted, rtol=1e-9, atol=1e-12)
