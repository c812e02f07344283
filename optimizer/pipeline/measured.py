"""Judge for a local device: checks and times whole models, ordered by predicted cost."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from superopt.optimizer.check import Sizing, settle_sizes
from superopt.optimizer.cost import (
    HERE,
    CostStore,
    GraphCost,
    Latency,
    MemoryLimit,
    Objective,
    Origin,
    Sizes,
    Target,
    device_name,
    objective_of,
)
from superopt.optimizer.cost.runtime.ports import misdeclared
from superopt.optimizer.cost.runtime.session import Provider
from superopt.optimizer.explanation import Explanation, Findings, explain
from superopt.optimizer.memory.subject import peaks
from superopt.optimizer.pipeline.decision import Decision, minimal_ratio_of
from superopt.optimizer.pipeline.judge import Equality, NotRunError, Trial, UnchangedError
from superopt.optimizer.pipeline.original import Original
from superopt.optimizer.pipeline.prepare import Prepared, refusal_of
from superopt.optimizer.pipeline.reporting.report import CostSummary, MemorySummary, Report, SearchSummary
from superopt.optimizer.pipeline.reporting.sizes import SizesSummary
from superopt.optimizer.pipeline.schedule import SearchTime
from superopt.optimizer.pipeline.second_look import at_second_look
from superopt.optimizer.pipeline.verdict import PricedVariant, Verdict, most_promising
from superopt.optimizer.search import (
    Families,
    Phase,
    Progress,
    SearchLimits,
    SearchResult,
    Shortened,
    Watch,
    error_of,
    minimised,
    more_accurate,
    search_named,
    with_smaller_errors,
    without_rules,
)
from superopt.rewriting import Substitution

_LOG = logging.getLogger(__name__)

_SECOND_OPINIONS = 3
_LEAST_SECONDS = 5.0
"""Minimum seconds for starting a search and its judgement."""

_QUICK = 1.0
"""Seconds; for models that load faster, the kernels that the runtime executes are listed."""

_PRICING_SHARE = 0.5
_SETTLING_SHARE = 0.2
"""Share of the remaining time after which no other sizes are tried."""

_SECOND_LOOK_SHARE = 0.05
"""Share of the time of a search for its result: prices that decided it are measured again, and steps without
gain removed."""


@dataclass(frozen=True)
class Measured:
    """Runs both models and returns the faster one; for a remote device recorded costs decide."""

    costs: CostStore
    target: Target = HERE

    @property
    def device(self) -> str:
        """The name of the device."""
        return device_name(self.target.provider) if self.target.is_here else self.target.name

    def begin(self, prepared: Prepared) -> MeasuredTrial:
        """Starts a trial. Raises InvalidOptionError, and MissingServiceError for a missing device."""
        request = prepared.request
        ends = request.started + _PRICING_SHARE * request.options.budget
        objective = objective_of(request.options.objective, self.costs, request.threads, self.target, ends)
        return MeasuredTrial(prepared, self.target, objective)


class MeasuredTrial(Trial[PricedVariant]):
    """One optimization for one device; fields are None until known. ``rules`` are the usable rules that are
    not suspect; ``reserved`` is the number of seconds kept for judging."""

    def __init__(self, prepared: Prepared, target: Target, objective: Objective) -> None:
        super().__init__(prepared, target.provider if target.is_here else Provider.CPU)
        self._target = target
        self._objective = objective
        self._rules: tuple[Substitution, ...] = tuple(prepared.usable)
        self._sizing: Sizing | None = None
        self._start: GraphCost | None = None
        self._result: SearchResult | None = None
        self._reserved = 0.0
        self._decision: Decision | None = None
        self._misdeclared: tuple[str, ...] = ()
        if isinstance(objective, Latency):
            objective.is_cut_short = lambda: self._request.cancel.is_interrupted

    @property
    def assignment(self) -> Mapping[str, int]:
        """The size of every symbol that is known."""
        return super().assignment if self._sizing is None else self._sizing.assignment

    def _search(self, original: Original) -> PricedVariant:
        """Determines sizes, prices, searches; raises UnchangedError where the budget is too short,
        NotRunError where the original does not run."""
        prepared, schedule = self._prepared, self._schedule
        if prepared.inputs.unsupported:
            raise NotRunError(prepared.inputs.unsupported)
        self._require_time()
        ends = time.monotonic() + _SETTLING_SHARE * schedule.left
        lifted = self._request.lifted
        sizing = settle_sizes(lifted, prepared.inputs, prepared.given, original.opened, ends)
        self._sizing = sizing
        if sizing.runs is False:
            raise NotRunError(refusal_of(self._request.options, sizing.guessed, sizing.refused))
        schedule.running = original.first_run(sizing.plan)
        if original.is_large:
            original.release()
        self._require_time()
        self._request.tell("pricing")
        start = self._start = self._priced(sizing)
        searching = schedule.search_time(look=_SECOND_LOOK_SHARE)
        self._measure_until(searching.latest)
        self._start, self._result = self._searched(start, searching)
        self._reserved = schedule.deadline - searching.ends
        if original.is_large:
            self._start.kernels.clear()
        self._request.heeds_interrupt()
        return self._variant(self._start, self._result)

    def _refusal(self, variant: PricedVariant) -> str:
        if variant.cost.penalty:
            needed = f"{variant.cost.memory.peak:,} bytes"
            return f"no equal graph was found within the memory limit: the best needs {needed}"
        if variant.trace or variant.canonical:
            return ""
        fixed = self._request.lifted.source.fixed_reason
        if fixed is not None:
            return f"{fixed}, so it cannot be rewritten"
        if not self._rules:
            return "none of the proved rules can be used"
        stopped_by = None if self._result is None else self._result.stopped_by
        if stopped_by == "budget":
            return "no rule was found to lower the predicted cost before the budget ended"
        if stopped_by == "interrupted":
            return "no rule was found to lower the predicted cost before the search was interrupted"
        return "no rule lowers the predicted cost"

    def _decide(self, original: Original, variant: PricedVariant) -> Verdict[PricedVariant]:
        """Tries the best variant, then the results of searches without its rules, then the canonical
        graph."""
        self._tell("check")
        self._measure_until(math.inf)
        decision = self._decision = self._decision_on(original, variant.start)
        self._tell("timing")
        self._request.heeds_interrupt()
        verdict = self._with_smaller_errors(self._judged(variant))
        if not verdict.accepted:
            verdict = self._second_opinion(verdict)
        if not verdict.accepted and variant.canonical and verdict.variant.trace:
            verdict = decision.decide(variant.with_steps(variant.start, ()))
        if self._sizing is not None:
            decision.compare_elsewhere(verdict, self._sizing)
        return verdict

    def _judge(self, variant: PricedVariant) -> Verdict[PricedVariant]:
        assert self._decision is not None, "the original was run"
        return self._decision.decide(variant)

    def _without(self, variant: PricedVariant, rule: str) -> PricedVariant | None:
        self._rules = tuple(known for known in self._rules if known.rule_id != rule)
        rest = self._left(variant, (rule,))
        return rest if rest.trace else self._searched_again(variant.start)

    def _left(self, variant: PricedVariant, dropped: Sequence[str]) -> PricedVariant:
        rules = self._prepared.usable
        return variant.with_steps(*without_rules(variant.start, variant.trace, rules, frozenset(dropped)))

    def _families(self, variant: PricedVariant) -> Families:
        return Families(variant.start, variant.shortened, self._prepared.usable)

    def _require_time(self) -> None:
        if not self._schedule.is_enough():
            left = max(self._schedule.left, 0.0)
            raise UnchangedError(f"the budget is too short, {left:.1f} s are left: {self._schedule.advice()}")

    def _priced(self, sizing: Sizing) -> GraphCost:
        lifted, objective, most = self._request.lifted, self._objective, self._request.options.memory_limit
        limit = None if most is None else MemoryLimit(most)
        sizes = Sizes(lifted.graph, sizing.assignment, Origin(lifted))
        start = GraphCost.of(self._prepared.canonical.graph, objective, sizes, limit=limit)
        if isinstance(objective, Latency):
            objective.measure_again()
            objective.check_stored(group.kernel for group in start.groups)
            start = start.refreshed()
        return start

    def _measure_until(self, deadline: float) -> None:
        if isinstance(self._objective, Latency):
            self._objective.deadline = deadline

    def _searched(
        self, start: GraphCost, searching: SearchTime, distrusted: Container[str] = ()
    ) -> tuple[GraphCost, SearchResult]:
        """The initial graph and the result of a search without some of the rules, both at present
        prices: those that decided were measured again."""
        request, options = self._request, self._request.options

        def forward(progress: Progress) -> None:
            searching.found(progress.cost_before, progress.best_cost)
            if request.progress is not None:
                until = searching.ends - request.started
                request.progress(replace(progress, seconds=request.seconds, until=until))

        def is_in_time() -> bool:
            return time.monotonic() < searching.ends and not request.cancel.is_interrupted

        limits = SearchLimits(
            deadline=searching.latest,
            alpha=options.alpha,
            max_candidates=options.max_candidates,
            patience=options.patience,
            seed=options.seed,
        )
        rules = [rule for rule in self._rules if rule.rule_id not in distrusted]
        watch = Watch(limits, request.cancel, forward, is_over=lambda: searching.is_over)
        result = search_named(options.search).run(start, self._prepared.rule_set(rules), watch)
        found = Shortened(result.best, result.trace)
        start, priced = at_second_look(start, found, rules, is_in_time)
        if priced is found and result.stopped_by == "budget":
            priced = minimised(start, found, rules, is_in_time)
        chosen = more_accurate(start, priced, rules, is_in_time)
        return start, replace(result, best=chosen.cost, trace=chosen.trace)

    def _variant(self, start: GraphCost, result: SearchResult) -> PricedVariant:
        steps = self._prepared.canonical.steps
        return PricedVariant(result.best.graph, steps, result.trace, result.best, start)

    def _searched_again(self, start: GraphCost, distrusted: Container[str] = ()) -> PricedVariant | None:
        """Search result without some of the rules, in a part of the remaining time."""
        left = self._schedule.left
        if self._request.heeds_interrupt() or left < _LEAST_SECONDS or not self._schedule.is_enough():
            return None
        self._tell("search")
        searching = self._schedule.search_time(share=0.4, look=_SECOND_LOOK_SHARE)
        start, result = self._searched(start, searching, distrusted)
        if not result.trace:
            return None
        self._result = result
        return self._variant(start, result)

    def _with_smaller_errors(self, rejected: Verdict[PricedVariant]) -> Verdict[PricedVariant]:
        """As long as outputs are not equal, does without the less accurate half of the rules that round more:
        more accurate ones take their places, or another search finds some."""
        while rejected.equivalence is not None and not rejected.equivalence.passed:
            variant = rejected.variant
            applied = [rule for rule in self._rules if rule.rule_id in variant.rules and error_of(rule) > 1]
            if not applied or self._request.heeds_interrupt():
                break
            limit = sorted(map(error_of, applied))[len(applied) // 2]
            found = self._replaced(variant, limit)
            self._rules = tuple(rule for rule in self._rules if error_of(rule) < limit)
            dropped = [rule.rule_id for rule in applied if error_of(rule) >= limit]
            found = found or self._searched_again(variant.start) or self._left(variant, dropped)
            if not found.trace:
                break
            rejected = self._judged(found)
        return rejected

    def _replaced(self, variant: PricedVariant, limit: float) -> PricedVariant | None:
        """The variant with rules of smaller rounding errors in the same places; None without any gain."""
        start, may_go_on = variant.start, self._schedule.allows_check
        better = with_smaller_errors(start, variant.shortened, self._rules, limit, may_go_on)
        return None if better is None else variant.with_steps(better.cost, better.trace)

    def _second_opinion(self, rejected: Verdict[PricedVariant]) -> Verdict[PricedVariant]:
        """Searches again without the rules whose predicted gain was not confirmed, while time allows. A rule
        that the cost model overestimates displaces others: the result without it may be faster."""
        distrusted: set[str] = set()
        for _ in range(_SECOND_OPINIONS):
            if not rejected.variant.rules or rejected.comparison is None:
                break
            distrusted.add(rejected.variant.rules[0])
            first = self._result
            found = self._searched_again(rejected.variant.start, distrusted)
            if found is None:
                break
            verdict = self._judged(found)
            if verdict.accepted:
                return verdict
            self._result = first
            rejected = verdict
        return rejected

    def _decision_on(self, original: Original, start: GraphCost) -> Decision:
        """Return the decision procedure, created after a first run of the original."""
        request, schedule = self._request, self._schedule
        assert self._sizing is not None, "sizes are settled before anything is judged"
        reference = original.reference(self._sizing.plan, schedule.deadline - schedule.timing)
        first = reference.first()
        if first is None:
            raise NotRunError(refusal_of(request.options))
        self._misdeclared = misdeclared(reference.outputs, first.outputs)
        began = time.monotonic()
        reference.repeated()
        schedule.running = max(schedule.running, time.monotonic() - began)
        original.release()
        if original.is_large:
            reference.release()
        lists_kernels = self._target.is_here and schedule.loading < _QUICK
        self._equality = Equality(original, reference, lists_kernels)
        least = minimal_ratio_of(start, request.options.objective)
        return Decision(
            self._equality, first.feeds, self._target, least, self._left, self._families, self.verdicts
        )

    def _tell(self, phase: Phase) -> None:
        start, result = self._start, self._result
        cost = math.nan if start is None else start.total
        best = cost if result is None else result.best.total
        self._request.tell(phase, 0 if result is None else result.candidates, cost, best)

    def account(self, report: Report) -> Report:
        """The report with prices, sizes, memory and the explanation."""
        result, objective = self._result, self._objective
        verdict = None if report.returned == "original" else self.accepted
        accepted = None if verdict is None else verdict.variant
        start = self._start if accepted is None else accepted.start
        before = 0.0 if start is None else start.total - start.penalty
        after = before if accepted is None else accepted.cost.total
        sizes = self._sizes()
        report = replace(
            report,
            model=replace(
                report.model, warnings=tuple(dict.fromkeys((*report.model.warnings, *self._misdeclared)))
            ),
            cost=CostSummary(objective.unit, objective.source, before, after),
            sizes=sizes,
            why=report.why if accepted is None else sizes.qualified(report.why),
            explanation=self._explanation(accepted),
        )
        if result is not None:
            strategy = self._request.options.search
            report = replace(
                report,
                rules=replace(report.rules, matched=len(result.matched)),
                search=SearchSummary.of(strategy, result, self._reserved),
            )
        if start is None:
            return report
        end = start if accepted is None else accepted.cost
        peak, new_peak = peaks(self._request.lifted.source, (start, end))
        memory = MemorySummary(peak, new_peak, self._request.options.memory_limit)
        return replace(report, memory=memory)

    def _sizes(self) -> SizesSummary:
        """The sizes of open dimensions that were used, as given by the arrays that models received."""
        sizing, decision, judged = self._sizing, self._decision, self.described
        if sizing is None or self._start is None:
            return SizesSummary()
        equivalence = None if judged is None else judged.equivalence
        is_timed = decision is not None and judged is not None and judged.comparison is not None
        timed = sizing.plan.sizes_of(decision.feeds) if decision is not None and is_timed else None
        apart = tuple(sorted(self._request.lifted.source.apart))
        checked = () if equivalence is None else equivalence.sizes
        smaller = None if decision is None or self.accepted is None else decision.smaller
        given = None if decision is None else decision.given
        return SizesSummary(sizing.sizes, checked, timed, sizing.guessed, apart, smaller, given)

    def _explanation(self, chosen: PricedVariant | None) -> Explanation | None:
        """None where nothing was priced, the job was cancelled, or the explanation fails: it must not affect
        the model."""
        if self._start is None or self._request.cancel.is_cancelled:
            return None
        ablations = () if self._decision is None else self._decision.ablations
        judged = tuple(verdict.variant for verdict in self.verdicts)
        with_rules = [verdict for verdict in self.verdicts if verdict.variant.trace]
        tried = most_promising(with_rules).variant if with_rules and chosen is None else None
        was_cut_short = self._result is None or self._result.stopped_by != "exhausted"
        start = self._start if chosen is None else chosen.start
        findings = Findings(self._prepared, start, chosen, tried, ablations, judged, was_cut_short)
        try:
            return explain(findings, self._schedule.explaining())
        except Exception:  # noqa: BLE001 - logged, and the outcome goes out without its explanation
            _LOG.exception("explaining %s failed", self._request.lifted.source.name)
            return None
