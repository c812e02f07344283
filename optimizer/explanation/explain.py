"""Build the explanation section of a report within a share of the time budget."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from superopt.ir.graph import NodeId
from superopt.optimizer.cost import GraphCost, Latency
from superopt.optimizer.explanation.gains import RuleGain, rule_gains
from superopt.optimizer.explanation.kernels import KernelTable, slowest_kernels
from superopt.optimizer.explanation.rewritten_regions import Region, rewritten_regions
from superopt.optimizer.explanation.unused import ExplanationContext, UnusedRule, unused_rules
from superopt.optimizer.pipeline.prepare import Prepared
from superopt.optimizer.pipeline.verdict import Ablation, PricedVariant
from superopt.optimizer.search import TraceStep


@dataclass(frozen=True)
class Findings:
    """Input of the explanation. ``chosen`` is the returned variant, None for the original; ``tried`` is the
    most promising one with rules where the original is returned; ``judged`` are all judged variants, in
    order."""

    prepared: Prepared
    start: GraphCost
    chosen: PricedVariant | None
    tried: PricedVariant | None
    ablations: Sequence[Ablation]
    judged: Sequence[PricedVariant]
    was_cut_short: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of a result. It took ``seconds`` of ``seconds_allowed``. ``is_complete``: every matching
    rule is in ``unused`` or ``gains``, with a price if possible. ``tried`` are the predicted gains of rules
    in the most promising variant where none is returned."""

    seconds: float
    seconds_allowed: float
    is_complete: bool
    gains: tuple[RuleGain, ...]
    tried: tuple[RuleGain, ...]
    unused: tuple[UnusedRule, ...]
    before: KernelTable
    after: KernelTable
    regions: tuple[Region, ...]

    def to_json(self) -> dict[str, object]:
        """The explanation as JSON values."""
        return {
            "seconds": self.seconds,
            "seconds_allowed": self.seconds_allowed,
            "complete": self.is_complete,
            "gains": [gain.to_json() for gain in self.gains],
            "tried": [gain.to_json() for gain in self.tried],
            "unused": [rule.to_json() for rule in self.unused],
            "kernels": {"before": self.before.to_json(), "after": self.after.to_json()},
            "regions": [region.to_json() for region in self.regions],
        }


def _rules_of(trace: Sequence[TraceStep]) -> dict[NodeId, list[str]]:
    rules: dict[NodeId, list[str]] = {}
    for step in trace:
        for node in step.site:
            rules.setdefault(node, []).append(step.rule)
    return rules


def explain(findings: Findings, seconds: float) -> Explanation:
    """Builds the explanation in about this many seconds; missing prices are measured while time allows."""
    began = time.monotonic()
    start, prepared = findings.start, findings.prepared
    lifted, rules = prepared.request.lifted, prepared.request.rules
    final = start if findings.chosen is None else findings.chosen.cost
    trace = () if findings.chosen is None else findings.chosen.trace
    objective = start.objective
    if isinstance(objective, Latency):
        objective.deadline = began + seconds
    regions = () if findings.chosen is None else rewritten_regions(start, final, lifted, _rules_of(trace))
    unused, complete = unused_rules(
        rules,
        ExplanationContext(
            start=start,
            applied=trace,
            tried=frozenset(rule for variant in findings.judged for rule in variant.rules),
            final=final.graph,
            usable=frozenset(rule.rule_id for rule in prepared.usable),
            excluded=frozenset(prepared.request.options.exclude_rules),
            protected=prepared.protected,
            was_cut_short=findings.was_cut_short,
            unit=objective.unit,
            deadline=began + seconds,
        ),
    )
    if isinstance(objective, Latency):
        objective.deadline = math.inf
    return Explanation(
        seconds=round(time.monotonic() - began, 3),
        seconds_allowed=round(seconds, 3),
        is_complete=complete,
        gains=rule_gains(trace, findings.ablations),
        tried=() if findings.tried is None else rule_gains(findings.tried.trace, findings.ablations),
        unused=unused,
        before=slowest_kernels(start, lifted),
        after=slowest_kernels(final, lifted),
        regions=regions,
    )
