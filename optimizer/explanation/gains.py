"""Gain of each rule in a trace: predicted per step, and measured by leaving the rule out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from superopt.optimizer.pipeline.verdict import Ablation
from superopt.optimizer.search import TraceStep


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """The additional microseconds of the whole model without the rule, and the ratios from which they
    follow."""

    gain: float
    ratio_with: float
    ratio_without: float
    interval_without: tuple[float, float]


@dataclass(frozen=True, slots=True)
class RuleGain:
    """A rule of the trace: number of applications, and total gain in the unit of the objective."""

    rule: str
    backwards: bool
    equation: str
    times: int
    predicted: float
    measured: MeasuredGain | None

    def to_json(self) -> dict[str, object]:
        """The gain as JSON values."""
        return asdict(self)


def rule_gains(trace: Sequence[TraceStep], ablations: Sequence[Ablation]) -> tuple[RuleGain, ...]:
    """The rules of a trace, by decreasing gain."""
    steps: dict[tuple[str, bool, str], list[TraceStep]] = {}
    for step in trace:
        steps.setdefault((step.rule, step.backwards, step.equation), []).append(step)
    tried = {ablation.rule: ablation for ablation in ablations}
    gains = [
        RuleGain(
            *key,
            times=len(found),
            predicted=sum(step.cost_before - step.cost_after for step in found),
            measured=_measured(tried[key[0]]) if key[0] in tried else None,
        )
        for key, found in steps.items()
    ]
    return tuple(sorted(gains, key=lambda gain: -gain.predicted))


def _measured(ablation: Ablation) -> MeasuredGain:
    """Compute the gain from ratios only, because both variants were timed against the original, but in
    separate runs."""
    before, present, absent = ablation.present.before, ablation.present.ratio, ablation.absent.ratio
    return MeasuredGain(
        gain=round(before / absent - before / present, 3),
        ratio_with=round(present, 4),
        ratio_without=round(absent, 4),
        interval_without=(round(ablation.absent.low, 4), round(ablation.absent.high, 4)),
    )
