"""Which rewritten model comes back, if any: decided by running whole models, never by predicted costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from optimizer.check import Comparison, Equivalence, Reference, check_equivalence, compare_latency
from optimizer.cost import GraphCost
from optimizer.cost.runtime import Array, LoadedModel, ModelFile, RuntimeRefusedError
from optimizer.fusion import partition
from optimizer.runnable import runnable_rewrite
from optimizer.search import TraceStep
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel

_MAX_FAMILIES = 6
_NOTICEABLE = 1.004
"""A variant must certainly be faster than another by this factor to be preferred."""


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


@dataclass
class Court:
    """Judges variants of one model. ``minimal_ratio`` must be excluded from below by the interval."""

    lifted: LiftedModel
    original: ModelFile
    reference: Reference
    feeds: Mapping[str, Array]
    threads: int
    deadline: float
    directory: Path
    minimal_ratio: float = 1.0
    without: Callable[[Variant, Sequence[str]], Variant] = field(default=lambda variant, _: variant)

    def decide(self, variant: Variant) -> Verdict:
        """Judges a variant; one with several rules is refined while time lasts."""
        started = time.monotonic()
        verdict = self._judge(variant, share=0.35)
        if verdict.comparison is None or len(variant.rules) < 2:
            return verdict
        refined = self._refined(verdict, time.monotonic() - started)
        if refined is None:
            return verdict
        again = self._judge(refined, share=0.9)
        return again if again.accepted or not verdict.accepted else verdict

    def _judge(self, variant: Variant, share: float) -> Verdict:
        """Equality first, then speed, in a share of the time that is left."""
        try:
            model, nodes = runnable_rewrite(
                self.lifted, variant.cost.graph, plan_of(variant.cost.graph), self.directory
            )
            equivalence = self._equivalence(model)
        except (UnsupportedError, RuntimeRefusedError) as error:
            return Verdict(variant, False, None, None, 0, f"the rewritten model cannot be run: {error}")  # noqa: FBT003
        if not equivalence.passed:
            return Verdict(variant, False, equivalence, None, nodes, f"not equal: {equivalence.why}")  # noqa: FBT003
        try:
            comparison = self._compare(model, share)
        except RuntimeRefusedError as error:
            return Verdict(variant, False, equivalence, None, nodes, f"equal, but cannot be timed: {error}")  # noqa: FBT003
        ratio = f"{comparison.ratio:.3f} ({comparison.low:.3f} to {comparison.high:.3f})"
        if comparison.low > self.minimal_ratio:
            why = f"equal, and measured {ratio} times as fast"
            return Verdict(variant, True, equivalence, comparison, nodes, why)  # noqa: FBT003
        why = f"equal, but not certainly faster: measured {ratio} times as fast"
        return Verdict(variant, False, equivalence, comparison, nodes, why)  # noqa: FBT003

    def _equivalence(self, model: ModelFile) -> Equivalence:
        return check_equivalence(self.reference, LoadedModel(model, self.threads))

    def _compare(self, model: ModelFile, share: float) -> Comparison:
        seconds = max(0.0, share * (self.deadline - time.monotonic()))
        return compare_latency(self.original, model, self.feeds, threads=self.threads, seconds=seconds)

    def _refined(self, verdict: Verdict, seconds: float) -> Variant | None:
        """Leaves out one rule after another where the whole model is faster without it.

        ``seconds`` is what judging took: time for judging the outcome is left.
        """
        assert verdict.comparison is not None
        best, best_ratio = verdict.variant, verdict.comparison.ratio
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
            if compared.low > best_ratio * _NOTICEABLE:
                best, best_ratio = candidate, compared.ratio
            spent = time.monotonic() - started
        return best if best is not verdict.variant else None


def plan_of(graph: Graph) -> Plan:
    """The plan of a graph: the groups of nodes that the runtime may fuse."""
    groups = partition(graph, graph.weight_only)
    return Plan({group.head: group for group in groups.values() if len(group.members) > 1})
