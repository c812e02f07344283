"""Verdicts on single equations, and conditions under which refuted ones hold."""

from __future__ import annotations

from superopt.axioms import load_axioms
from superopt.equations import format_equation
from superopt.ir import Equation
from superopt.journeys.library.discovery import proof_of_verdict
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.records import JsonObject, Proof
from superopt.verifier import Status, Verdict, verify
from superopt.verifier.conditions.inference import Conditional, infer_condition


def judge_equation(equation: Equation) -> Verdict:
    """The verdict on an equation as written."""
    return verify(equation, load_axioms())


def condition_of(equation: Equation) -> Conditional | None:
    """A condition under which a refuted equation holds, None if none is found. Slower than the verdict."""
    return infer_condition(equation, load_axioms())


def prove_equation(equation: Equation) -> Proof:
    """As ``judge_equation``, in the form of a stored proof; nothing is stored."""
    return proof_of_verdict(equation, judge_equation(equation), current())


def condition_object(conditional: Conditional | None) -> JsonObject | None:
    """A condition as JSON: the equation with the condition, its verdict, whether the equation fails wherever
    the condition does, and the number of instances compared.
    """
    if conditional is None:
        return None
    status = conditional.verdict.status
    return {
        "equation": format_equation(conditional.equation),
        "verdict": "proved" if status is Status.VERIFIED else str(status),
        "exact": conditional.exact,
        "instances": conditional.checked,
    }
