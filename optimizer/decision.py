"""Which rewritten model comes back, if any: decided by running whole models, never by predicted costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import Executed, LiftedModel
from superopt.optimizer.check import Comparison, Equivalence, Reference, check_equivalence, compare_latency
from superopt.optimizer.check.interval import DOUBT
from superopt.optimizer.check.kernels import load_and_list
from superopt.optimizer.cost import HERE, GraphCost, Target
from superopt.optimizer.cost.runtime import Array, LoadedModel, ModelFile, Provider, RuntimeRefusedError
from superopt.optimizer.fusion import partition
from superopt.optimizer.runnable import runnable_rewrite
from superopt.optimizer.search import TraceStep
from superopt.rewriting import Substitution

_MAX_FAMILIES = 6
_NOTICEABLE = 1.004
"""A variant must certainly be faster than another by this factor to be preferred."""

_SHORT = 1.0
"""Seconds; what takes less is done whatever the time."""

_WHOLE_SHARE = 0.9
"""Of the time that is left, for timing what is undecided."""

_BUSY_SHARE = 0.8
"""A machine is loaded where a run takes less than this share of its time on a core."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A rewritten graph and the steps that lead to it."""

    cost: GraphCost
    trace: tuple[TraceStep, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules applied, in the order of what they gained by prediction."""
        gains: dict[str, float] = {}
        for step in self.trace:
            gains[step.rule] = gains.get(step.rule, 0.0) + step.cost_before - step.cost_after
        return tuple(sorted(gains, key=lambda rule: -gains[rule]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a variant. ``why`` says in a sentence what decided."""

    variant: Variant
    accepted: bool
    equivalence: Equivalence | None
    comparison: Comparison | None
    nodes: int
    why: str


@dataclass(frozen=True, slots=True)
class Ablation:
    """A rule left out of a variant on trial: timed with it and without it, each against the original."""

    rule: str
    present: Comparison
    absent: Comparison


class Race(Protocol):
    """Times two models against each other, as ``compare_latency`` does."""

    def __call__(
        self,
        before: ModelFile,
        after: ModelFile,
        feeds: Mapping[str, Array],
        *,
        threads: int,
        seconds: float,
        longest: float,
        doubt: float,
        provider: Provider,
    ) -> Comparison:
        """The comparison, in about so many seconds; where it is undecided then, in the ``longest`` time."""
        ...


@dataclass
class Court:
    """Judges variants of one model. ``minimal_ratio`` must be excluded from below by the interval.

    However many variants come before it, one that is not faster is accepted with probability ``DOUBT`` at
    most: each is asked for twice the certainty of the one before. ``loading`` and ``running`` are the seconds
    that a session of the original and its first run take, ``writing`` those of writing a rewritten model:
    nothing is begun that will not end in time. ``rules`` are those that variants are made by.
    """

    lifted: LiftedModel
    original: ModelFile
    reference: Reference
    feeds: Mapping[str, Array]
    threads: int
    deadline: float
    directory: Path
    target: Target = HERE
    loading: float = 0.0
    running: float = 0.0
    writing: float = 0.0
    minimal_ratio: float = 1.0
    race: Race = compare_latency
    rules: Sequence[Substitution] = ()
    without: Callable[[Variant, Sequence[str]], Variant] = field(default=lambda variant, _: variant)
    ablations: list[Ablation] = field(default_factory=list["Ablation"])
    verdicts: list[Verdict] = field(default_factory=list["Verdict"])
    _judgements: int = 0
    _executed: Executed | None = None

    @property
    def provider(self) -> Provider:
        """On what models are run here: an absent target's equality is checked on the processor."""
        return self.target.provider if self.target.is_here else Provider.CPU

    def decide(self, variant: Variant) -> Verdict:
        """Judges a variant; one with several rules is refined while time lasts."""
        started = time.monotonic()
        verdict = self._judge(variant, share=0.35 if len(variant.rules) > 1 else 0.6)
        if verdict.comparison is None or len(variant.rules) < 2:
            return verdict
        refined = self._refined(verdict, time.monotonic() - started)
        if refined is None:
            return verdict
        again = self._judge(refined, share=0.9)
        return again if _is_preferable(again, verdict) else verdict

    def _judge(self, variant: Variant, share: float) -> Verdict:
        """The verdict, remembered."""
        verdict = self._verdict(variant, share)
        self.verdicts.append(verdict)
        return verdict

    def _verdict(self, variant: Variant, share: float) -> Verdict:
        """Equality first, then speed, in a share of the time that is left."""

        def refused(why: str, equivalence: Equivalence | None = None, nodes: int = 0) -> Verdict:
            return Verdict(variant, False, equivalence, None, nodes, why)  # noqa: FBT003

        if not self._lasts(self.writing + self.loading + self.running):
            return refused("there was no time left to check the rewritten model")
        try:
            model, nodes, executes, equivalence = self._compared(variant.cost.graph)
        except (UnsupportedError, RuntimeRefusedError) as error:
            return refused(f"the rewritten model cannot be run: {error}")
        if not equivalence.passed:
            return refused(f"not equal: {equivalence.why}", equivalence, nodes)
        equal = "equal, on weak evidence as the outputs hardly vary" if equivalence.weak else "equal"
        if not self.target.is_here:
            why = f"{equal}; cheaper by the recorded costs of {self.target.name}, where it could not be timed"
            return Verdict(variant, True, equivalence, None, nodes, why)  # noqa: FBT003
        if not self._lasts(2 * self.loading + 4 * self.running):
            return refused(f"{equal}, but there was no time left to time it", equivalence, nodes)
        before = None if executes is None else self._originally_executed()
        if executes is not None and executes == before:
            why = f"{equal}, but ONNX Runtime executes the same {executes.count} kernels for both"
            accepted = self.minimal_ratio < 1.0
            return Verdict(variant, accepted, equivalence, None, nodes, why)
        reason = _difference(before, executes)
        if not variant.trace and not reason:
            return refused(
                f"{equal}, but no rule was applied, and ONNX Runtime is not known to execute anything else",
                equivalence,
                nodes,
            )
        self._judgements += 1
        try:
            comparison = self._compare(model, share, _WHOLE_SHARE, DOUBT / 2**self._judgements)
        except RuntimeRefusedError as error:
            return refused(f"{equal}, but cannot be timed: {error}", equivalence, nodes)
        accepted = comparison.low > self.minimal_ratio
        why = f"{equal}, {opinion(comparison)}" if not accepted else f"{equal}, and {_measured(comparison)}"
        if accepted and not variant.trace:
            why = f"{why}, without any rule: {reason}"
        return Verdict(variant, accepted, equivalence, comparison, nodes, why)

    def equivalence_of(self, graph: Graph) -> Equivalence | None:
        """Whether a rewritten graph is equal; None where it cannot be run, or no time is left for that."""
        if not self._lasts(self.writing + self.loading + self.running):
            return None
        try:
            return self._compared(graph)[3]
        except (UnsupportedError, RuntimeRefusedError):
            return None

    def _compared(self, graph: Graph) -> tuple[ModelFile, int, Executed | None, Equivalence]:
        """The model of a rewritten graph, its nodes, what the runtime executes of it, whether it is equal."""
        model, nodes = runnable_rewrite(self.lifted, graph, plan_of(graph), self.directory)
        loaded, executes = self._opened(model)
        return model, nodes, executes, check_equivalence(self.reference, loaded)

    def _lasts(self, seconds: float) -> bool:
        return time.monotonic() + seconds <= self.deadline or seconds < _SHORT

    def _opened(self, model: ModelFile) -> tuple[LoadedModel, Executed | None]:
        """A rewritten model, and what the runtime executes of it where finding that out takes little time."""
        if self.target.is_here and self.loading < _SHORT:
            return load_and_list(model, self.threads, self.provider, self.directory)
        return LoadedModel(model, self.threads, provider=self.provider), None

    def _originally_executed(self) -> Executed | None:
        if self._executed is None:
            _, self._executed = load_and_list(self.original, self.threads, self.provider, self.directory)
        return self._executed

    def _compare(
        self, model: ModelFile, share: float, longest: float = 0.0, doubt: float = DOUBT
    ) -> Comparison:
        """Times the original and another model in a share of the time that is left, or in the longest one."""
        left = max(0.0, self.deadline - time.monotonic())
        return self.race(
            self.original,
            model,
            self.feeds,
            threads=self.threads,
            seconds=share * left,
            longest=longest * left,
            doubt=doubt,
            provider=self.provider,
        )

    def _refined(self, verdict: Verdict, seconds: float) -> Variant | None:
        """Leaves out one rule after another where the whole model is faster without it.

        ``seconds`` is what judging took: time for judging the outcome is left.
        """
        assert verdict.comparison is not None
        best, fastest = verdict.variant, verdict.comparison
        spent = seconds
        for rule in verdict.variant.rules[::-1][:_MAX_FAMILIES]:
            started = time.monotonic()
            if self.deadline - started < 1.5 * (spent + seconds):
                break
            candidate = self.without(best, (rule,))
            if not candidate.trace or len(candidate.trace) == len(best.trace):
                continue
            try:
                model, _ = runnable_rewrite(
                    self.lifted, candidate.cost.graph, plan_of(candidate.cost.graph), self.directory
                )
                compared = self._compare(model, share=0.1)
            except (UnsupportedError, RuntimeRefusedError):
                continue
            self.ablations.append(Ablation(rule, fastest, compared))
            if compared.low > fastest.ratio * _NOTICEABLE:
                best, fastest = candidate, compared
            spent = time.monotonic() - started
        return best if best is not verdict.variant else None


def _measured(comparison: Comparison) -> str:
    return f"measured {comparison.ratio:.3f} ({comparison.low:.3f} to {comparison.high:.3f}) times as fast"


def opinion(comparison: Comparison) -> str:
    """Why a model is not accepted: it was not faster, or that could not be found out here and now."""
    measured = _measured(comparison)
    if not comparison.is_undecided:
        return f"but not certainly faster: {measured}"
    if comparison.share < _BUSY_SHARE:
        load, cores = os.getloadavg()[0], os.cpu_count()
        return (
            f"but undecided: the machine is too loaded (a run had a core for {comparison.share:.0%} of its "
            f"time; load average {load:.1f} on {cores} cores): {measured} in {comparison.rounds} rounds"
        )
    return f"but undecided: {measured} in {comparison.rounds} rounds; a longer budget allows for more"


def _difference(before: Executed | None, after: Executed | None) -> str:
    """What the runtime executes more or less often than before, in words; nothing where that is not known."""
    if before is None or after is None:
        return ""
    changed = [
        f"{after.kernels.get(name, 0)} {name.rpartition('.')[2]} for {before.kernels.get(name, 0)}"
        for name in sorted(before.kernels.keys() | after.kernels.keys())
        if before.kernels.get(name, 0) != after.kernels.get(name, 0)
    ]
    return f"ONNX Runtime executes {', '.join(changed)}" if changed else ""


def _is_preferable(refined: Verdict, whole: Verdict) -> bool:
    """Whether to take what refining gave: unless it failed, or is slower after all."""
    if not whole.accepted or not refined.accepted:
        return not whole.accepted or refined.accepted
    assert refined.comparison is not None
    assert whole.comparison is not None
    return refined.comparison.high > whole.comparison.ratio


def plan_of(graph: Graph) -> Plan:
    """The plan of a graph: the groups of nodes that the runtime may fuse."""
    groups = partition(graph, graph.weight_only)
    return Plan({group.head: group for group in groups.values() if len(group.members) > 1})
