"""Proof search: solvers find steps, the chain checker types them under instances of the rule.

Strategies are tried in order: axioms about the rule's own operators, with patterns; then axioms about
operators that these lead to; then short searches that may invent terms, first by cvc5, then by Z3. Axioms
with conditions are used like others. A step is rejected if its condition does not hold. If the remaining
steps do not suffice, the axioms of rejected steps are excluded, one or all, and the search starts again.
Axioms are also excluded if their steps would have to be taken from right to left where that may lose
elements.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import z3

from superopt.instances.instance import Instance
from superopt.ir.terms import Equation
from superopt.solver_memory import require_memory
from superopt.verifier.certificates.definedness import why_undefined
from superopt.verifier.prove import cvc5_prover, solver
from superopt.verifier.prove.chain import ChainChecker, instances_of
from superopt.verifier.prove.explanation import explain
from superopt.verifier.prove.smtlib import Relevance
from superopt.verifier.prove.solver import Answer, AxiomInstance, GroundSteps, SolverLimits, Strategy, least
from superopt.verifier.prove.specialisation import specialised

PROVER = "z3"
ILL_TYPED = "no well-typed chain"
ONE_WAY = "no chain keeps definedness"
Question = Callable[[Equation, Sequence[Equation], SolverLimits], Answer]


def _patterns(goal: Equation, axioms: Sequence[Equation], limits: SolverLimits) -> Answer:
    return solver.ask(goal, axioms, Strategy.PATTERNS, limits)


def _models(goal: Equation, axioms: Sequence[Equation], limits: SolverLimits) -> Answer:
    return solver.ask(goal, axioms, Strategy.MODELS, limits)


def _enumeration(goal: Equation, axioms: Sequence[Equation], limits: SolverLimits) -> Answer:
    return cvc5_prover.ask(goal, axioms, cvc5_prover.Search.ENUMERATION, limits)


QUICK = SolverLimits(resources=400_000, instances=600)
"""Limit that suffices for nearly all proofs, at a fraction of the cost of an unsuccessful search."""

PATIENT = SolverLimits(resources=400_000)
"""Limit that suffices for all but about one in a hundred proofs."""

_LONGER = SolverLimits(resources=350_000)
_LONGEST = SolverLimits(resources=4_000_000, instances=QUICK.instances)

_ATTEMPTS: Sequence[tuple[int, Question, str, SolverLimits]] = (
    (0, _patterns, PROVER, QUICK),
    (1, _patterns, PROVER, QUICK),
    (2, _patterns, PROVER, QUICK),
    (1, _enumeration, cvc5_prover.PROVER, QUICK),
    (1, _patterns, PROVER, _LONGER),
    (2, _patterns, PROVER, _LONGER),
    (1, _models, PROVER, _LONGER),
    (1, _enumeration, cvc5_prover.PROVER, _LONGEST),
)
"""For each strategy: the distance of axioms from the goal's operators, how they are used, the prover, and its
limits.

A search that diverges would never end. Of 683 proofs by patterns, one in a hundred took more than 600
instances of axioms, and none more than 3,000; of nine by enumeration, two took more than the quick limit.
"""

CONFIRMATION = SolverLimits(resources=1_000_000)
_RESTARTS = 4
_TOGETHER = 2
"""If at most this many axioms had rejected steps, each is first excluded alone, because the others may be
needed."""

_REPAIRS = 12


@dataclass(frozen=True)
class Proof:
    """``steps`` are the axiom instances that connect the sides, found by ``prover``; without a proof,
    ``reason`` says why."""

    proved: bool
    steps: tuple[AxiomInstance, ...]
    reason: str
    milliseconds: float
    prover: str = PROVER

    @property
    def axioms_used(self) -> tuple[str, ...]:
        """The names of the axioms in the steps, sorted."""
        return tuple(sorted({step.axiom for step in self.steps}))


def prover_version(prover: str) -> str:
    """Return the version of the named prover."""
    return cvc5_prover.prover_version() if prover == cvc5_prover.PROVER else z3.get_version_string()


def confirmation(goal: Equation, axioms: Sequence[Equation], prover: str) -> str:
    """Return another prover, with its version, that derives the goal from the axioms; "" if none does."""
    if prover != cvc5_prover.PROVER:
        other, confirmed = cvc5_prover.PROVER, cvc5_prover.confirms(goal, axioms)
    else:
        other = PROVER
        confirmed = any(question(goal, axioms, CONFIRMATION).proved for question in (_patterns, _models))
    return f"{other} {prover_version(other)}" if confirmed else ""


def prove(
    goal: Equation,
    axioms: Sequence[Equation],
    instances: Sequence[Instance],
    further: Sequence[Instance] = (),
    *,
    limits: SolverLimits = SolverLimits(),  # noqa: B008
) -> Proof:
    """Return a proof with steps that are well-typed under each instance; a failed solver gives no proof,
    and one without memory raises MemoryError.

    A proof that uses axioms with conditions is also checked under the ``further`` instances. ``instances``
    must not be empty, because without a typing nothing can be checked.
    """
    start = time.perf_counter()
    if goal.left == goal.right:
        return Proof(proved=True, steps=(), reason="", milliseconds=0.0)
    reason = "no instance to check a proof under"
    asked: dict[tuple[Question, tuple[Equation, ...]], list[SolverLimits]] = defaultdict(list)
    relevance = Relevance(axioms, goal)
    for rounds, question, prover, most in _ATTEMPTS if instances else ():
        usable = relevance.within(rounds)
        own = least(limits, most)
        before = asked[question, usable]
        if any(least(own, earlier) == own for earlier in before):
            continue
        before.append(own)
        try:
            steps, why = _search(goal, usable, (instances, further), question, own)
        except z3.Z3Exception as error:
            require_memory(str(error))
            steps, why = None, f"the solver failed: {error}"
        if steps is not None:
            milliseconds = _since(start)
            return Proof(proved=True, steps=steps, reason="", milliseconds=milliseconds, prover=prover)
        reason = reason if reason.startswith((ILL_TYPED, ONE_WAY)) else why
    return Proof(proved=False, steps=(), reason=reason, milliseconds=_since(start))


def _search(
    goal: Equation,
    axioms: Sequence[Equation],
    instances: tuple[Sequence[Instance], Sequence[Instance]],
    question: Question,
    limits: SolverLimits,
) -> tuple[tuple[AxiomInstance, ...] | None, str]:
    waiting: list[frozenset[str]] = [frozenset()]
    reason = ""
    for left_aside in itertools.islice(waiting, _RESTARTS):
        usable = [axiom for axiom in axioms if axiom.name not in left_aside]
        own = specialised(usable, goal, instances[0])
        answer = question(goal, own.axioms, limits)
        if not answer.proved:
            reason = reason or answer.reason
            continue
        named = {axiom.name: axiom for axiom in usable}
        steps, culprits = _checked(
            goal, named, [own.original(step) for step in answer.steps], instances, limits
        )
        if steps is not None:
            culprits = _against(goal, {axiom.name: axiom for axiom in usable}, steps)
            if not culprits:
                return steps, ""
            reason = f"{ONE_WAY}: {', '.join(sorted(culprits))}"
        else:
            reason = f"{ILL_TYPED}: {', '.join(sorted(culprits)) or 'constants of different shapes'}"
        if len(culprits) <= _TOGETHER:
            waiting.extend(left_aside | {name} for name in sorted(culprits))
        if len(culprits) > 1:
            waiting.append(left_aside | culprits)
    return None, reason


def _checked(
    goal: Equation,
    axioms: Mapping[str, Equation],
    steps: Sequence[AxiomInstance],
    instances: tuple[Sequence[Instance], Sequence[Instance]],
    limits: SolverLimits,
) -> tuple[tuple[AxiomInstance, ...] | None, set[str]]:
    """Return steps that connect the sides under every instance, or the axioms with rejected steps."""
    known = instances_of(steps, axioms)
    misfits = {step.axiom for step in steps if step not in known}
    grounded = GroundSteps(goal, known, limits)
    needed: dict[AxiomInstance, None] = {}
    chosen: tuple[AxiomInstance, ...] | None = None
    essential, further = instances
    for number, instance in enumerate((*essential, *further)):
        if number >= len(essential) and not any(axioms[step.axiom].conditions for step in needed):
            break
        checker = ChainChecker(goal, axioms, instance)
        struck: dict[AxiomInstance, None] = {}
        for _ in range(_REPAIRS):
            if chosen is None:
                chosen = grounded.core(struck)
            if chosen is None:
                return None, misfits | {step.axiom for step in struck}
            result = checker.check(chosen)
            if result.complete:
                needed.update(dict.fromkeys(result.sound))
                break
            if not result.unsound:
                return None, misfits
            struck.update(dict.fromkeys(result.unsound))
            chosen = None
        else:
            return None, misfits | {step.axiom for step in struck}
    return tuple(needed), set()


def _against(goal: Equation, axioms: Mapping[str, Equation], steps: Sequence[AxiomInstance]) -> set[str]:
    """Return the axioms of one-way steps if no chain of the steps preserves definedness."""
    one_way = {
        step.axiom
        for step in steps
        if why_undefined(axioms[step.axiom], True, dict(step.terms), dict(step.attributes))  # noqa: FBT003
    }
    return one_way if one_way and explain(goal, axioms, steps) is None else set()


def _since(start: float) -> float:
    return (time.perf_counter() - start) * 1000
