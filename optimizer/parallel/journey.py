"""The main job on a cluster: a lifted model and proved rules in; the best equal graph with its plan out.

What comes back is decided by the simulator, not by running it: the cluster is not here. That the rewritten
graph is equal is checked here all the same, by running both.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from superopt.axioms import load_axioms
from superopt.errors import InvalidFileError, SuperoptError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel
from superopt.optimizer.blame import Accuse
from superopt.optimizer.canonical import CanonicalStep, canonicalise
from superopt.optimizer.check import Equivalence, check_dims
from superopt.optimizer.parallel.checking import CHECKED_BYTES, Check
from superopt.optimizer.parallel.cluster_advice import what_would_do
from superopt.optimizer.parallel.experts import ONE_DEVICE
from superopt.optimizer.parallel.licences import Licences, declared, divisions_of, licensed
from superopt.optimizer.parallel.plan_text import plan_from_json
from superopt.optimizer.parallel.quantities import size_text
from superopt.optimizer.parallel.search.candidates import Origin, Planned, Proposal, SimulatedPlan
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Subject, plannable
from superopt.optimizer.parallel.search.substitution import Rewritten, Substitutions
from superopt.optimizer.parallel.section import limited_by, section
from superopt.optimizer.parallel.simulator import ParallelObjective
from superopt.optimizer.parallel.topology import Cluster, limited
from superopt.optimizer.report import (
    CostSummary,
    EquivalenceSummary,
    ModelSummary,
    OpaqueNode,
    Report,
    RuleCounts,
    SearchSummary,
    SizesSummary,
    recorded_trace,
)
from superopt.optimizer.runnable import weight_bytes
from superopt.optimizer.search import (
    CancelToken,
    Phase,
    Progress,
    ProgressCallback,
    RuleSet,
    StoppedBy,
    TraceStep,
    retraced,
)
from superopt.optimizer.selection import kept_nodes, usable_rules
from superopt.options import Options
from superopt.rewriting import Substitution

_FIRST_PLAN_SHARE = 0.5
_REWRITING_SHARE = 0.65
_PLANNING_SHARE = 0.8
"""Of the budget: until then the graph is planned as it is, is rewritten, and what came out of that is
planned; the rest is for checking."""

_UNCHECKED_SHARE = 0.9
"""Where nothing is rewritten, planning may take until then."""

_MOST_PREPARING = 0.4
"""Of what is left of the budget: where running the original takes longer, no other graph is checked."""

_WRITING_SECONDS_PER_BYTE = 8e-9
_WRITING_SHARE = 0.25
"""Kept for writing the model; at most this share of the budget."""

_CHECK_SHARE = 0.7
"""What opening and running a rewritten model takes, of what that took for the original, which is run more."""


@dataclass(frozen=True)
class ClusterResult:
    """What came out: a graph and its plan; the lifted graph itself where nothing is planned."""

    graph: Graph
    plan: Plan
    report: Report


@dataclass
class ClusterJourney:
    """One optimization for a cluster. ``given`` is a plan to be evaluated instead of searched, as JSON
    values; its trace is applied first."""

    lifted: LiftedModel
    rules: Sequence[Substitution]
    options: Options
    cluster: Cluster
    given: Mapping[str, object] | None = None
    progress: ProgressCallback | None = None
    cancel: CancelToken = field(default_factory=CancelToken)
    started: float = field(default_factory=time.monotonic)
    accuse: Accuse = lambda _: None

    def __post_init__(self) -> None:
        if self.options.memory_limit is not None:
            self.cluster = limited(self.cluster, self.options.memory_limit)

    def run(self) -> ClusterResult:
        """Rewrites, plans, checks. Raises InvalidModelError for a model whose sizes are not known,
        InvalidOptionError and InvalidFileError for options and plans that do not fit it."""
        options, lifted = self.options, self.lifted
        check_dims(options.dims, tuple(lifted.symbols))
        self._protected = kept_nodes(lifted, options.keep)
        self._usable = tuple(usable_rules(self.rules, options, lifted.source.opset))
        self._canonical = canonicalise(lifted, self._protected)
        self._licences = self._licensed()
        self._reserved = 0.0
        self._planner = Planner(
            self.cluster,
            ParallelObjective(options.objective),
            self._licences.allow,
            self._until(_PLANNING_SHARE),
            options.seed,
        )
        self._tried = 0
        self._matched = 0
        self._is_full = False
        self._is_checkable = True
        self._best_at = 0.0
        self._alone: float | None = None
        with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
            self._check = Check(lifted, options, self.started, Path(directory), self.accuse)
            if self.given is not None:
                return self._evaluated(self.given)
            return self._searched()

    def _licensed(self) -> Licences:
        """By the rules of the library; where none says how an operator is divided, by the axioms; where these
        do not, by what the operator declares, which the report tells apart."""
        rules = licensed(self.rules)
        axioms = [
            division
            for axiom in load_axioms().equations
            for division in divisions_of(axiom, f"axiom:{axiom.name}")
        ]
        return rules.and_otherwise(Licences(axioms, declared).rule)

    def _evaluated(self, given: Mapping[str, object]) -> ClusterResult:
        """A given plan, after its trace."""
        self._require_same_model(given)
        steps = recorded_trace(given) if "trace" in given else ()
        end = self._until(_FIRST_PLAN_SHARE)

        def price(graph: Graph) -> float | None:
            return self._estimated(graph) if time.monotonic() < end else None

        graph, trace = retraced(self._canonical.graph, steps, self.rules, price)
        self._matched = len({step.rule for step in trace})
        subject = Subject.of(plannable(graph, self.options.dims))
        plan = plan_from_json(given, subject, len(self.cluster))
        chosen = self._planner.evaluated(subject, Proposal("given", Origin.GIVEN, plan))
        baselines = self._fitting(self._planner.experts(subject))
        return self._finished(Rewritten(graph, trace, 0.0), subject, chosen, baselines)

    def _require_same_model(self, given: Mapping[str, object]) -> None:
        """Raises InvalidFileError for the report of another model; a plan by itself may be for any."""
        model, own = given.get("model"), hashlib.sha256(self.lifted.source.original).hexdigest()
        recorded = cast("Mapping[str, object]", model).get("sha256") if isinstance(model, dict) else own
        if recorded != own:
            raise InvalidFileError(
                f"plan: the report is of another model: expected sha256 {own}, that of "
                f"{Path(self.lifted.source.name).name}, got {recorded}; give its section 'parallel' alone to "
                "try its plan on this model"
            )

    def _searched(self) -> ClusterResult:
        self._tell("search", float("nan"), float("nan"))
        self._prepare()
        start = self._canonical.graph
        is_checked = self._rewrites or bool(self._canonical.steps)
        self._planner.deadline = self._until(_PLANNING_SHARE if is_checked else _UNCHECKED_SHARE)
        if self._rewrites:
            self._planner.deadline = self._until(_FIRST_PLAN_SHARE)
        plain = self._planner.plan(plannable(start, self.options.dims))
        best, planned = Rewritten(start, (), plain.best.simulation.microseconds), plain
        self._best_at = self._seconds
        baselines = self._fitting(plain.experts)
        rewritten = self._rewritten(start)
        if rewritten:
            self._planner.deadline = self._until(_PLANNING_SHARE)
        for found in rewritten:
            if not found.trace or self._is_over():
                continue
            other = self._planner.plan(plannable(found.graph, self.options.dims))
            if other.best.rank < planned.best.rank:
                best, planned, self._best_at = found, other, self._seconds
        self._tell("check", plain.best.simulation.microseconds, planned.best.simulation.microseconds)
        if self.cancel.is_cancelled:
            return self._original("cancelled", None)
        if not planned.best.fits:
            return self._original(self._too_small(plain), None)
        return self._finished(best, planned.subject, planned.best, baselines, plain)

    def _rewritten(self, start: Graph) -> list[Rewritten]:
        """Graphs whose best plan is estimated to be faster."""
        if not self._rewrites:
            return []
        self._planner.deadline = self._until(_REWRITING_SHARE)

        def is_enough() -> bool:
            most = self.options.max_candidates
            self._is_full = most is not None and search.tried >= most
            return self._is_full or self._is_over()

        rules = RuleSet(self._usable, self._protected)
        search = Substitutions(rules, self._estimated, is_enough, self.options.alpha)
        found = search.run(start)
        self._tried, self._matched = search.tried, len(search.matched)
        return found

    def _estimated(self, graph: Graph) -> float | None:
        """What the graph takes by the planner's estimate, None where it cannot be planned."""
        try:
            return self._planner.estimate(plannable(graph, self.options.dims))
        except SuperoptError:
            return None

    def _prepare(self) -> None:
        """Runs the original, if another graph may come out and is likely to be checked in time; leaves the
        time that the check will take. A graph that could not be checked stays as it was."""
        if not self._rewrites and not self._canonical.steps:
            return
        most = _MOST_PREPARING * (self.options.budget - self._seconds)
        took = float("inf")
        if self._check.forecast(plannable(self.lifted.graph, self.options.dims)) <= most:
            took = self._check.seconds_to_prepare()
            self._reserved = _CHECK_SHARE * took
        if took > most or not self._check.can_be_made:
            self._is_checkable, self._reserved = False, 0.0
            self._canonical = replace(self._canonical, graph=self.lifted.graph, steps=())

    @property
    def _rewrites(self) -> bool:
        """Whether rules are tried: where the outcome can be checked here."""
        is_small = weight_bytes(self.lifted) <= CHECKED_BYTES
        return self._is_checkable and is_small and self.options.search != "none"

    def _is_over(self) -> bool:
        """Whether the planner's time is up, or nobody wants the result any more."""
        return self._planner.is_expired() or self.cancel.is_cancelled

    def _finished(
        self,
        found: Rewritten,
        subject: Subject,
        chosen: SimulatedPlan,
        baselines: Mapping[str, float],
        plain: Planned | None = None,
    ) -> ClusterResult:
        """The plan with its graph, if that is equal; else the plan of the graph as it was given."""
        steps = self._canonical.steps
        equivalence: Equivalence | None = None
        why = "the graph is as it was" + ("" if self._is_checkable else ": no other can be checked in time")
        if found.trace or steps:
            equivalence, why = self._check.checked(found.graph)
            self._check.blame(self._canonical.graph, found.trace, self.rules, equivalence)
            if equivalence is None or not equivalence.passed:
                if not found.trace or plain is None:
                    graph = self.lifted.graph
                    replanned = self._planner.plan(plannable(graph, self.options.dims))
                    found, subject, chosen, steps = Rewritten(graph, (), 0.0), *_of(replanned), ()
                else:
                    return self._finished(Rewritten(self._canonical.graph, (), 0.0), *_of(plain), baselines)
        alone = self._alone
        speedup = "" if not alone else f", {alone / chosen.simulation.microseconds:.2f} times as fast as one"
        verdict = (
            f"{why}; planned for {_devices(len(self.cluster))} and predicted to take "
            f"{chosen.simulation.microseconds:,.0f} us{speedup}: simulated, not measured"
        )
        if not chosen.fits:
            needs, has = limited_by(chosen.simulation, self.cluster)
            verdict += f"; it does not fit: a device needs {size_text(needs)} and has {size_text(has)}"
        report = self._report(verdict, found.trace, steps, equivalence)
        before = alone or chosen.simulation.microseconds
        report = replace(
            report,
            cost=CostSummary("us", self._source(), before, chosen.simulation.microseconds),
            returned="optimized",
            parallel=section(subject, chosen, baselines, self.cluster, self._licences),
        )
        return ClusterResult(found.graph, chosen.plan, report)

    def _too_small(self, planned: Planned) -> str:
        tightest = min(planned.candidates, key=lambda c: max(c.simulation.memory_bytes))
        needs, has = limited_by(tightest.simulation, self.cluster)
        enough = what_would_do(planned.subject, self._planner, needs)
        return (
            f"the model does not fit on {self.cluster.name}: the plan that needs least memory needs "
            f"{size_text(needs)} on a device that has {size_text(has)}; {enough}"
        )

    def _original(self, why: str, equivalence: Equivalence | None) -> ClusterResult:
        return ClusterResult(self.lifted.graph, Plan(), self._report(why, (), (), equivalence))

    def _report(
        self,
        why: str,
        trace: tuple[TraceStep, ...],
        steps: Sequence[CanonicalStep],
        equivalence: Equivalence | None,
    ) -> Report:
        return Report(
            model=self._model(),
            options=self.options.to_json(),
            rules=RuleCounts(
                len({rule.rule_id for rule in self.rules}),
                self._matched,
                len({step.rule for step in trace}),
            ),
            cost=CostSummary("us", self._source(), 0.0, 0.0),
            measured=None,
            equivalence=(
                EquivalenceSummary.untouched(self.options.tolerance, "the graph is as it was")
                if equivalence is None
                else EquivalenceSummary.of(equivalence)
            ),
            search=SearchSummary(
                self.options.search,
                round(self._seconds, 3),
                self._tried,
                round(self._best_at, 3),
                self._stopped_by(),
            ),
            canonical=tuple(steps),
            trace=trace,
            fusion=(),
            returned="original",
            why=why,
            sizes=SizesSummary(self.options.dims),
            suspects=self._check.suspects,
        )

    def _model(self) -> ModelSummary:
        lifted = self.lifted
        before = len(lifted.source.as_given.proto.graph.node)
        return ModelSummary(
            name=Path(lifted.source.name).name,
            sha256=hashlib.sha256(lifted.source.original).hexdigest(),
            nodes_before=before,
            nodes_after=self._check.nodes or before,
            opaque=tuple(OpaqueNode(*node) for node in lifted.opaque),
            overridable=len(lifted.source.as_given.overridable),
            warnings=lifted.source.warnings,
        )

    def _stopped_by(self) -> StoppedBy:
        if self.cancel.is_cancelled:
            return "cancelled"
        if self._planner.was_cut:
            return "budget"
        return "max_candidates" if self._is_full else "exhausted"

    def _fitting(self, experts: Sequence[SimulatedPlan]) -> dict[str, float]:
        """What the plans of experts take that fit; keeps what one device takes, whether it fits or not: what
        speed-ups are relative to."""
        for candidate in experts:
            if candidate.proposal.name == ONE_DEVICE:
                self._alone = candidate.simulation.microseconds
        return {c.proposal.name: c.simulation.microseconds for c in experts if c.fits}

    @property
    def _seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self.started

    def _source(self) -> str:
        return "profile" if any(d.kind.profile is not None for d in self.cluster.devices) else "analytic"

    def _until(self, share: float) -> float:
        budget = self.options.budget
        writing = min(_WRITING_SECONDS_PER_BYTE * weight_bytes(self.lifted), _WRITING_SHARE * budget)
        return self.started + min(share * (budget - writing), budget - writing - self._reserved)

    def _tell(self, phase: Phase, before: float, best: float) -> None:
        if self.progress is not None:
            self.progress(Progress(phase, self._seconds, self._tried, before, best))


def _of(planned: Planned) -> tuple[Subject, SimulatedPlan]:
    return planned.subject, planned.best


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"
