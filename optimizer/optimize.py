"""The main job: a lifted model and proved rules in; the best equal graph, its trace and the report out."""

from __future__ import annotations

import hashlib
import logging
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from optimizer.canonical import Canonical, canonicalise
from optimizer.check import (
    Reference,
    Sampling,
    check_dims,
    compare_latency,
    compare_latency_apart,
    load_inputs,
    plan_inputs,
)
from optimizer.cost import (
    HERE,
    CostStore,
    GraphCost,
    Latency,
    MemoryLimit,
    Objective,
    Origin,
    Provider,
    Sizes,
    Target,
    objective_of,
    physical_cores,
)
from optimizer.cost.runtime import LoadedModel, RuntimeRefusedError
from optimizer.decision import Court, Variant, Verdict, plan_of
from optimizer.explanation import Explanation, Findings, explain
from optimizer.options import Options
from optimizer.report import (
    CostSummary,
    EquivalenceSummary,
    Measured,
    MemorySummary,
    ModelSummary,
    OpaqueNode,
    Report,
    RuleCounts,
    SearchSummary,
)
from optimizer.runnable import runnable_original, weight_bytes
from optimizer.search import (
    CancelToken,
    Limits,
    Phase,
    Progress,
    ProgressCallback,
    RuleSet,
    SearchResult,
    TraceStep,
    Watch,
    search_named,
    without_rules,
)
from optimizer.selection import kept_nodes, usable_rules
from superopt.errors import InvalidInputError, MissingServiceError, UnprovedRuleError
from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel
from superopt.rewriting import Substitution

_LOG = logging.getLogger(__name__)

_SECOND_OPINIONS = 3
_LEAST_SECONDS = 5.0
"""A search and its judgement are not begun with less time than this."""

_EXPLANATION_SHARE = 0.05
"""Share of the budget for explaining the outcome."""

_LARGE = 1 << 30
"""Bytes of weights from which on no two models are in memory at once."""

_RUNS_TO_RESERVE = 80
_LOADS_TO_RESERVE = 8
_OPENING_SECONDS_PER_BYTE = 3e-9
_RESERVE_SHARE = (0.25, 0.6)
"""At least and at most this share of the budget is kept for checking and timing."""


@dataclass(frozen=True)
class Result:
    """What came out. ``graph`` is the lifted graph itself when the original is returned."""

    graph: Graph
    plan: Plan
    trace: tuple[TraceStep, ...]
    report: Report


def optimize(
    lifted: LiftedModel,
    rules: Sequence[Substitution],
    options: Options,
    costs: CostStore,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    target: Target = HERE,
) -> Result:
    """Optimizes a model for a target within the budget. ``rules`` must all be verified.

    Raises InvalidInputError for options that do not fit the model. Any other failure is logged, and the
    original is returned with the reason in the report.
    """
    journey = Journey(lifted, rules, options, costs, progress, cancel, target)
    try:
        return journey.run()
    except (InvalidInputError, UnprovedRuleError, MissingServiceError):
        raise
    except Exception as error:  # noqa: BLE001 - logged, reported, and the original goes out unharmed
        _LOG.exception("optimizing %s failed", lifted.source.name)
        return journey.original(f"internal error, please report it: {type(error).__name__}: {error}")


class Journey:
    """One optimization; ``run`` lets every failure through, which is what tests want."""

    def __init__(
        self,
        lifted: LiftedModel,
        rules: Sequence[Substitution],
        options: Options,
        costs: CostStore,
        progress: ProgressCallback | None = None,
        cancel: CancelToken | None = None,
        target: Target = HERE,
    ) -> None:
        self._target = target
        self._started = time.monotonic()
        self._explaining = _EXPLANATION_SHARE * options.budget
        self._deadline = self._started + options.budget - self._explaining
        self._lifted = lifted
        self._options = options
        self._costs = costs
        self._progress = progress
        self._cancel = cancel or CancelToken()
        self._threads = options.threads or physical_cores()
        self._rules = tuple(usable_rules(rules, options, lifted.source.opset))
        self._offered = tuple(rules)
        self._court: Court | None = None
        self._result: SearchResult | None = None
        self._start: GraphCost | None = None
        self._objective: Objective | None = None
        self._verdict: Verdict | None = None
        self._protected = frozenset[NodeId]()
        self._canonical = Canonical(lifted.graph, ())

    def run(self) -> Result:
        """Prices, searches, checks, times, decides."""
        lifted, options = self._lifted, self._options
        check_dims(options.dims, tuple(lifted.symbols))
        self._protected = kept_nodes(lifted, options.keep)
        self._canonical = canonicalise(lifted, self._protected)
        rule_set = RuleSet(self._rules, self._protected)
        objective = self._objective = objective_of(
            options.objective, self._costs, self._threads, self._target
        )
        limit = None if options.memory_limit is None else MemoryLimit(options.memory_limit)
        self._tell("pricing")
        if isinstance(objective, Latency):
            objective.deadline = self._started + 0.5 * options.budget
        start = self._start = GraphCost.of(
            self._canonical.graph, objective, Sizes(lifted.graph, options.dims, Origin(lifted)), limit=limit
        )
        if isinstance(objective, Latency):
            objective.measure_again()
            start = self._start = start.refreshed()
        result = self._result = self._search(start, rule_set, self._deadline - self._reserve(start))
        if result.stopped_by == "cancelled":
            return self.original("cancelled")
        if result.best.penalty:
            needed = f"{result.best.memory.peak:,} bytes"
            return self.original(f"no equal graph was found within the memory limit: the best needs {needed}")
        if not result.trace and not self._canonical.steps:
            return self.original("no rule lowers the predicted cost")
        return self._judged(start, result, objective)

    def original(self, why: str) -> Result:
        """The original, with the reason."""
        return Result(self._lifted.graph, Plan(), (), self._report(None, why))

    def _search(self, start: GraphCost, rules: RuleSet, deadline: float) -> SearchResult:
        options = self._options
        limits = Limits(
            deadline=deadline,
            alpha=options.alpha,
            max_candidates=options.max_candidates,
            patience=options.patience,
            seed=options.seed,
        )
        search = search_named(options.search)
        return search.run(start, rules, Watch(limits, self._cancel, self._forward))

    def _reserve(self, start: GraphCost) -> float:
        """Seconds of the budget that checking and timing will need."""
        low, high = (share * self._options.budget for share in _RESERVE_SHARE)
        predicted = start.total / 1e6 if isinstance(start.objective, Latency) else 0.0
        loading = weight_bytes(self._lifted) * _OPENING_SECONDS_PER_BYTE
        return min(high, max(low, _RUNS_TO_RESERVE * predicted + _LOADS_TO_RESERVE * loading))

    def _judged(self, start: GraphCost, result: SearchResult, objective: Objective) -> Result:
        self._tell("check")
        if isinstance(objective, Latency):
            objective.deadline = math.inf
        with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
            try:
                court = self._court = self._convened(start, Path(directory))
            except RuntimeRefusedError as error:
                return self.original(f"the original does not run: {error}")
            if court is None:
                return self.original("the original does not run on random inputs; give some with --inputs")
            self._tell("timing")
            verdict = self._verdict = court.decide(Variant(result.best, result.trace))
            if not verdict.accepted:
                verdict = self._verdict = self._second_opinion(start, court, verdict)
            if not verdict.accepted and self._canonical.steps and verdict.variant.trace:
                verdict = self._verdict = court.decide(Variant(start, ()))
        if not verdict.accepted:
            return self.original(verdict.why)
        graph = verdict.variant.cost.graph
        return Result(graph, plan_of(graph), verdict.variant.trace, self._report(verdict, verdict.why))

    def _second_opinion(self, start: GraphCost, court: Court, rejected: Verdict) -> Verdict:
        """Searches again without the rules whose predicted gain did not show, while time lasts.

        A rule that the cost model flatters takes the place of others: what is found without it may be faster.
        """
        distrusted: set[str] = set()
        for _ in range(_SECOND_OPINIONS):
            began, left = time.monotonic(), self._deadline - time.monotonic()
            if left < _LEAST_SECONDS or not rejected.variant.rules or rejected.comparison is None:
                break
            distrusted.add(rejected.variant.rules[0])
            self._tell("search")
            trusted = [rule for rule in self._rules if rule.rule_id not in distrusted]
            result = self._search(start, RuleSet(trusted, self._protected), began + 0.4 * left)
            if not result.trace:
                break
            verdict = court.decide(Variant(result.best, result.trace))
            if verdict.accepted:
                self._result = result
                return verdict
            rejected = verdict
        return rejected

    def _convened(self, start: GraphCost, directory: Path) -> Court | None:
        lifted, options = self._lifted, self._options
        original = runnable_original(lifted, directory)
        began = time.monotonic()
        provider = self._target.provider if self._target.is_here else Provider.CPU
        loaded = LoadedModel(original, self._threads, provider=provider)
        loading = time.monotonic() - began
        inputs = plan_inputs(lifted, loaded.inputs, options.dims)
        given = () if options.inputs is None else (load_inputs(options.inputs, loaded.inputs),)
        sampling = Sampling(options.samples, options.seed, options.tolerance, given, self._deadline)
        reference = Reference(loaded, inputs, sampling)
        first = reference.first()
        if first is None:
            return None
        began = time.monotonic()
        reference.repeated()
        running = time.monotonic() - began
        is_large = weight_bytes(lifted) >= _LARGE
        if is_large:
            reference.release()
            del loaded
        return Court(
            lifted=lifted,
            original=original,
            reference=reference,
            feeds=first.feeds,
            threads=self._threads,
            deadline=self._deadline,
            directory=directory,
            target=self._target,
            loading=loading,
            running=running,
            race=compare_latency_apart if is_large else compare_latency,
            minimal_ratio=_minimal_ratio(start, options),
            without=lambda variant, dropped: Variant(
                *without_rules(start, variant.trace, self._rules, frozenset(dropped))
            ),
        )

    def _report(self, verdict: Verdict | None, why: str) -> Report:
        lifted, accepted = self._lifted, verdict
        judged = verdict or self._verdict
        nodes = len(lifted.source.as_given.proto.graph.node)
        comparison = None if judged is None else judged.comparison
        equivalence = None if judged is None else judged.equivalence
        return Report(
            model=ModelSummary(
                name=Path(lifted.source.name).name,
                sha256=hashlib.sha256(lifted.source.original).hexdigest(),
                nodes_before=nodes,
                nodes_after=nodes if accepted is None else accepted.nodes,
                opaque=tuple(OpaqueNode(*node) for node in lifted.opaque),
            ),
            options={**self._options.to_json(), "threads": self._threads},
            rules=self._rule_counts(accepted),
            cost=self._cost_summary(accepted),
            measured=None if comparison is None else Measured.of(comparison, self._threads),
            equivalence=(
                EquivalenceSummary(True, 0, 0.0, 0.0, self._options.tolerance or 1e-3)  # noqa: FBT003
                if equivalence is None
                else EquivalenceSummary.of(equivalence)
            ),
            search=(
                SearchSummary(self._options.search, 0.0, 0, 0.0, "budget")
                if self._result is None
                else SearchSummary.of(self._options.search, self._result)
            ),
            canonical=() if accepted is None else self._canonical.steps,
            trace=() if accepted is None else accepted.variant.trace,
            fusion=(
                ()
                if accepted is None
                else tuple(g.members for g in plan_of(accepted.variant.cost.graph).fusion.values())
            ),
            returned="original" if accepted is None else "optimized",
            why=why,
            explanation=self._explained(accepted),
            memory=self._memory(accepted),
        )

    def _memory(self, verdict: Verdict | None) -> MemorySummary | None:
        if self._start is None:
            return None
        before = self._start.memory.peak
        after = before if verdict is None else verdict.variant.cost.memory.peak
        return MemorySummary(before, after, self._options.memory_limit)

    def _explained(self, accepted: Verdict | None) -> Explanation | None:
        """None where nothing was priced, and where explaining fails: the model matters more."""
        if self._start is None or self._cancel.is_cancelled:
            return None
        court, chosen = self._court, None if accepted is None else accepted.variant
        judged = () if court is None else court.judged
        findings = Findings(
            lifted=self._lifted,
            start=self._start,
            chosen=chosen,
            ablations=() if court is None else court.ablations,
            offered=self._offered,
            usable=frozenset(rule.rule_id for rule in self._rules),
            excluded=frozenset(self._options.exclude_rules),
            judged=judged,
            protected=self._protected,
            was_cut_short=self._result is None or self._result.stopped_by != "exhausted",
        )
        try:
            return explain(findings, self._explaining)
        except Exception:  # noqa: BLE001 - logged, and the outcome goes out without its explanation
            _LOG.exception("explaining %s failed", self._lifted.source.name)
            return None

    def _rule_counts(self, verdict: Verdict | None) -> RuleCounts:
        matched = 0 if self._result is None else len(self._result.matched)
        applied = 0 if verdict is None else len({step.rule for step in verdict.variant.trace})
        return RuleCounts(len({rule.rule_id for rule in self._offered}), matched, applied)

    def _cost_summary(self, verdict: Verdict | None) -> CostSummary:
        before = 0.0 if self._start is None else self._start.total - self._start.penalty
        after = before if verdict is None else verdict.variant.cost.total
        unit = "us" if self._objective is None else self._objective.unit
        return CostSummary(
            unit, "analytic" if self._objective is None else self._objective.source, before, after
        )

    def _tell(self, phase: Phase) -> None:
        if self._progress is None:
            return
        cost = math.nan if self._start is None else self._start.total
        best = cost if self._result is None else self._result.best.total
        candidates = 0 if self._result is None else self._result.candidates
        self._progress(Progress(phase, time.monotonic() - self._started, candidates, cost, best))

    def _forward(self, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(replace(progress, seconds=time.monotonic() - self._started))


def _minimal_ratio(start: GraphCost, options: Options) -> float:
    """How fast a rewritten model must be: not at all, when the original needs more memory than there is."""
    if start.penalty:
        return 0.0
    return 1.0 if options.objective == "latency" else 0.99
