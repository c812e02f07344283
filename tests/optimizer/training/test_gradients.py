"""Gradients of random models are those of differences in float64."""

from __future__ import annotations

from dataclasses import replace

import pytest

from superopt.axioms.loader import load_axioms
from superopt.equations.adjoints import Adjoint
from tests.optimizer.training.gradient_check import Outcome, checked
from tests.optimizer.training.graph_growth import UnfitError

COUNT = 100


def outcomes(first: int) -> list[Outcome]:
    found: list[Outcome] = []
    for seed in range(first, first + COUNT):
        try:
            found.append(checked(seed))
        except UnfitError:
            continue
    return found


def test_gradients_of_random_models_are_right() -> None:
    found = outcomes(first=0)
    assert [outcome for outcome in found if outcome.wrong] == []
    assert sum(outcome.gradients for outcome in found) > COUNT


def test_what_is_refused_names_a_node_or_parameters() -> None:
    refused = [outcome.refused for outcome in outcomes(first=COUNT) if outcome.refused]
    assert refused
    for sentence in refused:
        assert sentence.startswith("node '") or "parameters" in sentence


@pytest.mark.parametrize("name", ["adjoint-of-sigmoid", "adjoint-of-mul-1", "adjoint-of-conv-1"])
def test_a_wrong_adjoint_is_noticed(name: str) -> None:
    """The operand itself has the type of a gradient, and stands for any mistake."""
    planted = [
        replace(adjoint, gradient=adjoint.operands[adjoint.input]) if adjoint.name == name else adjoint
        for adjoint in load_axioms().adjoints
    ]
    assert any(_is_wrong(seed, planted) for seed in range(40))


def _is_wrong(seed: int, adjoints: list[Adjoint]) -> bool:
    try:
        return bool(checked(seed, adjoints).wrong)
    except UnfitError:
        return False
