"""The result of ``benchmarks peers``: its records, the table, the plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from benchmarks.models.dots import Dot, Kind, Line, dot_plot


@dataclass(frozen=True, slots=True)
class Standing:
    """How one optimizer did on one network: latency of the original / its own, and the interval of that.

    None, with a note, where there is no model that runs and agrees. ``seconds`` is what optimizing took.
    """

    optimizer: str
    ratio: float | None
    low: float | None
    high: float | None
    seconds: float
    note: str

    @staticmethod
    def of(document: Mapping[str, object]) -> Standing:
        """A standing from its JSON."""
        return Standing(**document)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, slots=True)
class Row:
    """One network: ONNX nodes, microseconds of the original, runs of each, one standing per optimizer."""

    network: str
    nodes: int
    microseconds: float
    runs: int
    standings: tuple[Standing, ...]

    @staticmethod
    def of(document: Mapping[str, object]) -> Row:
        """A row from its JSON."""
        standings = cast("Sequence[Mapping[str, object]]", document["standings"])
        return Row(
            cast("str", document["network"]),
            cast("int", document["nodes"]),
            cast("float", document["microseconds"]),
            cast("int", document["runs"]),
            tuple(Standing.of(standing) for standing in standings),
        )


def geometric_means(rows: Sequence[Row]) -> Mapping[str, float]:
    """The geometric mean of each optimizer's ratios; a network that it failed on counts as 1."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        for standing in row.standings:
            logs.setdefault(standing.optimizer, []).append(math.log(standing.ratio or 1.0))
    return {name: math.exp(sum(values) / len(values)) for name, values in logs.items()}


def tabulated(rows: Sequence[Row]) -> str:
    """A Markdown table with a row for each network, and one of geometric means."""
    names = [standing.optimizer for standing in rows[0].standings]
    lines = [
        f"| network | nodes | ms | {' | '.join(names)} | interval of {names[-1]} | its seconds |",
        "|---|---|---|" + "---|" * (len(names) + 2),
    ]
    for row in rows:
        ours = row.standings[-1]
        span = "" if ours.low is None else f"{ours.low:.3f} to {ours.high:.3f}"
        cells = [row.network, str(row.nodes), f"{row.microseconds / 1000:.2f}"]
        cells += [*map(_cell, row.standings), span, f"{ours.seconds:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    means = geometric_means(rows)
    cells = ["geometric mean", "", "", *(f"**{means[name]:.3f}**" for name in names), "", ""]
    lines.append(f"| {' | '.join(cells)} |")
    notes = [
        f"- {row.network}, {s.optimizer}: {s.note}" for row in rows for s in row.standings if s.ratio is None
    ]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def drawn(rows: Sequence[Row]) -> str:
    """The table as a plot in SVG: a line for each network, a dot for each optimizer."""
    *peers, ours = (standing.optimizer for standing in rows[0].standings)
    legend: tuple[tuple[Kind, str], ...] = (("main", f"{ours} (98% interval)"), ("other", ", ".join(peers)))
    lines = [Line(row.network, tuple(_dots(row))) for row in rows]
    return dot_plot("Latency of the original over that of the optimised model", lines, legend=legend)


def _dots(row: Row) -> Iterator[Dot]:
    for standing in row.standings:
        if standing.ratio is not None:
            title = f"{standing.optimizer}: {standing.ratio:.3f}"
            if standing is row.standings[-1]:
                yield Dot(standing.ratio, "main", title, _span(standing))
            else:
                yield Dot(standing.ratio, "other", title)


def _span(standing: Standing) -> tuple[float, float] | None:
    return None if standing.low is None or standing.high is None else (standing.low, standing.high)


def _cell(standing: Standing) -> str:
    return "failed" if standing.ratio is None else f"{standing.ratio:.3f}"
