"""Axioms marked ``ring`` hold for integers that wrap around, and use ring operations alone."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest

from superopt.axioms import load_axioms
from superopt.domains import Array, FloatDomain
from superopt.domains.base import Domain
from superopt.ir.terms import Equation
from superopt.rewriting.evaluation import evaluate_terms
from superopt.verifier.refute.refutation import Effort, refute
from superopt.verifier.seeds import seed_of
from tests.ops.algorithms import with_algorithms

AXIOMS = load_axioms()
LIMITS = np.iinfo(np.int32)


class NotARingError(Exception):
    """What was asked for is no ring operation."""


class WrappingIntegers(FloatDomain):
    """int32 arrays: sums and products modulo 2^32; nothing that a commutative ring does not have."""

    def __init__(self) -> None:
        super().__init__(np.int32)

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> Array:
        if np.any(np.asarray(denominators) != 1):
            raise NotARingError(f"fraction {numerators}/{denominators}")
        return np.asarray(numerators).astype(np.int32)[np.newaxis]

    def reciprocal(self, array: Array) -> Array:
        raise NotARingError("division")

    def maximum(self, left: Array, right: Array) -> Array:
        raise NotARingError("order")

    def select(self, condition: Array, left: Array, right: Array) -> Array:
        raise NotARingError("order")

    def rows(self, table: Array, indices: Array) -> Array:
        raise NotARingError("order")

    def exp(self, array: Array) -> Array:
        raise NotARingError("exponential")

    def sqrt(self, array: Array) -> Array:
        raise NotARingError("root")

    def apply(self, function: str, array: Array, parameters: tuple[Fraction, ...] = ()) -> Array:
        raise NotARingError(function)


def largest_integers(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Integers of the whole range, so that every sum and product wraps around."""
    return generator.integers(LIMITS.min, LIMITS.max, (2, *shape), dtype=np.int32, endpoint=True)


def difference_over_integers(axiom: Equation) -> str:
    """The first instance on which the sides differ, or use more than a ring; empty when there is none."""
    axiom = with_algorithms(axiom)
    generator = np.random.default_rng(seed_of(axiom, 11))
    instances = refute(axiom, Effort(schemes=6, per_scheme=2, stack=1)).instances
    assert instances
    domain: Domain[Array] = WrappingIntegers()
    for instance in instances:
        arrays = {
            name: largest_integers(generator, cast("tuple[int, ...]", type_.array_shape))
            for name, type_ in instance.types.items()
        }
        try:
            values = evaluate_terms(axiom.terms, instance.typing, domain, arrays)
        except NotARingError as error:
            return f"{instance}: {error}"
        half = len(axiom.left)
        for left, right in zip(values[:half], values[half:], strict=True):
            assert left.dtype == right.dtype == np.int32
            if not np.array_equal(*np.broadcast_arrays(left, right)):
                return f"{instance}: different values"
    return ""


@pytest.mark.parametrize("name", sorted(AXIOMS.ring))
def test_a_ring_axiom_holds_for_integers_that_wrap_around(name: str) -> None:
    assert difference_over_integers(AXIOMS.by_name[name]) == ""


NOT_RING_AXIOMS = {
    "relu-idempotent": "order",
    "div-over-add": "division",
    "gelu-by-erf": "fraction 1/2",
    "power-of-half": "root",
    "avgpool-over-add": "fraction",
    "maxpool-of-bias": "order",
    "conv-relu": "order",
    "tanh-by-sigmoid": "exponential",
    "mul-by-full": "fraction",
}


@pytest.mark.parametrize("name", NOT_RING_AXIOMS)
def test_other_axioms_need_more_than_a_ring(name: str) -> None:
    assert name not in AXIOMS.ring
    assert NOT_RING_AXIOMS[name] in difference_over_integers(AXIOMS.by_name[name])
