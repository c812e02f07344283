"""The search for falsehoods around one axiom: by itself, with each other axiom, in a saturation, by Z3.

1. The axiom's own sides are evaluated: a difference is a falsehood in one step.
2. Its overlaps with every axiom are falsehoods in two steps when the results differ.
3. Its sides, and their halves, are saturated with all axioms: more steps, each well-typed by itself.
4. Z3 is asked whether a side of the axiom does not depend on one of its inputs although it does, as shapeless
   terms (dissertation, section 2.4). The steps of such a proof say whether types were forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from superopt.equations import format_equation, format_term
from superopt.errors import SuperoptError
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
    Term,
    Variable,
    VariableType,
    applications,
    variables,
)
from superopt.ops.terms import application
from superopt.rewriting.conditions import names_in
from verifier.chain import instantiated
from verifier.consistency.interpretation import Interpretation, Kind, classify, difference
from verifier.consistency.overlaps import Overlap, overlaps, replaced
from verifier.consistency.saturation import Extent, Saturation
from verifier.instances import InstanceSampler
from verifier.refute import Effort, refute
from verifier.seeds import seed_of
from verifier.smtlib import relevant
from verifier.solver import Answer, Limits, Step, Strategy, ask, core

_SMALL = 60
_OTHER = "'"


@dataclass(frozen=True)
class Depth:
    """How much of each search is done around one axiom."""

    effort: Effort = field(default_factory=lambda: Effort(schemes=8, per_scheme=1, instances=12, stack=2))
    overlap_schemes: int = 2
    extent: Extent = field(default_factory=Extent)
    limits: Limits = field(default_factory=lambda: Limits(milliseconds=500, resources=1_500_000))
    falsehoods: int = 4
    restarts: int = 2


@dataclass(frozen=True)
class Falsehood:
    """Two terms that the axioms make equal and that differ; all in text, to be kept and shown.

    ``steps`` are instances of axioms that suffice, ``instance`` the types under which the terms differ.
    """

    kind: Kind
    equation: str
    axioms: tuple[str, ...]
    steps: tuple[str, ...]
    instance: str
    difference: str
    reason: str
    found_by: str


@dataclass(frozen=True)
class Counts:
    """What was looked at around an axiom."""

    overlaps: int = 0
    compared: int = 0
    saturated: int = 0
    asked: int = 0


@dataclass(frozen=True)
class Surroundings:
    """What the search around one axiom found."""

    axiom: str
    falsehoods: tuple[Falsehood, ...]
    counts: Counts


def search_around(axiom: Equation, axioms: Sequence[Equation], depth: Depth) -> Surroundings:
    """All four searches; one that fails on an odd term is left where it is, the others go on."""
    return _Search(axiom, axioms, depth).run()


class _Search:
    def __init__(self, axiom: Equation, axioms: Sequence[Equation], depth: Depth) -> None:
        self._axiom = axiom
        self._axioms = axioms
        self._by_name = {each.name: each for each in axioms}
        self._depth = depth
        self._found: dict[tuple[object, ...], Falsehood] = {}
        self._counts = Counts()

    def run(self) -> Surroundings:
        if not self._own_sides():
            for search in (self._overlaps, self._saturate, self._ask):
                search()
        return Surroundings(self._axiom.name, tuple(self._found.values()), self._counts)

    def _own_sides(self) -> bool:
        """Whether the axiom is false by itself; then everything follows, and nothing else is worth saying."""
        refutation = refute(self._axiom, self._depth.effort)
        if refutation.counterexample is None:
            return False
        text = format_equation(self._axiom)
        step = f"{self._axiom.name}: {text}"
        self._add(
            Falsehood(
                Kind.TYPED,
                text,
                (self._axiom.name,),
                (step,),
                "",
                refutation.counterexample,
                "the axiom itself is false",
                "evaluation",
            )
        )
        return True

    def _overlaps(self) -> None:
        for other in self._axioms:
            for overlap in overlaps(self._axiom, other):
                self._counts = replace(self._counts, overlaps=self._counts.overlaps + 1)
                self._compare(overlap)

    def _compare(self, overlap: Overlap) -> None:
        sampled = instance_equation(overlap.steps, self._by_name)
        for interpretation in _interpretations(sampled, self._depth.overlap_schemes):
            typed = [interpretation.step(self._by_name[step.axiom], step) for step in overlap.steps]
            if any(isinstance(step, str) for step in typed):
                continue
            left, right = (interpretation.meaning(term) for term in (overlap.first, overlap.second))
            if left is None or right is None:
                continue
            self._counts = replace(self._counts, compared=self._counts.compared + 1)
            differs = difference(left, right)
            if differs is not None:
                self._explain(
                    interpretation, overlap.steps, overlap.first, overlap.second, differs, "overlap"
                )
                return

    def _saturate(self) -> None:
        for interpretation in _interpretations(self._axiom, 1):
            saturation = Saturation(interpretation, self._axioms, self._depth.extent)
            for seed in _seeds(self._axiom):
                saturation.add(interpretation.concrete(seed))
            saturation.run()
            self._counts = replace(self._counts, saturated=self._counts.saturated + len(saturation.steps))
            for merged in saturation.merged():
                goal = Equation((merged.left,), (merged.right,))
                needed = core(goal, list(saturation.steps.items()), Limits())
                steps = tuple(saturation.steps) if needed is None else needed
                self._explain(
                    interpretation, steps, merged.left, merged.right, merged.difference, "saturation"
                )

    def _ask(self) -> None:
        for goal, sampled in list(_independence(self._axiom))[: self._depth.falsehoods]:
            for interpretation in _interpretations(sampled, 1):
                left, right = (interpretation.meaning(side[0]) for side in (goal.left, goal.right))
                if left is None or right is None:
                    continue
                differs = difference(left, right)
                if differs is None:
                    continue
                self._counts = replace(self._counts, asked=self._counts.asked + 1)
                self._ask_about(goal, interpretation, differs)

    def _ask_about(self, goal: Equation, interpretation: Interpretation, differs: str) -> None:
        usable = relevant(self._axioms, goal, 1)
        for _ in range(self._depth.restarts):
            answer = ask(goal, usable, Strategy.PATTERNS, self._depth.limits)
            steps = _few(goal, answer, self._by_name, self._depth.limits)
            if steps is None:
                return
            self._explain(interpretation, steps, goal.left[0], goal.right[0], differs, "z3")
            culprits = {
                step.axiom
                for step in steps
                if isinstance(interpretation.step(self._by_name[step.axiom], step), str)
            }
            usable = tuple(axiom for axiom in usable if axiom.name not in culprits)
            if not culprits:
                return

    def _explain(
        self,
        interpretation: Interpretation,
        steps: Sequence[Step],
        left: Term,
        right: Term,
        differs: str,
        found_by: str,
    ) -> None:
        kind, reason = classify(interpretation, self._by_name, steps, left, right)
        names = tuple(sorted({step.axiom for step in steps}))
        lines = tuple(
            f"{step.axiom}: {format_equation(instantiated(self._by_name[step.axiom], step))}"
            for step in steps
        )
        equation = f"{format_term(left)} = {format_term(right)}"
        self._add(Falsehood(kind, equation, names, lines, str(interpretation), differs, reason, found_by))

    def _add(self, falsehood: Falsehood) -> None:
        self._found.setdefault((falsehood.kind, falsehood.axioms), falsehood)


def without_seeds(axioms: Sequence[Equation], limits: Limits) -> tuple[Step, ...] | None:
    """Steps by which all axioms together make two distinct inputs equal, with no other term given."""
    goal = Equation((Variable("x"),), (Variable("y"),))
    by_name = {axiom.name: axiom for axiom in axioms}
    for strategy in (Strategy.PATTERNS, Strategy.MODELS):
        steps = _few(goal, ask(goal, axioms, strategy, limits), by_name, limits)
        if steps is not None:
            return steps
    return None


def _few(
    goal: Equation, answer: Answer, axioms: Mapping[str, Equation], limits: Limits
) -> tuple[Step, ...] | None:
    if not answer.proved:
        return None
    return core(goal, [(step, instantiated(axioms[step.axiom], step)) for step in answer.steps], limits)


def _interpretations(equation: Equation, schemes: int) -> Iterator[Interpretation]:
    sampler = InstanceSampler(equation, seed_of(equation, 11))
    try:
        for instance in sampler.instances(schemes, 1, _SMALL):
            yield Interpretation(instance.types, instance.attributes)
    except SuperoptError:
        return


def instance_equation(steps: Sequence[Step], axioms: Mapping[str, Equation]) -> Equation:
    """All steps as outputs of one equation, with the conditions of their axioms.

    A condition speaks of variables: one that stands for a term is a further output.
    """
    left: list[Term] = []
    right: list[Term] = []
    conditions: list[Condition] = []
    types: list[tuple[str, VariableType]] = []
    for number, step in enumerate(steps):
        axiom = axioms[step.axiom]
        grounded = instantiated(axiom, step)
        left += grounded.left
        right += grounded.right
        attributes = dict(step.attributes)
        named = frozenset[str]().union(*(names_in(condition) for condition in axiom.conditions))
        for name, term in step.terms:
            if name in named or name in dict(axiom.types):
                left.append(Variable(_let(name, number)))
                right.append(term)
        lets = {name: ConditionName(_let(name, number)) for name, _ in step.terms}
        conditions += [_renamed(condition, lets, attributes) for condition in axiom.conditions]
        types += [(_let(name, number), declared) for name, declared in axiom.types]
    return Equation(tuple(left), tuple(right), conditions=tuple(conditions), types=tuple(types))


def _let(name: str, number: int) -> str:
    return f"{name}{_OTHER}{number}"


def _renamed(
    condition: Condition, lets: Mapping[str, ConditionName], attributes: Mapping[str, AttributeTerm]
) -> Condition:
    def rename(operand: ConditionTerm) -> ConditionTerm:
        match operand:
            case ConditionName(name) if name in lets:
                return lets[name]
            case ConditionName(name) if name in attributes:
                value = attributes[name]
                if isinstance(value, AttributeVariable):
                    return ConditionName(value.name)
                return value if isinstance(value, int | str | tuple) else operand
            case ConditionCall(function, arguments):
                return ConditionCall(function, tuple(rename(argument) for argument in arguments))
            case _:
                return operand

    right = None if condition.right is None else rename(condition.right)
    return Condition(rename(condition.left), condition.relation, right)


def _seeds(axiom: Equation) -> Iterator[Term]:
    """The sides, and both halves of them along every axis that the axiom names and the first and last two."""
    sides = [side for side in (*axiom.left, *axiom.right) if isinstance(side, Application)]
    axes = [term.attribute("axis") for term in applications(*sides)]
    for side in sides:
        yield side
        for axis in dict.fromkeys((*axes, 0, 1, -1, -2)):
            if axis is not None:
                yield application("split0", {"axis": axis}, side)
                yield application("split1", {"axis": axis}, side)


def _independence(axiom: Equation) -> Iterator[tuple[Equation, Equation]]:
    """Goals that a side of the axiom is the same for another input; and what gives both inputs one type."""
    for side in (*axiom.left, *axiom.right):
        if not isinstance(side, Application):
            continue
        for name in variables(side):
            other = Variable(name + _OTHER)
            goal = Equation((side,), (replaced(side, {Variable(name): other}),))
            yield (
                goal,
                Equation(
                    (*goal.left, other, *axiom.left),
                    (*goal.right, Variable(name), *axiom.right),
                    conditions=axiom.conditions,
                    types=axiom.types,
                ),
            )


__all__ = [
    "Counts",
    "Depth",
    "Falsehood",
    "Surroundings",
    "instance_equation",
    "search_around",
    "without_seeds",
]
