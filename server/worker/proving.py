"""Child process function that proves an equation."""

from __future__ import annotations

from collections.abc import Callable

from superopt.equations import parse_equation
from superopt.journeys.library.judging import condition_object, condition_of, prove_equation
from superopt.substitution_db.store.records import JsonObject, Outcome


def prove_in_child(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """The verdict on the equation ``arguments["equation"]``, as JSON.

    A refutation is reported as progress before the search for a condition begins.
    """
    equation = parse_equation(str(arguments["equation"]))
    proof = prove_equation(equation)
    answer: JsonObject = {
        "verdict": str(proof.verdict),
        "prover": proof.prover,
        "version": proof.version,
        "axioms_used": proof.axioms_used,
        "milliseconds": proof.milliseconds,
        "validated_shapes": proof.validated_shapes,
        "counterexample": proof.counterexample,
        "condition": None,
        "reason": proof.reason,
        "grade": proof.grade,
        "confirmed_by": proof.confirmed_by,
        "certificate": proof.certificate,
    }
    if proof.verdict is not Outcome.REFUTED:
        return answer
    progress(answer)
    return {**answer, "condition": condition_object(condition_of(equation))}
