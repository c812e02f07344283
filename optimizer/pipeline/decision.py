"""Select the model to return by measuring whole models, never by predicted costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph
from superopt.onnx_io import Executed, LoweredModel, lower
from superopt.optimizer.check import Comparison, Equivalence, Sizing, compare_latency, compare_latency_apart
from superopt.optimizer.check.inputs import SCALES
from superopt.optimizer.check.interval import DOUBT
from superopt.optimizer.cost import GraphCost, Target
from superopt.optimizer.cost.runtime.session import Array, ModelFile, RuntimeRefusedError
from superopt.optimizer.pipeline.judge import REFUSED, Equality
from superopt.optimizer.pipeline.reporting.sizes import SpeedUpAt
from superopt.optimizer.pipeline.selection import MEASURED_OBJECTIVES
from superopt.optimizer.pipeline.verdict import Ablation, PricedVariant, Verdict
from superopt.optimizer.pipeline.write import plan_of
from superopt.optimizer.search import Families

_MOST_FAMILIES = 3
_MOST_RULES = 6
"""Numbers of families of steps, and of rules, that are left out on trial."""

_TRIAL_SHARE = 0.1
"""Share of the remaining time for timing a variant with something left out."""

_DIVISOR = 4
"""Every open size is divided by this to see what a model gains at smaller ones."""

_ELSEWHERE_SECONDS = 1.5
_ELSEWHERE_SHARE = 0.4
"""The most seconds, and the share of the remaining time, for timing at smaller sizes, and beside the model
before its sizes were frozen."""

_NOTICEABLE = 1.004
"""Minimum certain speed-up over another variant to be preferred to it."""

_LEAST_RATIO = 0.99
"""Required speed-up of a model with less of what an objective counts that is not a time."""

_WHOLE_SHARE = 0.9
"""Share of the remaining time for timing undecided cases."""

_MOST_KERNELS = 5
"""Number of differences in executed kernels that a reason lists."""

_BUSY_SHARE = 0.8
"""The machine counts as loaded where a run gets less than this share of its time on a core."""


@dataclass
class Decision:
    """Judges variants of one model. The interval must exclude ratios up to ``minimal_ratio``. A variant that
    is not faster is accepted with probability ``DOUBT`` at most, however many variants are tried: each has
    half the error probability of the previous one. Nothing is started that cannot finish in time. ``without``
    removes rules from a variant, ``families`` divides its steps. ``smaller`` and ``given`` tell the gain at
    smaller sizes, and over the model before its sizes were frozen."""

    equality: Equality
    feeds: Mapping[str, Array]
    target: Target
    minimal_ratio: float
    without: Callable[[PricedVariant, Sequence[str]], PricedVariant]
    families: Callable[[PricedVariant], Families]
    verdicts: list[Verdict[PricedVariant]]
    ablations: list[Ablation] = field(default_factory=list["Ablation"])
    smaller: SpeedUpAt | None = None
    given: SpeedUpAt | None = None
    _judgements: int = 0
    _executed: Executed | None = None

    def __post_init__(self) -> None:
        self._original = self.equality.original
        self._schedule = self._original.prepared.request.schedule

    def decide(self, variant: PricedVariant) -> Verdict[PricedVariant]:
        """Judges a variant; one with several steps is refined while time allows."""
        started = time.monotonic()
        verdict = self._judge(variant, share=0.35 if len(variant.trace) > 1 else 0.6)
        if verdict.comparison is None or len(variant.trace) < 2:
            return verdict
        refined = self._refined(verdict, time.monotonic() - started)
        if refined is None:
            return verdict
        again = self._judge(*refined, share=0.9)
        return again if _is_preferable(again, verdict) else verdict

    def _judge(
        self, variant: PricedVariant, model: LoweredModel | None = None, *, share: float
    ) -> Verdict[PricedVariant]:
        """The cached or new verdict; ``model`` is the variant's, if already lowered."""
        verdict = self._verdict(variant, model, share)
        self.verdicts.append(verdict)
        return verdict

    def _verdict(
        self, variant: PricedVariant, model: LoweredModel | None, share: float
    ) -> Verdict[PricedVariant]:
        """Checks equivalence first, then speed, within a share of the remaining time."""

        def refused(
            why: str, equivalence: Equivalence | None = None, comparison: Comparison | None = None
        ) -> Verdict[PricedVariant]:
            return Verdict(variant, False, why, None, equivalence, comparison)  # noqa: FBT003

        if self.minimal_ratio < 1.0 and variant.cost.total >= variant.start.total:
            return refused("the objective is not lower")
        if not self._schedule.allows_check():
            return refused("no time was left to check the rewritten model")
        compared = self.equality.compare(lambda: model or self._lowered(variant.graph))
        equal, equivalence, executes = compared.why, compared.equivalence, compared.executes
        if not compared.is_equal:
            return refused(equal, equivalence)
        if not self.target.is_here:
            why = f"{equal}; cheaper by the recorded costs of {self.target.name}, where it could not be timed"
            return Verdict(variant, True, why, compared.model, equivalence)  # noqa: FBT003
        if not self._schedule.allows_timing():
            return refused(f"{equal}, but no time was left to time it", equivalence)
        before = None if executes is None else self._originally_executed()
        if executes is not None and executes == before:
            several = f"{executes.count} kernels" if executes.count > 1 else "kernel"
            why = f"{equal}, but ONNX Runtime executes the same {several} for both"
            return Verdict(variant, self.minimal_ratio < 1.0, why, compared.model, equivalence)
        reason = executed_difference(before, executes)
        prepared = self._original.prepared.request.lifted.source.prepared
        if not variant.trace and not reason and not prepared:
            why = "but no rule was applied, and ONNX Runtime is not known to execute anything else"
            return refused(f"{equal}, {why}", equivalence)
        self._judgements += 1
        try:
            file = self._original.judged_to_time(compared.file, compared.lowered, "rewritten")
            comparison = self._compare(file, share, _WHOLE_SHARE, DOUBT / 2**self._judgements)
        except RuntimeRefusedError as error:
            return refused(f"{equal}, but cannot be timed: {error}", equivalence)
        if comparison.low <= self.minimal_ratio:
            why = f"{equal}, {rejection_reason(comparison, self.minimal_ratio)}"
            return refused(why, equivalence, comparison)
        why = f"{equal}, and {_measured(comparison)}"
        if not variant.trace and reason:
            how = "by what was rewritten before the search" if prepared else "without any rule"
            why = f"{why}, {how}: {reason}"
        return Verdict(variant, True, why, compared.model, equivalence, comparison)  # noqa: FBT003

    def _lowered(self, graph: Graph) -> LoweredModel:
        return lower(self._original.prepared.request.lifted, graph, plan_of(graph))

    def _originally_executed(self) -> Executed | None:
        if self._executed is None:
            self._executed = self.equality.opened(self._original.file)[1]
        return self._executed

    def _compare(
        self, model: ModelFile, share: float, longest: float = 0.0, doubt: float = DOUBT
    ) -> Comparison:
        """Times the original and another model in a share of the remaining time, or in the longest one."""
        return self._compared(self._original.timed_file, model, share, longest, doubt)

    def compare_elsewhere(self, verdict: Verdict[PricedVariant], sizing: Sizing) -> None:
        """Times the accepted model at smaller sizes; if sizes were frozen, what is returned beside the model
        as it was given."""
        if verdict.model is not None and verdict.comparison is not None:
            self.smaller = self._at_smaller_sizes(verdict.model, sizing)
        self.given = self._beside_given(verdict.model)

    def _at_smaller_sizes(self, model: LoweredModel, sizing: Sizing) -> SpeedUpAt | None:
        """The speed-up of a model at a quarter of the sizes of open dimensions; None if these are as small as
        can be, the model does not run at smaller ones, or no time is left."""
        smaller = {name: max(1, size // _DIVISOR) for name, size in sizing.sizes.items()}
        if smaller == sizing.sizes:
            return None
        return self._speed_up_at(
            smaller,
            lambda: self._original.timed_file,
            lambda: self._original.to_time(model, "smaller"),
            lambda: sizing.plan.draw(np.random.default_rng(0), smaller, SCALES[0]),
        )

    def _beside_given(self, model: LoweredModel | None) -> SpeedUpAt | None:
        """The speed-up over the model with open sizes; None if no sizes were frozen, the model was changed in
        other ways, too, or no time is left."""
        source, original = self._original.prepared.request.lifted.source, self._original
        if not source.frozen or source.adapted:
            return None
        return self._speed_up_at(
            source.frozen,
            lambda: original.to_time(LoweredModel.of_derived(source.received), "given"),
            lambda: original.timed_file if model is None else original.to_time(model, "frozen"),
            lambda: self.feeds,
        )

    def _speed_up_at(
        self,
        sizes: Mapping[str, int],
        before: Callable[[], ModelFile],
        after: Callable[[], ModelFile],
        feeds: Callable[[], Mapping[str, Array]],
    ) -> SpeedUpAt | None:
        schedule = self._schedule
        seconds = min(_ELSEWHERE_SECONDS, _ELSEWHERE_SHARE * schedule.left)
        if self._original.is_large or 4 * schedule.running > seconds:
            return None
        try:
            share = seconds / schedule.left
            compared = self._compared(before(), after(), share, feeds=feeds())
        except (RuntimeRefusedError, UnsupportedError):
            return None
        return SpeedUpAt(sizes, compared.ratio, compared.low, compared.high)

    def _compared(
        self,
        before: ModelFile,
        after: ModelFile,
        share: float,
        longest: float = 0.0,
        doubt: float = DOUBT,
        feeds: Mapping[str, Array] | None = None,
    ) -> Comparison:
        request = self._original.prepared.request
        request.heeds_interrupt()
        left, original = max(0.0, self._schedule.left), self._original
        compare = compare_latency_apart if original.is_large else compare_latency
        return compare(
            before,
            after,
            self.feeds if feeds is None else feeds,
            threads=request.threads,
            seconds=share * left,
            longest=longest * left,
            doubt=doubt,
            provider=original.provider,
            is_cut_short=lambda: request.cancel.is_interrupted,
        )

    def _refined(
        self, verdict: Verdict[PricedVariant], seconds: float
    ) -> tuple[PricedVariant, LoweredModel] | None:
        """Removes families of steps and rules one at a time where the whole model is faster without them.
        ``seconds`` is how long judging took, which is reserved for judging the result."""
        assert verdict.comparison is not None
        best, fastest = verdict.variant, verdict.comparison
        model: LoweredModel | None = None
        certain = self._without_doubtful(best, seconds)
        if certain is not None:
            best, model = certain
            fastest = self._compare(self._original.to_time(model, "rewritten"), _TRIAL_SHARE)
        spent = seconds
        for rule in verdict.variant.rules[::-1][:_MOST_RULES]:
            started = time.monotonic()
            if not self._allows(spent + seconds):
                break
            candidate = self.without(best, (rule,))
            if not candidate.trace or len(candidate.trace) == len(best.trace):
                continue
            try:
                lowered = self._lowered(candidate.graph)
                compared = self._compare(self._original.to_time(lowered, "rewritten"), _TRIAL_SHARE)
            except REFUSED:
                continue
            self.ablations.append(Ablation(rule, fastest, compared))
            if compared.low > fastest.ratio * _NOTICEABLE:
                best, model, fastest = candidate, lowered, compared
            spent = time.monotonic() - started
        return None if model is None else (best, model)

    def _without_doubtful(
        self, whole: PricedVariant, seconds: float
    ) -> tuple[PricedVariant, LoweredModel] | None:
        """The variant without those families of steps, of the ones with the largest risk, without which the
        whole model is faster; None where there are none."""
        if not self._allows(seconds):
            return None
        families = self.families(whole)
        doubtful = families.doubtful()[:_MOST_FAMILIES]
        if not doubtful:
            return None
        file = self._original.to_time(self._lowered(whole.graph), "trial")
        removed, spent = frozenset[int](), 0.0
        best: tuple[PricedVariant, LoweredModel] | None = None
        for family in doubtful:
            started = time.monotonic()
            if not self._allows(spent + seconds):
                break
            steps = removed.union(family.steps)
            left = families.without(steps)
            if not left.trace:
                continue
            candidate = replace(whole, graph=left.cost.graph, trace=left.trace, cost=left.cost)
            try:
                lowered = self._lowered(candidate.graph)
                without = self._original.to_time(lowered, f"trial{len(steps)}")
                compared = self._compared(file, without, _TRIAL_SHARE)
            except REFUSED:
                continue
            if compared.low > _NOTICEABLE:
                best, file, removed = (candidate, lowered), without, steps
            spent = time.monotonic() - started
        return best

    def _allows(self, seconds: float) -> bool:
        """Whether that much time is left, and half of it to spare."""
        is_interrupted = self._original.prepared.request.heeds_interrupt()
        return not is_interrupted and self._schedule.left >= 1.5 * seconds


def _measured(comparison: Comparison) -> str:
    return f"measured {comparison.ratio:.3f} ({comparison.low:.3f} to {comparison.high:.3f}) times as fast"


def minimal_ratio_of(start: GraphCost, objective: str) -> float:
    """The required speed-up of a rewritten model: none if the original exceeds the memory limit."""
    if start.penalty:
        return 0.0
    return 1.0 if objective in MEASURED_OBJECTIVES else _LEAST_RATIO


def rejection_reason(comparison: Comparison, minimal_ratio: float = 1.0) -> str:
    """Why a model is not accepted: its interval does not exclude ratios up to the minimal one, or the
    measurement was inconclusive."""
    measured = _measured(comparison)
    if not comparison.is_undecided:
        if minimal_ratio == 1.0:
            return f"but not certainly faster: {measured}"
        return f"but perhaps slower by more than the {1 - minimal_ratio:.0%} that are allowed: {measured}"
    rounds = "1 round" if comparison.rounds == 1 else f"{comparison.rounds} rounds"
    if comparison.share < _BUSY_SHARE:
        load, cores = os.getloadavg()[0], os.cpu_count()
        return (
            f"but undecided: the machine is too loaded (runs had a core for {comparison.share:.0%} of their "
            f"time; load average {load:.1f} on {cores} cores): {measured} in {rounds}"
        )
    return f"but undecided: {measured} in {rounds}; a longer budget allows for more"


def executed_difference(before: Executed | None, after: Executed | None) -> str:
    """Kernels that the runtime executes more or less often than before, as text, those with the largest
    difference first; empty if unknown."""
    if before is None or after is None:
        return ""
    counts = [
        (after.kernels.get(name, 0), name.removeprefix("com.microsoft."), before.kernels.get(name, 0))
        for name in sorted(before.kernels.keys() | after.kernels.keys())
    ]
    changed = sorted((count for count in counts if count[0] != count[2]), key=lambda c: -abs(c[0] - c[2]))
    shown = [f"{now} {name} for {then}" for now, name, then in changed[:_MOST_KERNELS]]
    if len(changed) > _MOST_KERNELS:
        shown.append(f"and {len(changed) - _MOST_KERNELS} more kinds of kernel in other numbers")
    return f"ONNX Runtime executes {', '.join(shown)}" if shown else ""


def _is_preferable(refined: Verdict[PricedVariant], whole: Verdict[PricedVariant]) -> bool:
    """Whether to accept the refined variant: unless it failed or is slower."""
    if not whole.accepted or not refined.accepted:
        return not whole.accepted or refined.accepted
    assert refined.comparison is not None
    assert whole.comparison is not None
    return refined.comparison.high > whole.comparison.ratio
