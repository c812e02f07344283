"""Validation of the axioms: every case up to a bound by identity testing, a few of them symbolically.

The dissertation, section 2.4, executes operators symbolically for all shapes up to 4x4x4x4 and all
parameters. Here every well-typed case up to that bound is decided by polynomial identity testing, with an
error below 2^-64 each, or compared on real numbers if it holds by laws of a function that has none there,
such as the logarithm (``axiom_checks.exhaustive``); a reduced set of cases is then executed over symbolic
reals, where an answer is a certificate for all real inputs; instances beyond the bound are sampled
(``verifier.refute``); and small cases with undefined elements show whether an axiom keeps definedness in the
directions that it claims (``axiom_checks.definedness``). One that is undecided symbolically (laws of the
exponential are not known to the solver) is reported and leaves the evaluation to decide.

Results are cached by the content hash of everything they depend on, also partial ones: an interrupted run
resumes, and after a change only dependent results are recomputed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import resources
from itertools import accumulate
from typing import cast

from superopt.equations import format_equation
from superopt.errors import SuperoptError
from superopt.instances.values import Bound
from superopt.ir.terms import Equation
from superopt.ops.base import OPERATORS, Operator
from superopt.verifier.axiom_checks.definedness import check_definedness
from superopt.verifier.axiom_checks.exhaustive.identity import IdentityTest
from superopt.verifier.axiom_checks.exhaustive.representatives import Representatives
from superopt.verifier.content_cache import ContentCache, content_key
from superopt.verifier.hashes import code_lines, operators_hash, operators_in, verifier_hash
from superopt.verifier.pool import Allowance, judge_all
from superopt.verifier.refute.refutation import Effort, refute
from superopt.verifier.refute.validation import DIFFERENT, check_symbolically

LEAST_CASES = 5
SYMBOLIC_CASES = 2
DEFINEDNESS_CASES = 5000
NO_CACHE = ContentCache(None)
_SECONDS_BETWEEN_WRITES = 2.0
_PATIENT = Allowance(seconds=24 * 3600)
_SAMPLED = Effort(schemes=12, per_scheme=2, instances=24, stack=3)
NOTHING_EVALUATED = 1e9
"""-log2 of the error where nothing was evaluated."""


@dataclass(frozen=True)
class Thoroughness:
    """``bound`` of identity tests, ``symbolic`` cases over the reals, effort to sample beyond the bound, and
    the most cases with undefined elements (``definedness``).

    Of ``every`` so many cases one is tested: 1 is all of them, more is for a quick look.
    """

    bound: Bound = field(default_factory=Bound)
    symbolic: int = SYMBOLIC_CASES
    sampled: Effort | None = _SAMPLED
    every: int = 1
    definedness: int = DEFINEDNESS_CASES


@dataclass(frozen=True)
class AxiomValidation:
    """What is known of one axiom.

    ``cases`` of the bound are decided, ``evaluated`` of them one by one (one may stand for all activations);
    each is wrong with a probability of at most 2^-``error_bits``; ``real`` further ones were compared on real
    numbers. ``symbolic`` cases hold for all real
    inputs, ``undecided`` ones were asked in vain. ``sampled`` instances reach beyond the bound. ``partial``
    cases have undefined elements. ``reason`` holds the counterexample. ``seconds`` are of the processor.
    """

    name: str
    valid: bool = True
    cases: int = 0
    evaluated: int = 0
    error_bits: float = NOTHING_EVALUATED
    real: int = 0
    symbolic: int = 0
    undecided: int = 0
    sampled: int = 0
    partial: int = 0
    seconds: float = 0.0
    reason: str = ""


@dataclass
class _Kept:
    """One document in the cache, written now and then."""

    cache: ContentCache
    key: str
    document: dict[str, object] = field(default_factory=dict[str, object])
    _written: float = 0.0

    def __post_init__(self) -> None:
        kept = self.cache.get(self.key)
        if isinstance(kept, dict):
            self.document = cast("dict[str, object]", kept)

    def number(self, name: str, default: float) -> float:
        value = self.document.get(name)
        return value if isinstance(value, int | float) else default

    def put(self, document: dict[str, object], *, at_once: bool) -> None:
        self.document = document
        if at_once or time.monotonic() - self._written > _SECONDS_BETWEEN_WRITES:
            self.cache.put(self.key, document)
            self._written = time.monotonic()


def validate_axiom(
    axiom: Equation, thoroughness: Thoroughness = Thoroughness(), cache: ContentCache = NO_CACHE
) -> AxiomValidation:
    """Everything that is to be known of one axiom; never raises for what an operator refuses."""
    try:
        found, representatives = _exhausted(axiom, thoroughness, cache)
        if found.valid and thoroughness.sampled is not None:
            found = _sampled(axiom, found, thoroughness.sampled, cache)
        least = 1 if thoroughness.sampled is None else LEAST_CASES
        count = found.cases + found.real + found.sampled
        if found.valid and count < least:
            reason = f"expected at least {least} well-typed cases, found {count}"
            return replace(found, valid=False, reason=reason)
        if found.valid and thoroughness.definedness > 0:
            found = _kept_defined(axiom, found, thoroughness.definedness, cache)
        if found.valid and thoroughness.symbolic > 0:
            found = _executed(axiom, found, thoroughness, representatives, cache)
    except SuperoptError as error:
        return AxiomValidation(axiom.name, valid=False, reason=str(error))
    return found


def validate_axioms(
    axioms: Sequence[Equation],
    *,
    jobs: int = 0,
    thoroughness: Thoroughness = Thoroughness(),
    cache: ContentCache = NO_CACHE,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[AxiomValidation]:
    """Every axiom, in order; the costly ones are begun first. With ``jobs`` 0 all is done in this process.

    ``progress`` is told how much of the work is done, in units of an estimate, and of how much.
    """
    begun = sorted(range(len(axioms)), key=lambda index: -_estimated_cost(axioms[index]))
    costs = [0, *accumulate(_estimated_cost(axioms[index]) for index in begun)]
    results = judge_all(
        partial(validate_axiom, thoroughness=thoroughness, cache=cache),
        [axioms[index] for index in begun],
        lost=_lost,
        jobs=jobs,
        progress=progress and (lambda done, _total: progress(costs[done], costs[-1])),
        allowance=_PATIENT,
    )
    by_index = dict(zip(begun, results, strict=True))
    return (by_index[index] for index in range(len(axioms)))


def _lost(axiom: Equation, reason: str) -> AxiomValidation:
    return AxiomValidation(axiom.name, valid=False, reason=reason)


def _exhausted(
    axiom: Equation, thoroughness: Thoroughness, cache: ContentCache
) -> tuple[AxiomValidation, Callable[[], Representatives]]:
    """All cases up to the bound; and the cases that stand for all, made anew when the rest is known."""
    bound = thoroughness.bound
    kept = _Kept(cache, content_key(("cases", *_depends(axiom), repr(bound), str(thoroughness.every))))
    before = kept.number("seconds", 0.0)
    began = time.process_time()
    representatives = Representatives()
    done = bool(kept.document.get("done"))
    if not done:
        test = IdentityTest(axiom, bound, thoroughness.every)
        position, cases, real = (int(kept.number(name, 0)) for name in ("position", "cases", "real"))
        document: dict[str, object] = {"position": position, "cases": cases, "real": real, "reason": ""}
        for tested in test.run(position, cases, kept.number("error_bits", NOTHING_EVALUATED), real):
            representatives.add(tested.block)
            document = {
                "position": tested.position,
                "cases": tested.cases,
                "error_bits": tested.error_bits,
                "real": tested.real,
                "reason": tested.failure or "",
                "seconds": before + time.process_time() - began,
            }
            if tested.position > position:
                kept.put(document, at_once=False)
        kept.put(document | {"done": True}, at_once=True)
    reason = str(kept.document.get("reason", ""))
    found = AxiomValidation(
        axiom.name,
        valid=not reason,
        cases=int(kept.number("cases", 0)),
        evaluated=int(kept.number("cases", 0)) // IdentityTest(axiom, bound).multiplicity,
        error_bits=kept.number("error_bits", NOTHING_EVALUATED),
        real=int(kept.number("real", 0)),
        seconds=kept.number("seconds", 0.0),
        reason=reason,
    )
    return found, lambda: _representatives(axiom, bound) if done else representatives


def _representatives(axiom: Equation, bound: Bound) -> Representatives:
    representatives = Representatives()
    test = IdentityTest(axiom, bound)
    for block in test.blocks():
        representatives.add(block)
    return representatives


def _sampled(axiom: Equation, found: AxiomValidation, effort: Effort, cache: ContentCache) -> AxiomValidation:
    """Instances beyond the bound: ranks to 5, sizes to 7, values that one side alone leaves undefined."""

    def judged() -> tuple[int, str]:
        refutation = refute(axiom, effort)
        return refutation.well_typed, refutation.counterexample or refutation.suspicious or ""

    kept = _Kept(cache, content_key(("sampled", *_depends(axiom), verifier_hash(), repr(effort))))
    sampled, found = _judged_once(found, kept, "instances", judged)
    return replace(found, sampled=sampled)


def _kept_defined(axiom: Equation, found: AxiomValidation, most: int, cache: ContentCache) -> AxiomValidation:
    """Small cases with undefined elements, in the directions that the axiom claims."""

    def judged() -> tuple[int, str]:
        definedness = check_definedness(axiom, most)
        return definedness.cases, definedness.offence(axiom.direction)

    how = (verifier_hash(), _definedness_code(), str(most))
    kept = _Kept(cache, content_key(("definedness", *_depends(axiom), *how)))
    cases, found = _judged_once(found, kept, "cases", judged)
    return replace(found, partial=cases)


def _judged_once(
    found: AxiomValidation, kept: _Kept, counted: str, judge: Callable[[], tuple[int, str]]
) -> tuple[int, AxiomValidation]:
    """How many were counted, and what was found with reason and seconds; from the cache where it is there."""
    if not kept.document:
        began = time.process_time()
        count, why = judge()
        document: dict[str, object] = {
            counted: count,
            "reason": why,
            "seconds": time.process_time() - began,
        }
        kept.put(document, at_once=True)
    reason = str(kept.document.get("reason", ""))
    seconds = found.seconds + kept.number("seconds", 0.0)
    return int(kept.number(counted, 0)), replace(found, valid=not reason, reason=reason, seconds=seconds)


def _executed(
    axiom: Equation,
    found: AxiomValidation,
    thoroughness: Thoroughness,
    representatives: Callable[[], Representatives],
    cache: ContentCache,
) -> AxiomValidation:
    """A reduced set of cases over symbolic reals; those that were asked before are not asked again."""
    how = (repr(thoroughness.bound), str(thoroughness.symbolic), _symbolic_code())
    kept = _Kept(cache, content_key(("symbolic", *_depends(axiom), *how)))
    if not kept.document.get("done"):
        began, before = time.process_time(), kept.number("seconds", 0.0)
        test = IdentityTest(axiom, thoroughness.bound)
        answers = cast("dict[str, str]", kept.document.get("answers", {}))
        for case in representatives().chosen(thoroughness.symbolic):
            instance = test.program.instance(case)
            if str(instance) not in answers:
                answers[str(instance)] = check_symbolically(axiom, instance)
            seconds = before + time.process_time() - began
            kept.put({"answers": answers, "seconds": seconds}, at_once=False)
        seconds = before + time.process_time() - began
        kept.put({"answers": answers, "seconds": seconds, "done": True}, at_once=True)
    answers = cast("dict[str, str]", kept.document.get("answers", {}))
    wrong = [f"{instance}: {answer}" for instance, answer in answers.items() if answer in DIFFERENT]
    equal = sum(answer == "equal" for answer in answers.values())
    return replace(
        found,
        valid=not wrong,
        reason=wrong[0] if wrong else "",
        symbolic=equal,
        undecided=len(answers) - equal,
        seconds=found.seconds + kept.number("seconds", 0.0),
    )


def _depends(axiom: Equation) -> tuple[str, ...]:
    """What every answer about the axiom depends on."""
    return (format_equation(axiom), operators_hash(operators_in(axiom)), _code())


@cache
def _code() -> str:
    """The sources of what enumerates and tests cases."""
    texts: list[str] = []
    for package in ("superopt.verifier.axiom_checks.exhaustive", "superopt.instances"):
        entries = sorted(resources.files(package).iterdir(), key=lambda entry: entry.name)
        texts.extend(entry.read_text("utf-8") for entry in entries if entry.name.endswith(".py"))
    texts.append(resources.files("superopt.rewriting").joinpath("conditions.py").read_text("utf-8"))
    return content_key(map(code_lines, texts))


@cache
def _definedness_code() -> str:
    return code_lines(
        resources.files("superopt.verifier.axiom_checks").joinpath("definedness.py").read_text("utf-8")
    )


@cache
def _symbolic_code() -> str:
    package = resources.files("superopt.verifier.refute")
    names = ("validation.py", "real_solver.py")
    return content_key(code_lines(package.joinpath(name).read_text("utf-8")) for name in names)


def _estimated_cost(axiom: Equation) -> int:
    """A guess at how long it takes, for the order of work and for progress alone."""
    steps = list(axiom.applications)
    return max((_cost(OPERATORS[step.operator]) for step in steps), default=1) * len(steps)


def _cost(operator: type[Operator]) -> int:
    if operator.windowed:
        return 60 if operator.product else 12
    if operator.positions is None or not operator.is_total({}):
        return 20
    return 9 if operator.joins else 4


__all__ = [
    "NOTHING_EVALUATED",
    "SYMBOLIC_CASES",
    "AxiomValidation",
    "Thoroughness",
    "validate_axiom",
    "validate_axioms",
]
