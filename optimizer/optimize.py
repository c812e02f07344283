"""The main job: a lifted model and proved rules in; the best equal graph, its trace and the report out."""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from superopt.errors import INTERNAL_ERROR, InvalidInputError, MissingServiceError, UnprovedRuleError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel
from superopt.optimizer.blame import Accuse, Suspect, decided
from superopt.optimizer.canonical import Canonical, canonicalise
from superopt.optimizer.check import (
    Reference,
    Sampling,
    Sizing,
    check_dims,
    compare_latency,
    compare_latency_apart,
    declared_ports,
    given_inputs,
    plan_inputs,
    settle_sizes,
)
from superopt.optimizer.cost import (
    HERE,
    CostStore,
    GraphCost,
    Latency,
    MemoryLimit,
    Origin,
    Provider,
    Sizes,
    Target,
    objective_of,
    physical_cores,
)
from superopt.optimizer.cost.runtime import Array, LoadedModel, ModelFile, RuntimeRefusedError, misdeclared
from superopt.optimizer.decision import Court, Variant, Verdict, plan_of
from superopt.optimizer.expected import minimal_ratio, refusal_of
from superopt.optimizer.first_run import first_run
from superopt.optimizer.record import Record
from superopt.optimizer.report import Report
from superopt.optimizer.runnable import runnable_original, weight_bytes
from superopt.optimizer.schedule import Schedule
from superopt.optimizer.search import (
    CancelToken,
    Phase,
    Progress,
    ProgressCallback,
    RuleSet,
    SearchLimits,
    SearchResult,
    TraceStep,
    Watch,
    search_named,
    without_rules,
)
from superopt.optimizer.selection import kept_nodes, usable_rules
from superopt.options import Options
from superopt.rewriting import Substitution

_LOG = logging.getLogger(__name__)

_SECOND_OPINIONS = 3
_LEAST_SECONDS = 5.0
"""A search and its judgement are not begun with less time than this."""

_LARGE = 1 << 28
"""Bytes of weights from which on no two models are in memory at once, and none while a search runs."""

_PRICING_SHARE = 0.5
_SETTLING_SHARE = 0.2
"""Share of the time left after which no other sizes are tried."""


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
    started: float | None = None,
    accuse: Accuse = lambda _: None,
) -> Result:
    """Optimizes a model for a target within the budget. ``rules`` must all be verified; ``accuse`` is told at
    once of those that changed outputs, which are not used further.

    The budget counts from ``started`` (a time of the monotonic clock), now without it, and leaves time for
    writing the result. Raises InvalidInputError for options that do not fit the model, MissingServiceError
    for a device that is not there. Any other failure is logged, and the original is returned with the reason
    in the report.
    """
    journey = Journey(lifted, rules, options, costs, progress, cancel, target, started, accuse)
    try:
        return journey.run()
    except (UnprovedRuleError, MissingServiceError):
        raise
    except MemoryError as error:
        _LOG.exception("optimizing %s failed", lifted.source.name)
        return journey.original(f"{refusal_of(options)}: {error or 'not enough memory'}")
    except Exception as error:
        if isinstance(error, InvalidInputError) and not journey.has_begun:
            raise
        _LOG.exception("optimizing %s failed", lifted.source.name)
        return journey.original(f"{INTERNAL_ERROR}: {type(error).__name__}: {error}")


class Journey:
    """One optimization; ``run`` lets every failure through, which is what tests want.

    Once it ``has_begun`` nothing that goes wrong is the fault of what was given.
    """

    def __init__(
        self,
        lifted: LiftedModel,
        rules: Sequence[Substitution],
        options: Options,
        costs: CostStore,
        progress: ProgressCallback | None = None,
        cancel: CancelToken | None = None,
        target: Target = HERE,
        started: float | None = None,
        accuse: Accuse = lambda _: None,
    ) -> None:
        self.has_begun = False
        self._accuse = accuse
        self._target = target
        self._started = time.monotonic() if started is None else started
        self._weight_bytes = weight_bytes(lifted)
        self._schedule = Schedule(self._started, options.budget, self._weight_bytes)
        self._lifted = lifted
        self._options = options
        self._costs = costs
        self._progress = progress
        self._cancel = cancel or CancelToken()
        self._threads = options.threads or physical_cores()
        self._rules = tuple(usable_rules(rules, options, lifted.source.opset))
        self._record = Record(
            lifted, options, self._threads, target, tuple(rules), self._rules, Canonical(lifted.graph, ())
        )
        self._given: tuple[Mapping[str, Array], ...] = ()
        self._file: ModelFile | None = None
        self._loaded: LoadedModel | None = None
        self._search_ends = self._schedule.deadline

    def run(self) -> Result:
        """Prices, searches, checks, times, decides."""
        lifted, options, record = self._lifted, self._options, self._record
        check_dims(options.dims, tuple(lifted.symbols))
        record.protected = kept_nodes(lifted, options.keep)
        self._plan = plan_inputs(lifted, declared_ports(lifted), options.dims)
        if options.inputs is not None:
            self._given = (given_inputs(lifted, self._plan, options.inputs),)
        pricing_ends = self._started + _PRICING_SHARE * options.budget
        record.objective = objective_of(
            options.objective, self._costs, self._threads, self._target, pricing_ends
        )
        self.has_begun = True
        with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
            try:
                return self._searched(Path(directory))
            except RuntimeRefusedError as error:
                return self.original(f"the original does not run: {error}")

    def original(self, why: str) -> Result:
        """The original, with the reason."""
        return Result(self._lifted.graph, Plan(), (), self._report(None, why))

    def _searched(self, directory: Path) -> Result:
        lifted, record = self._lifted, self._record
        if not self._schedule.is_enough():
            return self._too_short()
        sizing = record.sizing = self._settled(directory)
        if sizing.runs is False:
            return self.original(refusal_of(self._options, sizing.guessed))
        self._measure(sizing, directory)
        if not self._schedule.is_enough():
            return self._too_short()
        canonical = record.canonical = canonicalise(lifted, record.protected)
        rules = RuleSet(self._rules, record.protected)
        self._tell("pricing")
        start = record.start = self._priced(canonical.graph, sizing)
        deadline = self._schedule.search_ends()
        record.reserved = self._schedule.deadline - deadline
        if isinstance(record.objective, Latency):
            record.objective.deadline = deadline
        result = record.result = self._search(start, rules, deadline)
        if result.stopped_by == "cancelled":
            return self.original("cancelled")
        if result.best.penalty:
            needed = f"{result.best.memory.peak:,} bytes"
            return self.original(f"no equal graph was found within the memory limit: the best needs {needed}")
        if not result.trace and not canonical.steps:
            return self.original(
                "no rule was found to lower the predicted cost before the budget ended"
                if result.stopped_by == "budget"
                else "no rule lowers the predicted cost"
            )
        return self._judged(start, result, directory)

    def _too_short(self) -> Result:
        left = max(self._schedule.left, 0.0)
        return self.original(
            f"the budget is too short, {left:.1f} s of it are left: {self._schedule.advice()}"
        )

    def _settled(self, directory: Path) -> Sizing:
        """The sizes of open dimensions at which the model is priced, checked and timed."""

        def opened() -> LoadedModel:
            self._loaded = self._loaded or self._opened(directory)
            return self._loaded

        deadline = time.monotonic() + _SETTLING_SHARE * self._schedule.left
        return settle_sizes(self._lifted, self._plan, self._given, opened, deadline)

    def _priced(self, graph: Graph, sizing: Sizing) -> GraphCost:
        lifted, options, objective = self._lifted, self._options, self._record.objective
        assert objective is not None, "what is minimised is known from the beginning"
        limit = None if options.memory_limit is None else MemoryLimit(options.memory_limit)
        sizes = Sizes(lifted.graph, sizing.assignment, Origin(lifted))
        start = GraphCost.of(graph, objective, sizes, limit=limit)
        if isinstance(objective, Latency):
            objective.measure_again()
            start = start.refreshed()
        return start

    def _search(self, start: GraphCost, rules: RuleSet, deadline: float) -> SearchResult:
        options = self._options
        self._search_ends = deadline
        limits = SearchLimits(
            deadline=deadline,
            alpha=options.alpha,
            max_candidates=options.max_candidates,
            patience=options.patience,
            seed=options.seed,
        )
        search = search_named(options.search)
        return search.run(start, rules, Watch(limits, self._cancel, self._forward))

    def _measure(self, sizing: Sizing, directory: Path) -> None:
        """Finds out how long the original takes to be opened and to be run, for the schedule."""
        loaded, self._loaded = self._loaded or self._opened(directory), None
        self._schedule.running = first_run(loaded, sizing.plan, self._given)
        if self._weight_bytes < _LARGE:
            self._loaded = loaded

    def _opened(self, directory: Path) -> LoadedModel:
        """The original, opened now; remembers how long that took."""
        if self._file is None:
            self._file = runnable_original(self._lifted, directory)
        began = time.monotonic()
        provider = self._target.provider if self._target.is_here else Provider.CPU
        loaded = LoadedModel(self._file, self._threads, provider=provider)
        self._schedule.loading = time.monotonic() - began
        return loaded

    def _judged(self, start: GraphCost, result: SearchResult, directory: Path) -> Result:
        record = self._record
        self._tell("check")
        if isinstance(record.objective, Latency):
            record.objective.deadline = math.inf
        court = record.court = self._convened(start, directory)
        if court is None:
            return self.original(refusal_of(self._options))
        self._tell("timing")
        verdict = record.verdict = self._decided(start, court, Variant(result.best, result.trace))
        if not verdict.accepted:
            verdict = record.verdict = self._second_opinion(start, court, verdict)
        if not verdict.accepted and record.canonical.steps and verdict.variant.trace:
            alone = court.decide(Variant(start, ()))
            if alone.equivalence is not None:
                verdict = record.verdict = alone
        if not verdict.accepted:
            return self.original(verdict.why)
        graph = verdict.variant.cost.graph
        return Result(graph, plan_of(graph), verdict.variant.trace, self._report(verdict, verdict.why))

    def _decided(self, start: GraphCost, court: Court, variant: Variant) -> Verdict:
        return decided(court, start.graph, variant, self._suspect, partial(self._searched_again, start))

    def _suspect(self, suspect: Suspect) -> None:
        """Tells of a rule that changed outputs, and uses it no more."""
        self._record.suspects += (suspect,)
        self._accuse(suspect)
        self._rules = tuple(rule for rule in self._rules if rule.rule_id != suspect.rule)

    def _searched_again(self, start: GraphCost, distrusted: Container[str] = ()) -> Variant | None:
        """What is found without some of the rules in a part of the time that is left."""
        left = self._schedule.left
        if left < _LEAST_SECONDS or not self._schedule.is_enough():
            return None
        self._tell("search")
        ends = min(self._schedule.search_ends(), time.monotonic() + 0.4 * left)
        rules = [rule for rule in self._rules if rule.rule_id not in distrusted]
        result = self._search(start, RuleSet(rules, self._record.protected), ends)
        if not result.trace:
            return None
        self._record.result = result
        return Variant(result.best, result.trace)

    def _second_opinion(self, start: GraphCost, court: Court, rejected: Verdict) -> Verdict:
        """Searches again without the rules whose predicted gain did not show, while time lasts.

        A rule that the cost model flatters takes the place of others: what is found without it may be faster.
        """
        distrusted: set[str] = set()
        for _ in range(_SECOND_OPINIONS):
            if not rejected.variant.rules or rejected.comparison is None:
                break
            distrusted.add(rejected.variant.rules[0])
            first = self._record.result
            found = self._searched_again(start, distrusted)
            if found is None:
                break
            verdict = self._decided(start, court, found)
            if verdict.accepted:
                return verdict
            self._record.result = first
            rejected = verdict
        return rejected

    def _convened(self, start: GraphCost, directory: Path) -> Court | None:
        lifted, options = self._lifted, self._options
        loaded, self._loaded = self._loaded or self._opened(directory), None
        assert self._file is not None, "what was opened"
        assert self._record.sizing is not None, "sizes are settled before anything is judged"
        until = self._schedule.deadline - self._schedule.timing
        sampling = Sampling(options.samples, options.seed, options.tolerance, self._given, until)
        reference = Reference(loaded, self._record.sizing.plan, sampling, lifted.source)
        first = reference.first()
        if first is None:
            return None
        self._record.misdeclared = misdeclared(loaded.outputs, first.outputs)
        began = time.monotonic()
        reference.repeated()
        running = time.monotonic() - began
        rules = self._rules
        is_large = self._weight_bytes >= _LARGE
        if is_large:
            reference.release()
            del loaded
        return Court(
            lifted=lifted,
            original=self._file,
            reference=reference,
            feeds=first.feeds,
            threads=self._threads,
            deadline=self._schedule.deadline,
            directory=directory,
            target=self._target,
            loading=self._schedule.loading,
            running=running,
            writing=self._schedule.writing,
            race=compare_latency_apart if is_large else compare_latency,
            minimal_ratio=minimal_ratio(start, options),
            rules=rules,
            without=lambda variant, dropped: Variant(
                *without_rules(start, variant.trace, rules, frozenset(dropped))
            ),
        )

    def _report(self, accepted: Verdict | None, why: str) -> Report:
        explaining = self._schedule.explaining()
        return self._record.report(accepted, why, None if self._cancel.is_cancelled else explaining)

    def _tell(self, phase: Phase) -> None:
        if self._progress is None:
            return
        start, result = self._record.start, self._record.result
        cost = math.nan if start is None else start.total
        best = cost if result is None else result.best.total
        candidates = 0 if result is None else result.candidates
        self._progress(Progress(phase, time.monotonic() - self._started, candidates, cost, best))

    def _forward(self, progress: Progress) -> None:
        if self._progress is not None:
            until = self._search_ends - self._started
            self._progress(replace(progress, seconds=time.monotonic() - self._started, until=until))
