"""A spread of the equations written by hand to deceive; the module ``deceptive`` runs all of them."""

from __future__ import annotations

import pytest

from tests.verifier.deceptive import Deceptive, deceptive_equations, is_deceived

FALSE = [equation for equation in deceptive_equations() if not equation.holds]
TRUE = [equation for equation in deceptive_equations() if equation.holds]
SPREAD = FALSE[:: len(FALSE) // 60][:60]


def _text(equation: Deceptive) -> str:
    return equation.text


@pytest.mark.parametrize("equation", SPREAD, ids=_text)
def test_a_false_equation_is_not_verified(equation: Deceptive) -> None:
    assert not is_deceived(equation), equation.reason


@pytest.mark.parametrize("equation", TRUE[::8], ids=_text)
def test_a_true_equation_is_not_refuted(equation: Deceptive) -> None:
    assert not is_deceived(equation), equation.reason


def test_the_file_has_hundreds_of_false_equations() -> None:
    assert len(FALSE) >= 300
    assert len(TRUE) >= 60
    assert all(equation.reason for equation in FALSE + TRUE)
