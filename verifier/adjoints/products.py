"""The vector-Jacobian product of any operator, from its semantics alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeVar

import numpy as np

from superopt.domains import Domain
from superopt.ops import Operator
from superopt.verifier.adjoints.dual import Dual, DualDomain

A = TypeVar("A")


def vector_jacobian_product(
    operator: Operator, operand: int, domain: Domain[A], arrays: Sequence[A], cotangent: A
) -> A:
    """The gradient with respect to an operand, counted from 0, of its shape, for a cotangent of the shape of
    the result: along each unit vector the inner product of derivative and cotangent."""
    shape = domain.shape(arrays[operand])
    count = prod(domain.shape(cotangent))
    dual = DualDomain(domain)
    elements: list[A] = []
    for index in range(prod(shape)):
        unit = np.zeros(shape, np.int64)
        unit.flat[index] = 1
        direction = domain.constant(unit, np.ones(shape, np.int64))
        inputs = (Dual(array, direction if place == operand else None) for place, array in enumerate(arrays))
        (result,) = operator.evaluate(dual, *inputs)
        products = domain.multiply(dual.tangent(result), cotangent)
        elements.append(domain.reshape(domain.sum(domain.reshape(products, (count,)), 0), (1,)))
    return domain.reshape(domain.concatenate(elements, 0), shape)


__all__ = ["vector_jacobian_product"]
