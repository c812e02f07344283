"""Judgement of an equation given as text: proof, counterexample, or a condition under which it holds."""

from __future__ import annotations

import time
from dataclasses import dataclass

from superopt.equations import abbreviated, format_equation, parse_equation
from superopt.errors import InvalidOptionError
from superopt.ir import Equation
from superopt.journeys.library.judging import condition_object, condition_of, judge_equation
from superopt.verifier import Status, Verdict
from superopt.verifier.certificates.certificate import certificate_object
from superopt.verifier.conditions.inference import Conditional
from superopt.verifier.pool import Allowance, judge_alone

DEFAULT_SECONDS = 300.0


@dataclass(frozen=True, repr=False)
class Judgement:
    """The verdict on an equation, and for a refuted one a condition under which it holds, if one is found.
    True where the equation is proved."""

    equation: Equation
    details: Verdict
    condition: Conditional | None

    @property
    def verdict(self) -> str:
        """``proved``, ``refuted`` or ``unproved``."""
        return "proved" if self.details.status is Status.VERIFIED else str(self.details.status)

    @property
    def proved(self) -> bool:
        """Whether it is proved, for all shapes and attributes for which it is well-typed."""
        return self.details.status is Status.VERIFIED

    @property
    def axioms_used(self) -> tuple[str, ...]:
        """The axioms of the proof, by name."""
        return self.details.axioms_used

    @property
    def counterexample(self) -> str | None:
        """Shapes and elements that differ, where it is refuted."""
        return self.details.counterexample

    @property
    def reason(self) -> str:
        """Why it is neither proved nor refuted."""
        return self.details.reason

    def to_json(self) -> dict[str, object]:
        """The judgement as JSON values, with its certificate."""
        verdict = self.details
        return {
            "equation": format_equation(self.equation),
            "verdict": self.verdict,
            "prover": verdict.prover,
            "version": verdict.version,
            "grade": verdict.grade,
            "confirmed_by": verdict.confirmed_by,
            "certificate": certificate_object(verdict.certificate) if verdict.certificate else None,
            "axioms_used": list(verdict.axioms_used),
            "milliseconds": verdict.milliseconds,
            "validated_shapes": list(verdict.validated_shapes),
            "counterexample": verdict.counterexample,
            "condition": condition_object(self.condition),
            "reason": verdict.reason,
        }

    def __bool__(self) -> bool:
        return self.proved

    def __repr__(self) -> str:
        why = self.counterexample or self.reason or f"axioms {', '.join(self.axioms_used)}"
        return abbreviated(f"Judgement({self.verdict}: {format_equation(self.equation)}; {why})")


def prove(equation: str, *, timeout: float = DEFAULT_SECONDS) -> Judgement:
    """Proves or refutes an equation such as ``"relu(relu(x)) => relu(x)"``, in a process of its own.

    ``timeout`` is in seconds; what is not decided by then is unproved. For a refuted equation the rest of the
    time goes to a condition under which it holds. Raises InvalidEquationError for text that is no equation.
    """
    if not isinstance(equation, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOptionError(f"equation: expected text, got {equation!r}")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOptionError(f"timeout: expected a number of seconds, above 0, got {timeout!r}")
    parsed = parse_equation(equation)
    started = time.monotonic()
    verdict = judge_alone(judge_equation, parsed, lost=_lost, allowance=Allowance(seconds=timeout))
    left = started + timeout - time.monotonic()
    condition = None
    if verdict.status is Status.REFUTED and left > 0:
        condition = judge_alone(condition_of, parsed, lost=_no_condition, allowance=Allowance(seconds=left))
    return Judgement(parsed, verdict, condition)


def _lost(_: Equation, reason: str) -> Verdict:
    return Verdict(Status.UNPROVED, reason=reason)


def _no_condition(_: Equation, __: str) -> None:
    return None
