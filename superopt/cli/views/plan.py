"""Text output of parallel plans: predicted time and memory, partitioning of operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from superopt.cli.output import Output, several
from superopt.optimizer.parallel.documents.quantities import size_text

_MOST_ROWS = 24


def print_plan(section: Mapping[str, object], output: Output) -> None:
    """Prints the parallel section of a report; operators partitioned alike share a row."""
    cluster = cast("Mapping[str, object]", section["cluster"])
    predicted = cast("Mapping[str, float]", section["predicted"])
    memory = cast("Sequence[Mapping[str, int]]", section["memory"])
    fullest = max(memory, key=lambda entry: entry["bytes"] / entry["limit"])
    output.line()
    output.pairs(
        {
            "cluster": f"{cluster['name']}: {several(cluster['devices'], 'device')} in "
            f"{several(cluster['nodes'], 'node')}",
            "predicted": f"{predicted['total']:,.0f} us for {section['objective']}: "
            f"{predicted['compute']:,.0f} computing on the busiest device, "
            f"{predicted['communication']:,.0f} sending on the busiest channel",
            "sent": f"{section['communication_bytes']:,} bytes",
            "memory": f"{size_text(fullest['bytes'])} of {size_text(fullest['limit'])} on device "
            f"{fullest['device']}, the fullest",
            "stages": f"{section['stages']}, microbatches: {section['microbatches']}",
            **_kept_in_parts(section),
        }
    )
    total = predicted["total"]
    baselines = cast("Sequence[Mapping[str, object]]", section["baselines"])
    others = [(str(entry["name"]), float(cast("float", entry["total"]))) for entry in baselines]
    rows = [
        (name, round(us), round(us / total, 2) if total else None)
        for name, us in (("this plan", total), *others)
    ]
    output.line()
    output.table(("plan", "us", "times this plan"), rows)
    output.line()
    if int(cast("int", section["stages"])) > 1:
        output.table(("stage", "operators", "devices", "divided"), _stages(section))
    else:
        output.table(("operators", "operator", "divided", "devices"), _condensed(section))


def _kept_in_parts(section: Mapping[str, object]) -> dict[str, str]:
    """How many inputs are kept in parts, and how often these are gathered; nothing where none is."""
    residence = cast("Sequence[Mapping[str, Sequence[object]]]", section.get("residence", ()))
    fetches = sum(len(kept["fetches"]) for kept in residence)
    if not residence:
        return {}
    return {"in parts": f"{several(len(residence), 'input')}, gathered by {several(fetches, 'exchange')}"}


def _stages(section: Mapping[str, object]) -> list[tuple[object, ...]]:
    """One row per pipeline stage."""
    stages: dict[int, list[Mapping[str, object]]] = {}
    for entry in cast("Sequence[Mapping[str, object]]", section["operators"]):
        stages.setdefault(int(cast("int", entry["stage"])), []).append(entry)
    rows: list[tuple[object, ...]] = []
    for stage, entries in sorted(stages.items()):
        devices = {device for entry in entries for device in cast("Sequence[int]", entry["devices"])}
        ways = Counter(_division(entry) for entry in entries)
        most = "; ".join(way for way, _ in ways.most_common(3))
        rows.append(
            (stage, len(entries), _ranges(sorted(devices)), most + ("; ..." if len(ways) > 3 else ""))
        )
    return rows


def _division(entry: Mapping[str, object]) -> str:
    """The partitioning of an operator as text."""
    degrees, kinds = cast("Sequence[int]", entry["degrees"]), cast("Sequence[str]", entry["kinds"])
    parts = [f"{kind} {degree}" for kind, degree in zip(kinds, degrees, strict=True) if degree > 1]
    if entry["copies"] != 1:
        parts.append(f"{entry['copies']} copies")
    return ", ".join(parts) or "whole"


def _condensed(section: Mapping[str, object]) -> list[tuple[object, ...]]:
    """One row per operator name and partitioning, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for entry in cast("Sequence[Mapping[str, object]]", section["operators"]):
        devices = cast("Sequence[int]", entry["devices"])
        counts[str(entry["operator"]), _division(entry), _ranges(devices)] += 1
    rows = [(count, *key) for key, count in counts.most_common(_MOST_ROWS)]
    hidden = sum(counts.values()) - sum(int(row[0]) for row in rows)
    return [*rows, *([(hidden, "others", "", "")] if hidden else [])]


def _ranges(devices: Sequence[int]) -> str:
    """Numbers as ranges: 0-5, 8."""
    found: list[list[int]] = []
    for device in sorted(devices):
        if found and device == found[-1][1] + 1:
            found[-1][1] = device
        else:
            found.append([device, device])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)
