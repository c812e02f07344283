"""Inference of ``where`` conditions from instances on which the sides of an equation agree or differ.

An exact condition may use every atom that holds wherever the sides agree. It exists if and only if all these
atoms together exclude every disagreement; then the simplest subset that still does is taken. Otherwise the
truth is a disjunction, which ``where`` cannot express, and the weakest conjunction that excludes every
disagreement is a sufficient condition. New instances are drawn, under the condition and in general, until
none contradicts it. The result is proved like any other rule before it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import numpy as np

from superopt.axioms import AxiomSet
from superopt.errors import SuperoptError
from superopt.instances.channels import Sizes
from superopt.instances.drawn import DrawnInstance, DrawnInstances
from superopt.ir.numbers import AttributeVariable, substituted_number
from superopt.ir.terms import (
    AttributeTerm,
    Condition,
    ConditionName,
    Equation,
    Term,
    Variable,
)
from superopt.ops.terms import application
from superopt.rewriting.conditions import names_in
from superopt.verifier.conditions.atoms import Atom, Place, atoms, truth_of
from superopt.verifier.conditions.covers import simplest_cover, widest_conjunctions
from superopt.verifier.pool import Progress, judge_for_good
from superopt.verifier.prove.proof_search import PATIENT
from superopt.verifier.refute.agreement import sides_agree
from superopt.verifier.seeds import seed_of
from superopt.verifier.verification import (
    Options,
    Status,
    Verdict,
    challenged,
    decide,
    verify_most_general,
)

_PLAIN = 1.3


@dataclass(frozen=True)
class InferenceOptions:
    """Limits of inference: instances to draw first and in each further round, rounds, verdicts, and the
    maximum (``most``) of evaluated instances. An equation with sides that agree at none of the first ``few``
    instances is given up.

    There is no time limit, so the result is the same on every machine.
    """

    sizes: Sizes = field(default_factory=Sizes)
    few: int = 120
    first: int = 400
    further: int = 100
    rounds: int = 6
    verdicts: int = 4
    most: int = 2_000
    verification: Options = field(default_factory=lambda: Options(limits=PATIENT))


@dataclass(frozen=True)
class Conditional:
    """An equation under an inferred condition, and its verdict; store it only if it is ``proved``.

    ``equation`` has the condition in its ``where``. A clause that fixes an attribute variable to one value is
    replaced by that value. ``exact``: on the ``checked`` instances (all up to the tried sizes, or a sample)
    the sides agree exactly where the condition holds. Otherwise the condition is sufficient: they agree
    wherever it holds.
    """

    equation: Equation
    conditions: tuple[Condition, ...]
    verdict: Verdict
    exact: bool
    checked: int

    @property
    def proved(self) -> bool:
        """Whether the equation with its condition is verified."""
        return self.verdict.status is Status.VERIFIED


def infer_condition(
    equation: Equation, axioms: AxiomSet, *, options: InferenceOptions | None = None
) -> Conditional | None:
    """Return the equation under the weakest exact condition that is verified, else under a sufficient one.

    If none is verified, the simplest condition that no instance contradicts is returned as a suggestion. The
    result is None if the sides agree at every instance or at none, or if no atom distinguishes these.
    """
    options = options or InferenceOptions()
    try:
        found = _Inference(equation, axioms, options).run()
    except (SuperoptError, RecursionError, ArithmeticError):
        return None
    return found and replace(found, verdict=challenged(found.equation, found.verdict))


Judgement = tuple[Equation, Verdict, Conditional | None]
"""Result for several forms of one rule: the judged form, its verdict, and the condition if it was refuted."""


def verify_or_condition(candidates: Sequence[Equation], axioms: AxiomSet) -> Judgement:
    """Run ``verify_most_general``; if it refutes the last candidate, infer a condition for that candidate."""
    equation, verdict = verify_most_general(candidates, axioms)
    refuted = verdict.status is Status.REFUTED and not verdict.is_contradicted
    return equation, verdict, infer_condition(equation, axioms) if refuted else None


def verify_or_condition_many(
    choices: Iterable[Sequence[Equation]],
    axioms: AxiomSet,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Iterator[tuple[int, Judgement]]:
    """Yield the index of each choice and its ``verify_or_condition``, as they complete, over ``jobs``
    processes.

    ``progress`` is called with the numbers of completed and of all choices. If a rule kills its process, only
    that rule is unproved. Raises UnjudgedError if the machine does not let some be judged, after the others.
    """
    return judge_for_good(
        partial(verify_or_condition, axioms=axioms),
        [tuple(candidates) for candidates in choices],
        lost=_lost,
        jobs=jobs if jobs > 1 else 0,
        progress=progress,
    )


def _lost(candidates: Sequence[Equation], reason: str) -> Judgement:
    return candidates[-1], Verdict(Status.UNPROVED, reason=reason), None


class _Inference:
    def __init__(self, equation: Equation, axioms: AxiomSet, options: InferenceOptions) -> None:
        self._equation = equation
        self._axioms = axioms
        self._options = options
        self._source = DrawnInstances(equation, options.sizes, seed_of(equation, 11))
        self._generator = np.random.default_rng(seed_of(equation, 12))
        self._places: list[Place] = []
        self._agrees = 0
        self._known: set[object] = set()
        self._simplest: tuple[Condition, ...] = ()

    def run(self) -> Conditional | None:
        self._add(self._source.draw(self._options.few))
        if not self._agrees:
            return None
        self._add(self._source.draw(self._options.first - self._options.few))
        best: Conditional | None = None
        asked: dict[tuple[Condition, ...], Conditional] = {}
        for _ in range(self._options.rounds):
            for conditions in self._candidates():
                if self._enough() or len(asked) >= self._options.verdicts or self._contradicted(conditions):
                    break
                form = with_fixed_attributes(self._conditioned(conditions))
                if form.left == form.right:
                    continue
                found = asked[conditions] if conditions in asked else self._judged(conditions)
                asked[conditions] = found
                if found.proved:
                    return self._weakened(found, conditions)
                if found.verdict.status is not Status.REFUTED:
                    best = best or found
            else:
                break
        return best

    def _enough(self) -> bool:
        return len(self._known) >= self._options.most

    def _add(self, instances: Iterable[DrawnInstance]) -> int:
        """Add the instances that are not yet known; return their number."""
        before = len(self._places)
        for instance in instances:
            key = (
                tuple(sorted(instance.types.items(), key=lambda item: item[0])),
                tuple(sorted(instance.attributes.items(), key=lambda item: item[0])),
            )
            if key in self._known:
                continue
            self._known.add(key)
            agrees = sides_agree(self._equation, instance, self._generator)
            if agrees is None:
                continue
            self._agrees |= agrees << len(self._places)
            self._places.append(Place(instance.types, instance.attributes))
            if self._enough():
                break
        return len(self._places) - before

    def _candidates(self) -> Iterator[tuple[Condition, ...]]:
        """Yield conditions that no instance contradicts so far, exact ones first."""
        differs = ((1 << len(self._places)) - 1) & ~self._agrees
        if not self._agrees or not differs:
            return
        every = atoms(self._equation, self._places)
        necessary = [atom for atom in every if not self._agrees & ~atom.true]
        cover = simplest_cover(necessary, differs)
        if cover is not None:
            self._simplest = _conditions(cover)
            yield self._simplest
            natural = _conditions(_without_implied(necessary))
            if set(natural) != set(self._simplest):
                yield natural
        for chosen in widest_conjunctions(every, self._agrees, differs):
            yield _conditions(chosen)

    def _contradicted(self, conditions: tuple[Condition, ...]) -> bool:
        """Draw and add new instances; return whether they contradict the condition."""
        before = self._exact(conditions)
        conditioned = self._conditioned(conditions)
        within = DrawnInstances(conditioned, self._options.sizes, seed_of(conditioned, 13))
        self._add(within.draw(self._options.further))
        self._add(self._source.draw(self._options.further))
        held = truth_of(conditions, self._places)
        return bool(held & ~self._agrees) or self._exact(conditions) != before

    def _exact(self, conditions: tuple[Condition, ...]) -> bool:
        return truth_of(conditions, self._places) == self._agrees

    def _conditioned(self, conditions: tuple[Condition, ...]) -> Equation:
        return replace(self._equation, conditions=(*self._equation.conditions, *conditions))

    def _judged(self, conditions: tuple[Condition, ...]) -> Conditional:
        """Return the verdict under the conditions; fixed attributes become constants if that helps the
        proof."""
        conditioned = self._conditioned(conditions)
        form = with_fixed_attributes(conditioned)
        verdict = decide(form, self._axioms, options=self._options.verification)
        return Conditional(form, conditions, verdict, self._exact(conditions), len(self._places))

    def _weakened(self, found: Conditional, conditions: tuple[Condition, ...]) -> Conditional:
        """Drop the clauses that neither the instances nor the proof need, and keep the simplest."""
        for clause in reversed(conditions):
            fewer = tuple(other for other in conditions if other != clause)
            held = truth_of(fewer, self._places)
            if not fewer or held & ~self._agrees or self._enough():
                continue
            weaker = self._judged(fewer)
            if weaker.proved:
                found, conditions = weaker, fewer
        return found


def _without_implied(necessary: Sequence[Atom]) -> tuple[Atom, ...]:
    """Return the simple atoms that no other atom implies."""
    chosen: list[Atom] = []
    for atom in necessary:
        if atom.cost <= _PLAIN and not any(other.true & ~atom.true == 0 for other in chosen):
            chosen.append(atom)
    return tuple(chosen)


def with_fixed_attributes(equation: Equation) -> Equation:
    """Substitute the values that the conditions of an equation fix for attribute variables.

    Axioms also refer to constants, and provers know nothing about variables except that equal ones are equal.
    """
    fixed: dict[str, AttributeTerm] = {}
    others: list[Condition] = []
    names = equation.attribute_variables
    for condition in equation.conditions:
        match condition:
            case Condition(ConditionName(name), "=", int() | str() | tuple() as value) if name in names:
                fixed.setdefault(name, value)
            case Condition(ConditionName(one), "=", ConditionName(other)) if {one, other} <= names:
                fixed.setdefault(other, AttributeVariable(one))
            case _:
                others.append(condition)
    chained = any(isinstance(v, AttributeVariable) and v.name in fixed for v in fixed.values())
    if not fixed or chained or any(fixed.keys() & names_in(condition) for condition in others):
        return equation

    def written(term: Term) -> Term:
        if isinstance(term, Variable):
            return term
        values = {
            name: cast("AttributeTerm", substituted_number(value, fixed)) for name, value in term.attributes
        }
        return application(term.operator, values, *map(written, term.inputs))

    return replace(
        equation,
        left=tuple(map(written, equation.left)),
        right=tuple(map(written, equation.right)),
        conditions=tuple(others),
    )


def _conditions(chosen: Sequence[Atom]) -> tuple[Condition, ...]:
    return tuple(atom.condition for atom in chosen)
