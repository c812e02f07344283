"""Rewritten graphs under trial, and their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import LoweredModel
from superopt.optimizer.canonical import CanonicalStep
from superopt.optimizer.check import Comparison, Equivalence
from superopt.optimizer.cost import GraphCost
from superopt.optimizer.pipeline.write import plan_of
from superopt.optimizer.search import Shortened, TraceStep

if TYPE_CHECKING:
    from superopt.optimizer.parallel.search.candidates import SimulatedPlan
    from superopt.optimizer.parallel.search.subject import Subject
    from superopt.optimizer.parallel.strategies.model import Strategy


@dataclass(frozen=True, slots=True)
class Variant:
    """A rewritten graph and its steps, canonicalisation first."""

    graph: Graph
    canonical: tuple[CanonicalStep, ...]
    trace: tuple[TraceStep, ...]

    @property
    def plan(self) -> Plan:
        """Its execution plan."""
        return Plan()

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules applied, by decreasing predicted gain."""
        gains: dict[str, float] = {}
        for step in self.trace:
            gains[step.rule] = gains.get(step.rule, 0.0) + step.cost_before - step.cost_after
        return tuple(sorted(gains, key=lambda rule: -gains[rule]))


@dataclass(frozen=True, slots=True)
class PricedVariant(Variant):
    """A variant for one device, with its price and that of the search's starting graph."""

    cost: GraphCost
    start: GraphCost

    @property
    def plan(self) -> Plan:
        """The groups of nodes that the runtime may fuse."""
        return plan_of(self.graph)

    @property
    def shortened(self) -> Shortened:
        """Its steps and their price."""
        return Shortened(self.cost, self.trace)

    def with_steps(self, cost: GraphCost, trace: Sequence[TraceStep]) -> PricedVariant:
        """The variant that other steps make of the same graph, with its price."""
        return replace(self, graph=cost.graph, trace=tuple(trace), cost=cost)


@dataclass(frozen=True, slots=True)
class PlannedVariant(Variant):
    """A variant for a cluster, with its plan as the simulator evaluates it, and the strategy by which its
    graph and plan were made, if any. ``caveat`` ends the sentence about it: what devices do otherwise than
    one."""

    subject: Subject
    chosen: SimulatedPlan
    strategy: Strategy | None = None
    caveat: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether its graph may differ from that of the model."""
        return bool(self.trace or self.canonical or self.strategy)

    @property
    def plan(self) -> Plan:
        """The machine mappings."""
        return self.chosen.plan


V_co = TypeVar("V_co", bound=Variant, covariant=True)


@dataclass(frozen=True, slots=True)
class Verdict(Generic[V_co]):
    """Outcome for a variant. ``why`` is the reason in one sentence; ``model`` is the model that was judged,
    and that is written if the variant is accepted."""

    variant: V_co
    accepted: bool
    why: str
    model: LoweredModel | None = None
    equivalence: Equivalence | None = None
    comparison: Comparison | None = None


V = TypeVar("V", bound=Variant)


def most_promising(verdicts: Sequence[Verdict[V]]) -> Verdict[V]:
    """The verdict with the largest measured ratio, of equal ones the first; where none was timed, the first
    of all. Raises IndexError without a verdict."""
    timed = [(verdict.comparison.ratio, verdict) for verdict in verdicts if verdict.comparison is not None]
    return max(timed, key=lambda pair: pair[0])[1] if timed else verdicts[0]


@dataclass(frozen=True, slots=True)
class Ablation:
    """A rule removed from a variant on trial: timed with it and without it, each against the original."""

    rule: str
    present: Comparison
    absent: Comparison


@dataclass(frozen=True, slots=True)
class Rejection:
    """A variant that was judged and not returned, for the report: its rules, by decreasing gain. ``equal`` is
    None where outputs were not compared."""

    rules: tuple[str, ...]
    equal: bool | None
    why: str

    def to_json(self) -> dict[str, object]:
        """The rejection as JSON values."""
        return asdict(self)


def rejections(verdicts: Sequence[Verdict[Variant]]) -> tuple[Rejection, ...]:
    """The rejections among verdicts, in order."""
    return tuple(
        Rejection(
            verdict.variant.rules,
            None if verdict.equivalence is None else verdict.equivalence.passed,
            verdict.why,
        )
        for verdict in verdicts
        if not verdict.accepted
    )
