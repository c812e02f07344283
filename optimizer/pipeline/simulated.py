"""Judge for a remote cluster: plans are simulated, equivalence is checked by running both models here."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from superopt.errors import SuperoptError
from superopt.ir.graph import Graph
from superopt.ir.terms import Equation
from superopt.onnx_io import LoweredModel
from superopt.optimizer.canonical import CanonicalStep
from superopt.optimizer.fusion.joint.strategies import JOINT_STRATEGIES
from superopt.optimizer.parallel.cluster_advice import does_not_fit, suggest_cluster
from superopt.optimizer.parallel.documents.plan_text import plan_from_json
from superopt.optimizer.parallel.documents.quantities import size_text
from superopt.optimizer.parallel.documents.section import limited_by, section, synchronisation
from superopt.optimizer.parallel.experts import ONE_DEVICE
from superopt.optimizer.parallel.forecast import seconds_to_check
from superopt.optimizer.parallel.licences import Licences, licences_of
from superopt.optimizer.parallel.search.candidates import Origin, Planned, Proposal, SimulatedPlan
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Subject, plannable
from superopt.optimizer.parallel.search.substitution import Rewritten, Substitutions
from superopt.optimizer.parallel.simulator import ParallelObjective
from superopt.optimizer.parallel.topology import Cluster, limited
from superopt.optimizer.parallel.training_plans.states import StepLayout
from superopt.optimizer.pipeline.judge import REFUSED, Equality, Trial
from superopt.optimizer.pipeline.named_plans import NamedPlans
from superopt.optimizer.pipeline.original import Original
from superopt.optimizer.pipeline.prepare import Prepared, refusal_of
from superopt.optimizer.pipeline.recorded import recorded_trace, require_same_model
from superopt.optimizer.pipeline.reporting.report import (
    CostSummary,
    Report,
    SearchSummary,
    section_of,
)
from superopt.optimizer.pipeline.reporting.sizes import SizesSummary
from superopt.optimizer.pipeline.verdict import PlannedVariant, Verdict, most_promising
from superopt.optimizer.pipeline.write import for_devices
from superopt.optimizer.search import RuleSet, StoppedBy, TraceStep, retraced

_FIRST_PLAN_SHARE = 0.5
_ALONE_SHARE = 0.55
_REWRITING_SHARE = 0.65
_PLANNING_SHARE = 0.8
"""Share of the budget until which the unchanged graph is planned, rewritten for one device and for all, and
the results planned; the rest is for checking."""

_UNCHECKED_SHARE = 0.9
"""Share of the budget for planning where nothing is rewritten."""

_SAMPLING_SHARE = 0.15
"""Share of the budget until which scales of random inputs are tried on the original."""

_MOST_PREPARING = 0.4
"""Share of the remaining budget: if running the original takes longer, no rewritten graph is checked."""

_CHECK_SHARE = 0.7
"""Time to load and run a rewritten model relative to that of the original, which is run more often."""

_CHECKED_BYTES = 1 << 30
"""Maximum weight bytes of a model that is run here for checking; a larger one is planned unchanged."""


@dataclass(frozen=True)
class Simulated:
    """Returns the plan with the best predicted cost on the cluster, and its graph. Dimensions are divided as
    rules license, else as the ``axioms`` do. ``given`` is a plan to evaluate instead of searching, as JSON
    values; its trace is applied first."""

    cluster: Cluster
    axioms: Sequence[Equation] = ()
    given: Mapping[str, object] | None = None
    device: None = field(default=None, init=False)

    def begin(self, prepared: Prepared) -> SimulatedTrial:
        """Starts a trial. Raises InvalidModelError for a model with values of unknown size or rank,
        InvalidOptionError and InvalidFileError for options and plans that do not fit it."""
        request = prepared.request
        limit = request.options.memory_limit
        cluster = self.cluster if limit is None else limited(self.cluster, limit)
        Subject.of(plannable(request.lifted.graph, request.options.dims))
        trial = SimulatedTrial(prepared, cluster, licences_of(request.rules, self.axioms))
        if self.given is not None:
            require_same_model(self.given, request.lifted)
            trial.evaluate(self.given)
        elif request.options.strategy is not None:
            trial.adopt(request.options.strategy)
        return trial


class SimulatedTrial(Trial[PlannedVariant]):
    """One optimization for one cluster. ``given`` is the variant of a given plan, ``plain`` that of the
    unchanged graph. ``equality`` is None before the original was run here, and where it cannot be, for the
    reason ``unchecked``. ``alone`` is the predicted time of one device."""

    def __init__(self, prepared: Prepared, cluster: Cluster, licences: Licences) -> None:
        super().__init__(prepared)
        self._cluster = cluster
        self._licences = licences
        self._reserved = 0.0
        source = self._request.lifted.source
        layout = StepLayout.of(source.proto, source.name)
        self._planner = Planner(
            cluster,
            ParallelObjective.of(self._request.options.objective),
            licences.allow,
            self._until(_PLANNING_SHARE),
            self._request.options.seed,
            is_cut_short=lambda: self._request.cancel.is_interrupted,
            layout=layout,
        )
        self._named = NamedPlans(self._request, self._planner, cluster, licences)
        self._given: PlannedVariant | None = None
        self._joint: str | None = None
        self._plain: PlannedVariant | None = None
        self._planned: Planned | None = None
        self._unchecked = ""
        self._is_checkable = True
        self._baselines: Mapping[str, float] = {}
        self._alone: float | None = None
        self._tried = 0
        self._matched = 0
        self._is_full = False
        self._best_at = 0.0

    def evaluate(self, given: Mapping[str, object]) -> None:
        """Evaluates a given plan, after applying its trace; one with an empty trace is of the graph as it is.
        A plan by a strategy that merges or divides gradients is made again for the cluster. Raises
        InvalidFileError where it does not fit, and InvalidOptionError for such a strategy."""
        content = section_of(given, "parallel") if "parallel" in given else given
        if "synchronisation" in content and self._planner.layout is not None:
            self._given = self._named.again(content["synchronisation"])
            return
        steps = recorded_trace(given) if "trace" in given else ()
        end = self._until(_FIRST_PLAN_SHARE)

        def price(graph: Graph) -> float | None:
            return self._estimated(self._planner, graph) if time.monotonic() < end else None

        canonical = self._prepared.canonical
        is_unchanged = given.get("trace") == []
        start = self._request.lifted.graph if is_unchanged else canonical.graph
        graph, trace = retraced(start, steps, self._request.rules, price)
        self._matched = len({step.rule for step in trace})
        subject = Subject.of(self._sized(graph), self._planner.layout)
        plan = plan_from_json(given, subject, len(self._cluster))
        chosen = self._planner.evaluated(subject, Proposal("given", Origin.GIVEN, plan))
        self._given = PlannedVariant(graph, () if is_unchanged else canonical.steps, trace, subject, chosen)

    def adopt(self, strategy: str) -> None:
        """Takes the plan of that name for the unchanged graph. Raises InvalidOptionError without one."""
        self._given = self._named.plan(strategy, self._until(_FIRST_PLAN_SHARE))
        self._joint = strategy if strategy in JOINT_STRATEGIES else None

    def _search(self, original: Original) -> PlannedVariant:
        """The given plan; else the best plan of the unchanged graph and of its rewritten forms."""
        if self._given is not None:
            self._keep_baselines(self._planner.experts(self._given.subject))
            return self._given if self._joint is None else self._fused(self._given, self._joint)
        self._request.tell("search")
        self._prepare(original)
        canonical, lifted = self._prepared.canonical, self._request.lifted
        start, steps = (canonical.graph, canonical.steps) if self._is_checkable else (lifted.graph, ())
        planner = self._planner
        planner.deadline = self._until(_PLANNING_SHARE if self._rewrites or steps else _UNCHECKED_SHARE)
        if self._rewrites:
            planner.deadline = self._until(_FIRST_PLAN_SHARE)
        planned = self._planned = planner.plan(self._sized(start))
        best = self._plain = _variant(start, steps, (), planned)
        self._best_at = self._request.seconds
        self._keep_baselines(planned.experts)
        for graph, trace in self._rewritten(start):
            if self._is_over():
                break
            other = _variant(graph, steps, trace, planner.plan(self._sized(graph)))
            if other.chosen.rank < best.chosen.rank:
                best, self._best_at = other, self._request.seconds
        return best

    def _fused(self, divided: PlannedVariant, strategy: str) -> PlannedVariant:
        self._request.tell("search")
        self._planner.deadline = self._until(_UNCHECKED_SHARE)
        found = self._named.fused(divided, strategy)
        self._tried, self._best_at = found.tried, self._request.seconds
        self._baselines = {**self._baselines, **found.baselines}
        return found.variant

    def _refusal(self, variant: PlannedVariant) -> str:
        if variant.chosen.fits:
            return ""
        planned, what, least = self._planned, "the requested plan", variant.chosen
        if planned is not None:
            what = "the plan with the lowest memory that was found"
            least = min(planned.candidates, key=lambda c: max(c.simulation.memory_bytes))
        needs, has = limited_by(least.simulation, self._cluster)
        why = does_not_fit(self._cluster, what, needs, has)
        if planned is None:
            return f"{why}; other plans may need less"
        return f"{why}; {suggest_cluster(planned.subject, self._planner, needs)}"

    def _decide(self, original: Original, variant: PlannedVariant) -> Verdict[PlannedVariant]:
        """Tries the best variant, then the canonical graph, then the original graph."""
        plain = self._plain or variant
        best = variant.chosen.simulation.microseconds
        self._request.tell("check", self._tried, plain.chosen.simulation.microseconds, best)
        if variant.is_changed:
            self._open(original)
        verdict = self._judged(variant)
        if not verdict.accepted and verdict.variant.trace and self._plain is not None:
            verdict = self._judge(self._plain)
        if verdict.accepted:
            return verdict
        graph = self._request.lifted.graph
        return self._judge(_variant(graph, (), (), self._planner.plan(self._sized(graph))))

    def _judge(self, variant: PlannedVariant) -> Verdict[PlannedVariant]:
        verdict = self._verdict(variant)
        self.verdicts.append(verdict)
        return verdict

    def _verdict(self, variant: PlannedVariant) -> Verdict[PlannedVariant]:
        def lowered() -> LoweredModel:
            cluster = self._cluster
            return for_devices(self._request.lifted, variant.graph, variant.plan, cluster.name, len(cluster))

        predicted = f"{self._predicted(variant.chosen)}{variant.caveat}"
        if variant.is_changed:
            if self._equality is None:
                return Verdict(variant, False, self._unchecked)  # noqa: FBT003
            compared = self._equality.compare(lowered)
            why = f"{compared.why}; {predicted}" if compared.is_equal else compared.why
            return Verdict(variant, compared.is_equal, why, compared.model, compared.equivalence)
        why = "the graph is unchanged"
        if self.verdicts:
            why = f"{most_promising(self.verdicts).why}; {why}"
        elif not self._is_checkable:
            why = f"{why}: no rewritten graph can be checked in time, a longer budget allows for it"
        return Verdict(variant, True, f"{why}; {predicted}", lowered())  # noqa: FBT003

    def _predicted(self, chosen: SimulatedPlan) -> str:
        took = chosen.simulation.microseconds
        devices = "1 device" if len(self._cluster) == 1 else f"{len(self._cluster)} devices"
        speedup = f", {self._alone / took:.2f} times as fast as one" if self._alone else ""
        fits = ""
        if not chosen.fits:
            needs, has = limited_by(chosen.simulation, self._cluster)
            fits = f"; it does not fit: a device needs {size_text(needs)} and has {size_text(has)}"
        predicted = f"planned for {devices} and predicted to take {took:,.0f} us{speedup}"
        return f"{predicted}: simulated, not measured{fits}"

    def _without(self, variant: PlannedVariant, rule: str) -> PlannedVariant | None:
        del variant, rule
        return self._plain

    def _prepare(self, original: Original) -> None:
        """Runs the original, if a rewritten graph may be returned and can probably be checked in time;
        reserves time for that check. Without a check the graph stays unchanged."""
        if not self._rewrites and not self._prepared.canonical.steps:
            return
        lifted, weight_bytes = self._request.lifted, self._schedule.weight_bytes
        most = _MOST_PREPARING * (self._request.options.budget - self._request.seconds)
        took = math.inf
        if seconds_to_check(self._sized(lifted.graph), weight_bytes) <= most:
            began = time.monotonic()
            self._open(original)
            took = time.monotonic() - began
            self._reserved = _CHECK_SHARE * took
        if took > most or self._equality is None:
            self._is_checkable, self._reserved = False, 0.0

    def _open(self, original: Original) -> None:
        """Runs the original on a first sample, unless already tried."""
        if self._equality is not None or self._unchecked:
            return
        request, options = self._request, self._request.options
        if request.schedule.weight_bytes > _CHECKED_BYTES:
            self._unchecked = "it is too large to check on this machine"
            return
        scaled = request.started + _SAMPLING_SHARE * options.budget
        try:
            reference = original.reference(self._prepared.inputs, scaled)
        except REFUSED as error:
            self._unchecked = f"the original cannot be run on this machine: {error}"
            return
        if reference.first() is None:
            self._unchecked = self._prepared.inputs.unsupported or refusal_of(options)
            return
        reference.sampling = replace(reference.sampling, deadline=request.started + options.budget)
        self._equality = Equality(original, reference)

    def _rewritten(self, start: Graph) -> Iterator[tuple[Graph, tuple[TraceStep, ...]]]:
        """Rewritten graphs that are estimated to be faster, in turn by their best plan and on one device."""
        if not self._rewrites:
            return
        rules, whole = self._prepared.rule_set(self._prepared.usable), self._planner
        most = self._request.options.max_candidates
        by_one: list[Rewritten] = []
        if len(whole.cluster) > 1:
            alone = Planner(whole.cluster.first, whole.objective, whole.licence, layout=whole.layout)
            half = None if most is None else most // 2
            by_one = self._substituted(start, rules, alone, _ALONE_SHARE, half)
        by_all = self._substituted(start, rules, whole, _REWRITING_SHARE, most)
        whole.deadline = self._until(_PLANNING_SHARE)
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(by_all, by_one))
        different = {found.graph.signature: found for found in in_turn if found is not None}
        yield from ((found.graph, found.trace) for found in different.values())

    def _substituted(
        self, start: Graph, rules: RuleSet, planner: Planner, share: float, most: int | None
    ) -> list[Rewritten]:
        """The best rewritten graphs by a planner's estimate, until a share of the time is over, or so many
        graphs were priced."""
        self._planner.deadline = self._until(share)
        before = self._tried

        def is_enough() -> bool:
            self._is_full = most is not None and before + search.tried >= most
            return self._is_full or self._is_over()

        price = partial(self._estimated, planner)
        search = Substitutions(rules, price, is_enough, self._request.options.alpha)
        found = [one for one in search.run(start) if one.trace]
        self._tried, self._matched = before + search.tried, max(self._matched, len(search.matched))
        return found

    @property
    def _rewrites(self) -> bool:
        """Whether rules are tried: only where the result can be checked here."""
        is_small = self._schedule.weight_bytes <= _CHECKED_BYTES
        return self._is_checkable and is_small and self._request.options.search != "none"

    def _is_over(self) -> bool:
        """Whether the planner's time is over, or the job was cancelled."""
        return self._planner.is_expired() or self._request.cancel.is_cancelled

    def _sized(self, graph: Graph) -> Graph:
        return plannable(graph, self._request.options.dims)

    def _estimated(self, planner: Planner, graph: Graph) -> float | None:
        """A planner's estimate for a graph, None where it cannot be planned."""
        try:
            return planner.estimate(self._sized(graph))
        except SuperoptError:
            return None

    def _keep_baselines(self, experts: Sequence[SimulatedPlan]) -> None:
        """Records the times of expert plans that fit, and of one device whether it fits or not, as the
        baseline of speed-ups."""
        for candidate in experts:
            if candidate.proposal.name == ONE_DEVICE:
                self._alone = candidate.simulation.microseconds
        self._baselines = {c.proposal.name: c.simulation.microseconds for c in experts if c.fits}

    def _until(self, share: float) -> float:
        return self._schedule.until(share, self._reserved)

    def account(self, report: Report) -> Report:
        """The report with predictions and the plan."""
        request = self._request
        is_profiled = any(device.kind.profile is not None for device in self._cluster.devices)
        cost = CostSummary("us", "profile" if is_profiled else "analytic", 0.0, 0.0)
        seconds, best_at = round(request.seconds, 3), round(self._best_at, 3)
        strategy, stopped_by = request.options.search, self._stopped_by()
        report = replace(
            report,
            rules=replace(report.rules, matched=self._matched),
            cost=cost,
            search=SearchSummary(strategy, seconds, self._tried, best_at, stopped_by),
            sizes=SizesSummary(request.options.dims, apart=tuple(sorted(request.lifted.source.apart))),
        )
        if self.accepted is None or report.returned == "original":
            return report
        subject, chosen = self.accepted.variant.subject, self.accepted.variant.chosen
        took = chosen.simulation.microseconds
        return replace(
            report,
            cost=replace(cost, before=self._alone or took, after=took),
            parallel=section(subject, chosen, self._baselines, self._cluster, self._licences)
            | synchronisation(self.accepted.variant.strategy),
        )

    def _stopped_by(self) -> StoppedBy:
        if self._request.cancel.is_cancelled:
            return "cancelled"
        if self._planner.was_cut:
            return "budget"
        return "max_candidates" if self._is_full else "exhausted"


def _variant(
    graph: Graph, steps: tuple[CanonicalStep, ...], trace: tuple[TraceStep, ...], planned: Planned
) -> PlannedVariant:
    return PlannedVariant(graph, steps, trace, planned.subject, planned.best)
