"""What our axioms and our library say of each rule of a peer's file."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from axioms import load_axioms
from substitution_db.peers.derivation import Bounds, Library, derive
from substitution_db.peers.reading import Claim, Inexpressible, Malformed, PeerRule
from superopt.equations import format_condition, format_equation, parse_equation, rule_id
from superopt.ir.terms import Direction, Equation
from verifier import Status, verify
from verifier.condition_inference import Conditional, infer_condition
from verifier.pool import Allowance, judge_all

PATIENCE = Allowance(seconds=60.0)
"""What looking for one condition may cost."""


class Answer(enum.StrEnum):
    """What can be said of a peer's rule."""

    PROVED = "proved"
    CONDITIONAL = "conditional"
    REFUTED = "refuted"
    MALFORMED = "malformed"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Covered:
    """The answer about one rule.

    ``equation`` is the form that it is about, with its condition; empty when the rule has none. ``known``: it
    is in the library, or an instance of one rule there. ``derivable_steps``: how many rewrites by the library
    lead from one side to the other; None when none do within the bounds. ``reason``: the axioms used, the
    condition, the counterexample, what is malformed, or why nothing is known.
    """

    index: int
    name: str
    equation: str
    verdict: Answer
    known: bool = False
    derivable_steps: int | None = None
    reason: str = ""


def coverage(
    rules: Sequence[PeerRule],
    library: Iterable[str],
    *,
    bounds: Bounds | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Covered, ...]:
    """The answers in the order of the rules; ``library`` are the equations of verified rules.

    First all are judged as they are, then conditions are looked for under which the false ones hold; rules
    that say the same are judged once. A rule whose judgement fails or takes too long is undecided; one whose
    condition does so stays refuted. With ``jobs`` 0 all is done in this process.
    """
    own, limits = tuple(library), bounds or Bounds()
    distinct = {rule.reading: rule for rule in reversed(rules)}
    first = [*reversed(distinct.values())]
    judge, condition = partial(_judged, own, limits), partial(_conditioned, own, limits)
    judged = dict(zip(first, judge_all(judge, first, lost=_lost, jobs=jobs, progress=progress), strict=True))
    refuted = [item for item in judged.items() if item[1].verdict is Answer.REFUTED]
    found = judge_all(condition, refuted, lost=_kept, jobs=jobs, progress=progress, allowance=PATIENCE)
    judged.update(zip((rule for rule, _ in refuted), found, strict=True))
    answers = ((rule, judged[distinct[rule.reading]]) for rule in rules)
    return tuple(replace(answer, index=rule.index, name=rule.name) for rule, answer in answers)


def counts(answers: Iterable[Covered]) -> dict[str, int]:
    """How many rules there are, with each verdict, known and derivable."""
    everything = tuple(answers)
    by_verdict = Counter(answer.verdict for answer in everything)
    return {
        "rules": len(everything),
        **{str(verdict): by_verdict[verdict] for verdict in Answer},
        "known": sum(answer.known for answer in everything),
        "derivable": sum(answer.derivable_steps is not None for answer in everything),
    }


def _judged(library: tuple[str, ...], bounds: Bounds, rule: PeerRule) -> Covered:
    match rule.reading:
        case Malformed(reason):
            return Covered(rule.index, rule.name, "", Answer.MALFORMED, reason=reason)
        case Inexpressible(reason):
            return Covered(rule.index, rule.name, "", Answer.UNDECIDED, reason=reason)
        case Claim() as claim:
            verdict, form, reason = _answer(claim)
            covered = Covered(rule.index, rule.name, format_equation(_rule(form)), verdict, reason=reason)
            return covered if verdict is Answer.REFUTED else _compared(covered, form, library, bounds)


def _answer(claim: Claim) -> tuple[Answer, Equation, str]:
    """The general form if it holds, else the one as written."""
    verdict = None
    for form in _forms(claim):
        verdict = verify(form, load_axioms())
        if verdict.status is Status.VERIFIED:
            return (
                Answer.PROVED,
                form,
                f"from {', '.join(verdict.axioms_used) or 'nothing: the sides are alike'}",
            )
    assert verdict is not None
    if verdict.status is Status.REFUTED:
        return Answer.REFUTED, claim.written, verdict.counterexample or verdict.reason
    return Answer.UNDECIDED, claim.written, verdict.reason


def _conditioned(library: tuple[str, ...], bounds: Bounds, item: tuple[PeerRule, Covered]) -> Covered:
    """A refuted rule with a condition under which it holds; as it was where none is found."""
    rule, refuted = item
    for form in _forms(rule.reading) if isinstance(rule.reading, Claim) else ():
        found = infer_condition(form, load_axioms())
        if found is not None and found.proved:
            text, reason = format_equation(_rule(found.equation)), _condition(found)
            covered = replace(refuted, equation=text, verdict=Answer.CONDITIONAL, reason=reason)
            return _compared(covered, found.equation, library, bounds)
        if found is not None:
            suggestion = f"it may hold {_where(found.equation)}, which is not proved"
            return replace(refuted, reason=f"{refuted.reason}; {suggestion}")
    return refuted


def _forms(claim: Claim) -> Sequence[Equation]:
    """The general form, then the one as written where it says more."""
    return tuple({rule_id(form): form for form in (claim.general, claim.written)}.values())


def _compared(covered: Covered, form: Equation, library: tuple[str, ...], bounds: Bounds) -> Covered:
    """The answer with what the library knows of the form that holds."""
    known = _library(library)
    found = derive(form, known, bounds)
    if known.has(form):
        return replace(covered, known=True, derivable_steps=1)
    if found is None:
        return covered
    return replace(covered, known=found.instance, derivable_steps=found.steps)


def _condition(found: Conditional) -> str:
    exactness = "and nowhere else" if found.exact else "and sometimes elsewhere"
    return f"{_where(found.equation)}, {exactness} ({found.checked} instances)"


def _where(equation: Equation) -> str:
    return f"where {', '.join(format_condition(condition) for condition in equation.conditions)}"


def _rule(equation: Equation) -> Equation:
    """The equation as a rule: ``=`` is read as ``<=>``."""
    return replace(equation, direction=Direction.BOTH) if equation.direction is Direction.EQUAL else equation


def _lost(rule: PeerRule, reason: str) -> Covered:
    text = format_equation(_rule(rule.reading.written)) if isinstance(rule.reading, Claim) else ""
    return Covered(rule.index, rule.name, text, Answer.UNDECIDED, reason=reason)


def _kept(item: tuple[PeerRule, Covered], reason: str) -> Covered:
    _, refuted = item
    return replace(refuted, reason=f"{refuted.reason}; looking for a condition failed: {reason}")


@cache
def _library(equations: tuple[str, ...]) -> Library:
    return Library(map(parse_equation, equations))
