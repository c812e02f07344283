"""Proving an equation, in a child process."""

from __future__ import annotations

from collections.abc import Callable

from substitution_db.judging import condition_object, prove_equation
from substitution_db.records import JsonObject
from superopt.equations import parse_equation


def prove_in_child(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """Judges the equation ``arguments["equation"]``; the verdict as JSON."""
    del progress
    proof, conditional = prove_equation(parse_equation(str(arguments["equation"])))
    return {
        "verdict": str(proof.verdict),
        "prover": proof.prover,
        "version": proof.version,
        "axioms_used": proof.axioms_used,
        "milliseconds": proof.milliseconds,
        "validated_shapes": proof.validated_shapes,
        "counterexample": proof.counterexample,
        "condition": condition_object(conditional),
        "reason": proof.reason,
        "grade": proof.grade,
        "confirmed_by": proof.confirmed_by,
        "certificate": proof.certificate,
    }
