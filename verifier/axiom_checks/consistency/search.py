"""Search for falsehoods around one axiom: alone, overlaps with other axioms, saturation, Z3.

1. The axiom's own sides are evaluated: a difference is a falsehood in one step.
2. Its overlaps with every axiom are falsehoods in two steps when the results differ.
3. Its sides, and their halves, are saturated with all axioms: more steps, each well-typed by itself.
4. Z3 is asked whether a side of the axiom does not depend on one of its inputs although it does, as shapeless
   terms (dissertation, section 2.4). The steps of such a proof say whether types were forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from superopt.axioms import cuts
from superopt.equations import format_equation
from superopt.errors import SuperoptError
from superopt.instances.sampler import InstanceSampler
from superopt.ir.terms import Equation, Variable
from superopt.ir.types import ElementType, TensorType
from superopt.verifier.axiom_checks.consistency.falsehoods import Falsehood, falsehood
from superopt.verifier.axiom_checks.consistency.goals import independence, instance_equation, seeds
from superopt.verifier.axiom_checks.consistency.interpretation import Interpretation, Kind, difference
from superopt.verifier.axiom_checks.consistency.overlaps import Overlap, overlaps
from superopt.verifier.axiom_checks.consistency.saturation import Extent, Saturation
from superopt.verifier.prove.chain import instances_of
from superopt.verifier.prove.smtlib import Relevance
from superopt.verifier.prove.solver import Answer, AxiomInstance, GroundSteps, SolverLimits, Strategy, ask
from superopt.verifier.prove.specialisation import specialised
from superopt.verifier.refute.refutation import Effort, refute
from superopt.verifier.seeds import seed_of

_SMALL = 60
_COMMON_TYPES = tuple(TensorType(ElementType.FLOAT, shape) for shape in ((2, 3), (1, 2, 3, 3), (2,), ()))


@dataclass(frozen=True)
class Depth:
    """How much of each search is done around one axiom."""

    effort: Effort = field(default_factory=lambda: Effort(schemes=8, per_scheme=1, instances=12, stack=2))
    overlap_schemes: int = 2
    extent: Extent = field(default_factory=Extent)
    limits: SolverLimits = field(default_factory=lambda: SolverLimits(resources=300_000))
    questions: int = 20
    restarts: int = 2


@dataclass(frozen=True)
class Counts:
    """What was looked at around an axiom."""

    overlaps: int = 0
    compared: int = 0
    saturated: int = 0
    asked: int = 0


@dataclass(frozen=True)
class Surroundings:
    """What the search around one axiom found; ``reason`` says why there was none, if there was none."""

    axiom: str
    falsehoods: tuple[Falsehood, ...] = ()
    counts: Counts = field(default_factory=Counts)
    reason: str = ""


def search_around(axiom: Equation, axioms: Sequence[Equation], depth: Depth) -> Surroundings:
    """Runs all four searches; a failure of one does not stop the others."""
    return _Search(axiom, axioms, depth).run()


class _Search:
    def __init__(self, axiom: Equation, axioms: Sequence[Equation], depth: Depth) -> None:
        self._axiom = axiom
        self._axioms = axioms
        self._by_name = {each.name: each for each in axioms}
        self._cuts = any(map(cuts, axioms))
        """Whether axioms speak of halves: those that do not are never used where one is."""
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
                goal = Equation((overlap.first,), (overlap.second,))
                self._explain(interpretation, overlap.steps, goal, differs, "overlap")
            return

    def _saturate(self) -> None:
        for interpretation in _interpretations(self._axiom, 1):
            saturation = Saturation(interpretation, self._axioms, self._depth.extent)
            for seed in seeds(self._axiom):
                if self._cuts or not cuts(Equation((seed,), ())):
                    saturation.add(interpretation.concrete(seed))
            saturation.run()
            self._counts = replace(self._counts, saturated=self._counts.saturated + len(saturation.steps))
            for merged in saturation.merged():
                goal = Equation((merged.left,), (merged.right,))
                needed = GroundSteps(goal, saturation.steps, SolverLimits()).core()
                steps = tuple(saturation.steps) if needed is None else needed
                self._explain(interpretation, steps, goal, merged.difference, "saturation")

    def _ask(self) -> None:
        questions = [(g, s) for g, s in independence(self._axiom) if self._cuts or not cuts(g)]
        for goal, sampled in questions[: self._depth.questions]:
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
        usable = Relevance(self._axioms, goal).within(1)
        for _ in range(self._depth.restarts):
            answer = _asked(goal, usable, Strategy.PATTERNS, self._depth.limits)
            steps = _few(goal, answer, self._by_name, self._depth.limits)
            if steps is None:
                return
            self._explain(interpretation, steps, goal, differs, "z3")
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
        steps: Sequence[AxiomInstance],
        goal: Equation,
        differs: str,
        found_by: str,
    ) -> None:
        self._add(falsehood(interpretation, self._by_name, steps, goal, differs, found_by))

    def _add(self, falsehood: Falsehood) -> None:
        self._found.setdefault((falsehood.kind, falsehood.axioms), falsehood)


def search_for_collapse(axioms: Sequence[Equation], limits: SolverLimits) -> Falsehood | None:
    """Whether Z3 makes two distinct inputs equal from all axioms, with no other term given."""
    goal = Equation((Variable("x"),), (Variable("y"),))
    by_name = {axiom.name: axiom for axiom in axioms}
    for strategy in (Strategy.PATTERNS, Strategy.MODELS):
        steps = _few(goal, _asked(goal, axioms, strategy, limits), by_name, limits)
        if steps is None:
            continue
        found = [
            falsehood(Interpretation({"x": type_, "y": type_}, {}), by_name, steps, goal, "two inputs", "z3")
            for type_ in _COMMON_TYPES
        ]
        return min(found, key=lambda each: list(Kind).index(each.kind))
    return None


def _asked(goal: Equation, axioms: Sequence[Equation], strategy: Strategy, limits: SolverLimits) -> Answer:
    own = specialised(axioms, goal, ())
    answer = ask(goal, own.axioms, strategy, limits)
    return replace(answer, steps=tuple(own.original(step) for step in answer.steps))


def _few(
    goal: Equation, answer: Answer, axioms: Mapping[str, Equation], limits: SolverLimits
) -> tuple[AxiomInstance, ...] | None:
    if not answer.proved:
        return None
    return GroundSteps(goal, instances_of(answer.steps, axioms), limits).core()


def _interpretations(equation: Equation, schemes: int) -> Iterator[Interpretation]:
    sampler = InstanceSampler(equation, seed_of(equation, 11))
    try:
        for instance in sampler.instances(schemes, 1, _SMALL):
            yield Interpretation.of(instance)
    except SuperoptError:
        return


__all__ = ["Counts", "Depth", "Surroundings", "search_around", "search_for_collapse"]
