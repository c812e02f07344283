"""What is known of an optimization so far, and the report of it, whenever it ends."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from superopt.ir.graph import NodeId
from superopt.onnx_io import LiftedModel
from superopt.optimizer.blame import Suspect
from superopt.optimizer.canonical import Canonical
from superopt.optimizer.check import Sizing
from superopt.optimizer.cost import GraphCost, Objective, Target, device_name
from superopt.optimizer.decision import Court, Verdict, plan_of
from superopt.optimizer.explanation import Explanation, Findings, explain
from superopt.optimizer.rejection import rejections
from superopt.optimizer.report import (
    CostSummary,
    EquivalenceSummary,
    Measured,
    MemorySummary,
    ModelSummary,
    OpaqueNode,
    Report,
    RuleCounts,
    SearchSummary,
    SizesSummary,
)
from superopt.optimizer.search import SearchResult
from superopt.options import Options
from superopt.rewriting import Substitution

_LOG = logging.getLogger(__name__)

BYTE_FOR_BYTE = "the original is returned, byte for byte"


@dataclass(eq=False)
class Record:
    """One optimization: ``offered`` are all rules, ``usable`` those that may be used; None is not known yet.

    ``verdict`` is the last one, whatever it says; ``reserved`` seconds were kept for coming to one.
    ``misdeclared`` are outputs that are not as declared.
    """

    lifted: LiftedModel
    options: Options
    threads: int
    target: Target
    offered: tuple[Substitution, ...]
    usable: tuple[Substitution, ...]
    canonical: Canonical
    protected: frozenset[NodeId] = field(default=frozenset())
    sizing: Sizing | None = None
    objective: Objective | None = None
    start: GraphCost | None = None
    result: SearchResult | None = None
    reserved: float = 0.0
    court: Court | None = None
    verdict: Verdict | None = None
    suspects: tuple[Suspect, ...] = ()
    misdeclared: tuple[str, ...] = ()

    def report(self, accepted: Verdict | None, why: str, explaining: float | None) -> Report:
        """The report where the variant of a verdict is returned, or the original without one.

        So many seconds go into the explanation; with None there is none.
        """
        lifted = self.lifted
        judged = accepted or self.verdict
        nodes = len(lifted.source.as_given.proto.graph.node)
        comparison = None if judged is None else judged.comparison
        equivalence = None if judged is None else judged.equivalence
        sizes = self._sizes(judged)
        return Report(
            model=ModelSummary(
                name=Path(lifted.source.name).name,
                sha256=hashlib.sha256(lifted.source.original).hexdigest(),
                nodes_before=nodes,
                nodes_after=nodes if accepted is None else accepted.nodes,
                opaque=tuple(OpaqueNode(*node) for node in lifted.opaque),
                overridable=len(lifted.source.as_given.overridable),
                warnings=tuple(dict.fromkeys((*lifted.source.warnings, *self.misdeclared))),
            ),
            options={**self.options.to_json(), "threads": self.threads},
            rules=self._rule_counts(accepted),
            cost=self._cost_summary(accepted),
            measured=None if comparison is None else Measured.of(comparison, self.threads),
            equivalence=(
                EquivalenceSummary.untouched(self.options.tolerance, self._original)
                if equivalence is None
                else EquivalenceSummary.of(equivalence)
            ),
            search=(
                SearchSummary(self.options.search, 0.0, 0, 0.0, "budget")
                if self.result is None
                else SearchSummary.of(self.options.search, self.result, self.reserved)
            ),
            canonical=() if accepted is None else self.canonical.steps,
            trace=() if accepted is None else accepted.variant.trace,
            fusion=(
                ()
                if accepted is None
                else tuple(g.members for g in plan_of(accepted.variant.cost.graph).fusion.values())
            ),
            returned="original" if accepted is None else "optimized",
            why=why if accepted is None else sizes.qualified(why),
            sizes=sizes,
            rejected=() if self.court is None else rejections(self.court.verdicts),
            suspects=self.suspects,
            explanation=self._explanation(accepted, explaining),
            memory=self._memory(accepted),
            target=device_name(self.target.provider) if self.target.is_here else self.target.name,
        )

    @property
    def _original(self) -> str:
        """What returning the original means."""
        if self.lifted.source.has_external_data:
            return "the original is returned, with its external data in a file of its own"
        return BYTE_FOR_BYTE

    def _sizes(self, judged: Verdict | None) -> SizesSummary:
        """The sizes of open dimensions at which things happened: those of the arrays that models were fed."""
        sizing, court = self.sizing, self.court
        if sizing is None or self.start is None:
            return SizesSummary()
        checked: list[Mapping[str, int]] = []
        timed = None
        if court is not None and judged is not None:
            compared = 0 if judged.equivalence is None else judged.equivalence.samples
            for sample in islice(court.reference.samples(), compared):
                sizes = sizing.plan.sizes_of(sample.feeds)
                if sizes not in checked:
                    checked.append(sizes)
            timed = None if judged.comparison is None else sizing.plan.sizes_of(court.feeds)
        apart = tuple(sorted(self.lifted.source.apart))
        return SizesSummary(sizing.sizes, tuple(checked), timed, sizing.guessed, apart)

    def _memory(self, accepted: Verdict | None) -> MemorySummary | None:
        if self.start is None:
            return None
        before = self.start.memory.peak
        after = before if accepted is None else accepted.variant.cost.memory.peak
        return MemorySummary(before, after, self.options.memory_limit)

    def _explanation(self, accepted: Verdict | None, seconds: float | None) -> Explanation | None:
        """None where nothing was priced, and where explaining fails: the model matters more."""
        if self.start is None or seconds is None:
            return None
        court, chosen = self.court, None if accepted is None else accepted.variant
        findings = Findings(
            lifted=self.lifted,
            start=self.start,
            chosen=chosen,
            ablations=() if court is None else court.ablations,
            offered=self.offered,
            usable=frozenset(rule.rule_id for rule in self.usable),
            excluded=frozenset(self.options.exclude_rules),
            judged=() if court is None else tuple(verdict.variant for verdict in court.verdicts),
            protected=self.protected,
            was_cut_short=self.result is None or self.result.stopped_by != "exhausted",
        )
        try:
            return explain(findings, seconds)
        except Exception:  # noqa: BLE001 - logged, and the outcome goes out without its explanation
            _LOG.exception("explaining %s failed", self.lifted.source.name)
            return None

    def _rule_counts(self, accepted: Verdict | None) -> RuleCounts:
        matched = 0 if self.result is None else len(self.result.matched)
        applied = 0 if accepted is None else len({step.rule for step in accepted.variant.trace})
        return RuleCounts(len({rule.rule_id for rule in self.offered}), matched, applied)

    def _cost_summary(self, accepted: Verdict | None) -> CostSummary:
        before = 0.0 if self.start is None else self.start.total - self.start.penalty
        after = before if accepted is None else accepted.variant.cost.total
        if self.objective is None:
            return CostSummary("us", "analytic", before, after)
        return CostSummary(self.objective.unit, self.objective.source, before, after)
