"""One instance at a time: what the field, floats and the solver say of it."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.equations import parse_adjoint
from superopt.instances.gradients import gradient_instance
from superopt.ir.types import ElementType, TensorType
from superopt.rewriting.typing import infer_terms
from superopt.verifier.adjoints.pairing import Outcome, Paired, paired
from superopt.verifier.adjoints.symbolic import holds_for_all_reals


def judged(text: str, *shapes: tuple[int, ...], **attributes: object) -> tuple[Paired, bool]:
    """What is said of the statement for operands of these shapes, over samples and symbolically."""
    adjoint = parse_adjoint(text, "statement")
    operands = [TensorType(ElementType.FLOAT, shape) for shape in shapes]
    named = {operand.name: type_ for operand, type_ in zip(adjoint.operands, operands, strict=True)}
    result = infer_terms((adjoint.application,), named, attributes).types[adjoint.application]
    instance = gradient_instance(adjoint, operands, result, attributes)
    return paired(adjoint, instance, np.random.default_rng(2)), holds_for_all_reals(adjoint, instance)


@pytest.mark.parametrize(
    ("text", "shapes", "outcome", "symbolic"),
    [
        ("adjoint[input=0](exp(x), g) = mul(g, exp(x))", [(2, 3)], Outcome.EXACT, True),
        ("adjoint[input=1](mul(x, y), g) = mul(g, x)", [(3,), (3,)], Outcome.EXACT, True),
        ("adjoint[input=1](mul(x, y), g) = mul(g, y)", [(3,), (3,)], Outcome.UNEQUAL, False),
        (
            "adjoint[input=0](sqrt(x), g) = div(scale(g, full[value=1/2]()), sqrt(x))",
            [()],
            Outcome.EXACT,
            True,
        ),
        # log(x) has no known exponent in the prime field: what is left are floats, and symbols.
        (
            "adjoint[input=0](log(x), g) = mul(g, exp(scale(log(x), full[value=-1]())))",
            [(2,)],
            Outcome.ROUNDED,
            True,
        ),
        # Equal where x is positive, undefined elsewhere although the operator is not.
        ("adjoint[input=0](identity(x), g) = mul(g, div(sqrt(x), sqrt(x)))", [(4,)], Outcome.UNEQUAL, True),
        (
            "adjoint[input=0](relu(x), g) = select(greater(x, full[value=0]()), g, full[value=0]())",
            [(2, 2, 2)],
            Outcome.EXACT,
            True,
        ),
        # Rows of a table, for indices of two axes.
        (
            "adjoint[input=0](lookup(x, i), g) = lookup_gradient(i, g)",
            [(2, 2), (3, 1)],
            Outcome.EXACT,
            True,
        ),
    ],
)
def test_outcomes(text: str, shapes: list[tuple[int, ...]], outcome: Outcome, *, symbolic: bool) -> None:
    found, for_all_reals = judged(text, *shapes)
    assert (found.outcome, for_all_reals) == (outcome, symbolic)
    assert bool(found.reason) == (outcome is Outcome.UNEQUAL)
