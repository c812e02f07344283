"""Coverage: the verdict on each rule of another optimizer's file, by our axioms and library."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from superopt.axioms import load_axioms
from superopt.equations import format_condition, format_equation, parse_equation, rule_id
from superopt.ir.terms import Direction, Equation
from superopt.journeys.library.peers.derivation import identities, questions
from superopt.journeys.library.peers.reading import Claim, Malformed, PeerRule, Reading
from superopt.rewriting.derivability import Bounds, Theory
from superopt.verifier import Status, verify
from superopt.verifier.conditions.inference import Conditional, infer_condition
from superopt.verifier.pool import Allowance, judge_all
from superopt.verifier.refute.malformed import MALFORMED

PATIENCE = Allowance(seconds=60.0)
"""Limits of the search for one condition."""


class Answer(enum.StrEnum):
    """The possible answers about a peer's rule."""

    PROVED = "proved"
    CONDITIONAL = "conditional"
    REFUTED = "refuted"
    MALFORMED = "malformed"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Covered:
    """The answer about one rule.

    ``equation`` is the judged form, with its condition; empty if the rule has none. ``known``: the rule is in
    the library, or an instance of a rule there. ``derivable_steps``: number of library rewrites from one side
    to the other; None if not derivable within the bounds. ``reason``: the axioms used, the condition, the
    counterexample, the defect, or why it is undecided.
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

    First the general forms are verified, then the written forms of rules that do not hold in general; then
    conditions are sought for the false ones. Equal forms are verified once. A form whose verification fails
    or times out is undecided; one whose search for a condition does so stays refuted. With ``jobs`` 0
    everything runs in this process.
    """
    own, limits = tuple(library), bounds or Bounds()
    claims = {index: rule.reading for index, rule in enumerate(rules) if isinstance(rule.reading, Claim)}
    judged: dict[str, Covered] = {}

    def judge(forms: Iterable[Equation]) -> None:
        new = {rule_id(form): form for form in forms}
        waiting = {identity: form for identity, form in new.items() if identity not in judged}
        function = partial(_judged, own, limits)
        answers = judge_all(function, [*waiting.values()], lost=_lost, jobs=jobs, progress=progress)
        judged.update(zip(waiting, answers, strict=True))

    judge(claim.general for claim in claims.values())
    false = [claim for claim in claims.values() if not _is_proved(judged[rule_id(claim.general)])]
    judge(claim.written for claim in false)
    answers = {index: _judgement(claim, judged) for index, claim in claims.items()}
    refuted = {
        _identity(claims[index]): (claims[index], answer)
        for index, answer in answers.items()
        if answer.verdict is Answer.REFUTED
    }
    condition = partial(_conditioned, own, limits)
    found = judge_all(
        condition, [*refuted.values()], lost=_kept, jobs=jobs, progress=progress, allowance=PATIENCE
    )
    conditional = dict(zip(refuted, found, strict=True))
    answers = {index: conditional.get(_identity(claims[index]), answer) for index, answer in answers.items()}
    every = (answers.get(position) or _unreadable(rule.reading) for position, rule in enumerate(rules))
    return tuple(
        replace(answer, index=rule.index, name=rule.name) for rule, answer in zip(rules, every, strict=True)
    )


def counts(answers: Iterable[Covered]) -> dict[str, int]:
    """Number of rules in total, by verdict, known, and derivable."""
    everything = tuple(answers)
    by_verdict = Counter(answer.verdict for answer in everything)
    return {
        "rules": len(everything),
        **{str(verdict): by_verdict[verdict] for verdict in Answer},
        "known": sum(answer.known for answer in everything),
        "derivable": sum(answer.derivable_steps is not None for answer in everything),
    }


def _unreadable(reading: Reading) -> Covered:
    """The answer about a rule that is not an equation."""
    assert not isinstance(reading, Claim)
    verdict = Answer.MALFORMED if isinstance(reading, Malformed) else Answer.UNDECIDED
    return Covered(-1, "", "", verdict, reason=reading.reason)


def _identity(claim: Claim) -> tuple[str, str]:
    return rule_id(claim.general), rule_id(claim.written)


def _is_proved(answer: Covered) -> bool:
    return answer.verdict is Answer.PROVED


def _judgement(claim: Claim, judged: Mapping[str, Covered]) -> Covered:
    """The verdict on the general form if it holds, else on the written one."""
    general, written = _identity(claim)
    return judged[general] if _is_proved(judged[general]) else judged[written]


def _judged(library: tuple[str, ...], bounds: Bounds, form: Equation) -> Covered:
    verdict = verify(form, load_axioms())
    answer = partial(Covered, -1, "", format_equation(_rule(form)))
    match verdict.status:
        case Status.VERIFIED:
            used = ", ".join(verdict.axioms_used) or "nothing: the sides are alike"
            return _compared(answer(Answer.PROVED, reason=f"from {used}"), form, library, bounds)
        case Status.REFUTED:
            return answer(Answer.REFUTED, reason=verdict.counterexample or verdict.reason)
        case Status.UNPROVED if verdict.reason.startswith(MALFORMED):
            return answer(Answer.MALFORMED, reason=verdict.reason.removeprefix(MALFORMED))
        case Status.UNPROVED:
            return _compared(answer(Answer.UNDECIDED, reason=verdict.reason), form, library, bounds)


def _conditioned(library: tuple[str, ...], bounds: Bounds, item: tuple[Claim, Covered]) -> Covered:
    """A refuted rule with a condition under which it holds; unchanged if none is found."""
    claim, refuted = item
    for form in _forms(claim):
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
    """The general form, then the written one if it is more specific."""
    return tuple({rule_id(form): form for form in (claim.general, claim.written)}.values())


def _compared(covered: Covered, form: Equation, library: tuple[str, ...], bounds: Bounds) -> Covered:
    """The answer completed by a look-up of the valid form in the library."""
    found = _theory(library).derive(questions(form), bounds)
    if rule_id(form) in _ids(library):
        return replace(covered, known=True, derivable_steps=1)
    if found is None:
        return covered
    return replace(covered, known=found.instance, derivable_steps=found.steps)


def _condition(found: Conditional) -> str:
    exactness = "and nowhere else" if found.exact else "and sometimes elsewhere"
    return f"{_where(found.equation)}, {exactness} ({found.checked} instances)"


def _where(equation: Equation) -> str:
    """The conditions; the equation itself if it has none, because a number that it asks for is in it."""
    if not equation.conditions:
        return f"as {format_equation(equation)}"
    return f"where {', '.join(format_condition(condition) for condition in equation.conditions)}"


def _rule(equation: Equation) -> Equation:
    """The equation as a rule: ``=`` is read as ``<=>``."""
    return replace(equation, direction=Direction.BOTH) if equation.direction is Direction.EQUAL else equation


def _lost(form: Equation, reason: str) -> Covered:
    return Covered(-1, "", format_equation(_rule(form)), Answer.UNDECIDED, reason=reason)


def _kept(item: tuple[Claim, Covered], reason: str) -> Covered:
    _, refuted = item
    return replace(refuted, reason=f"{refuted.reason}; looking for a condition failed: {reason}")


@cache
def _theory(library: tuple[str, ...]) -> Theory:
    """The library's equations in both directions, as peers' rules are read."""
    return Theory(replace(parse_equation(text), direction=Direction.BOTH) for text in library)


@cache
def _ids(library: tuple[str, ...]) -> frozenset[str]:
    return identities(map(parse_equation, library))
