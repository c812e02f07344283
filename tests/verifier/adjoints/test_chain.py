"""Gradients that follow from a definition by the chain rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_adjoint
from superopt.ops import operator_from_attributes
from superopt.verifier.adjoints.chain import definition_with_gradient

CASES = [
    ("silu", {"alpha": "7/5"}, ((2, 3),), "silu-definition"),
    ("gelu", {}, ((2, 3),), "gelu-by-erf"),
    ("gelu", {"approximate": "tanh"}, ((2, 3),), "gelu-by-tanh"),
    ("layer_normalization", {}, ((2, 3), (3,), (3,)), "layer-normalization-by-rms"),
    ("exp", {}, ((2, 3),), ""),
]


@pytest.mark.parametrize(("operator", "attributes", "shapes", "axiom"), CASES)
def test_a_definition_gives_the_gradient(
    operator: str, attributes: dict[str, object], shapes: tuple[tuple[int, ...], ...], axiom: str
) -> None:
    values = {name: 7 / 5 if value == "7/5" else value for name, value in attributes.items()}
    made = operator_from_attributes(operator, values)
    assert definition_with_gradient(made, 0, shapes, load_axioms()) == axiom


def test_a_wrong_statement_in_between_gives_no_gradient() -> None:
    axioms = load_axioms()
    wrong = parse_adjoint("wrong: adjoint[input=0](sigmoid(x), g) = mul(g, sigmoid(x))")
    planted = replace(axioms, adjoints=(wrong, *axioms.adjoints))
    silu = operator_from_attributes("silu", {})
    assert definition_with_gradient(silu, 0, ((2, 3),), axioms)
    assert not definition_with_gradient(silu, 0, ((2, 3),), planted)
