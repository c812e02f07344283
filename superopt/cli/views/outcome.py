"""Text output of the outcome: the returned model with the reason, and what was rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from superopt.cli.output import several
from superopt.cli.views.equivalence import branches_missed, errors_against

if TYPE_CHECKING:
    from superopt.optimizer.canonical import CanonicalStep
    from superopt.optimizer.pipeline.reporting.report import EquivalenceSummary, LatencySummary, Report

_EQUAL = "equal, but "
"""How the reasons begin why models with the same outputs were rejected."""

_WEAK = "the outputs hardly depend on the inputs, or mostly on rounding"
_MOST_KINDS = 3
_UNDECIDED = "but undecided: "
"""In the reasons, where times were too uncertain to tell which model is faster."""


def outcome_pairs(report: Mapping[str, object]) -> dict[str, object]:
    """Summary lines from a report: which model is returned and why, and each rejected one with the reason."""
    rejected = cast("Sequence[Mapping[str, object]]", report.get("rejected") or ())
    returned, why = report.get("returned"), str(report.get("why"))
    if returned == "original" and any(one["why"] == why for one in rejected):
        why = _why_none_of(rejected)
    pairs: dict[str, object] = {"returned": f"{returned}: {why}"}
    conversions = cast("Mapping[str, object]", report.get("conversions") or {})
    tried = cast("Sequence[Mapping[str, object]]", conversions.get("tried") or ())
    if tried:
        pairs["converted"] = [_converted(one) for one in tried]
    if rejected:
        pairs["rejected"] = [_rejected(one) for one in rejected]
    return pairs


def _why_none_of(rejected: Sequence[Mapping[str, object]]) -> str:
    if any(_UNDECIDED in str(one["why"]) for one in rejected):
        return "nothing was shown to be better"
    return "nothing better was found" if len(rejected) == 1 else "nothing better was found among these"


def _converted(conversion: Mapping[str, object]) -> str:
    kind, variant = conversion["kind"], conversion["variant"]
    name = f"{kind} (as {variant})" if variant else f"{kind}"
    return f"{name}: {'used' if conversion['accepted'] else 'not used'}, {conversion['why']}"


def written_pairs(report: Report) -> dict[str, object]:
    """Summary lines about the returned model: its nodes and, if it was rewritten, cost, time and errors."""
    model, cost = report.model, report.cost
    before, after = model.nodes_before, model.nodes_after
    if report.returned == "original":
        return {"nodes": f"{before} -> {after}" if after != before else f"{before}, as given"}
    pairs: dict[str, object] = {"nodes": f"{before} -> {after}"}
    if report.memory is not None:
        pairs["cost"] = f"{cost.before:,.0f} -> {cost.after:,.0f} {cost.unit} ({cost.source})"
    if report.measured is not None:
        pairs["measured"] = _measured(report.measured)
    pairs["equivalence"] = _equivalence(report.equivalence)
    return pairs


def _rejected(rejected: Mapping[str, object]) -> str:
    why = str(rejected["why"])
    return f"the model {_variant(rejected)}, because {why.removeprefix(_EQUAL)}"


def simplified_pairs(returned: str, steps: Sequence[CanonicalStep]) -> dict[str, object]:
    """The summary line about what was rewritten before the search, the most frequent first; none where the
    original is returned, or nothing was."""
    if returned != "optimized" or not steps:
        return {}
    kinds = Counter(step.what for step in steps).most_common()
    parts = [f"{count} times {what}" if count > 1 else what for what, count in kinds[:_MOST_KINDS]]
    others = sum(count for _, count in kinds[_MOST_KINDS:])
    rest = [several(others, "other change")] if others else []
    return {"simplified": f"before the search: {'; '.join([*parts, *rest])}"}


def training_pairs(section: object) -> dict[str, object]:
    """The summary lines from a report's ``training``; none where no step was built or changed."""
    training = cast("Mapping[str, object]", section or {})
    pairs = _precision_pairs(training.get("precision"))
    if "states" not in training:
        return pairs
    states = cast("Sequence[Mapping[str, object]]", training["states"])
    parameters = sum(1 for state in states if state["role"] == "parameter")
    return {
        "training": f"a step of {cast('Mapping[str, object]', training['model'])['name']}, built in "
        f"{training['seconds']:.1f} s: {several(parameters, 'parameter')} by {training['optimizer']}, "
        f"data {', '.join(cast('Sequence[str]', training['data']))}",
        **pairs,
    }


def _precision_pairs(section: object) -> dict[str, object]:
    precision = cast("Mapping[str, object]", section or {})
    return {"precision": precision["summary"]} if precision.get("summary") else {}


def memory_pairs(section: object) -> dict[str, object]:
    """The summary line from a report's ``memory``; none without a limit."""
    memory = cast("Mapping[str, object]", section or {})
    return {"memory": memory["why"]} if memory.get("why") else {}


def _variant(rejected: Mapping[str, object]) -> str:
    match cast("Sequence[str]", rejected["rules"]):
        case ():
            return "without rules"
        case (rule,):
            return f"with rule {rule}"
        case rules:
            return f"with {len(rules)} rules"


def _measured(measured: LatencySummary) -> str:
    low, high = measured.interval
    return (
        f"{measured.before:,.0f} -> {measured.after:,.0f} {measured.unit}: {measured.ratio:.3f}x "
        f"[{low:.3f}, {high:.3f}], {several(measured.runs, 'run')}, {measured.runtime}, "
        f"{several(measured.threads, 'thread')}"
    )


def _equivalence(equivalence: EquivalenceSummary) -> str:
    if not equivalence.samples:
        return equivalence.why if equivalence.passed else f"FAILED: {equivalence.why}"
    error = "no number" if equivalence.max_rel_error is None else f"{equivalence.max_rel_error:.2g}"
    weak = f", weak evidence: {_WEAK}" if equivalence.weak else ""
    missed = branches_missed(equivalence)
    unseen = f"; no input led to {missed}" if missed else ""
    verdict = "passed" if equivalence.passed else "FAILED"
    return (
        f"{verdict}: {several(equivalence.samples, 'sample')}, largest relative error {error}"
        f"{errors_against(equivalence)}{weak}{unseen}"
    )
