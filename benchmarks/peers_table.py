"""The result of ``benchmarks peers``: its records, the table, the plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias, cast

_Scale: TypeAlias = Callable[[float], float]

_LABELS, _PLOT, _LINE, _MARGIN = 190.0, 520.0, 22.0, 34.0
_RADIUS = {True: 5.5, False: 3.5}
_STYLE = """
text{font:12px system-ui,sans-serif;fill:#1b2430}
.axis{fill:#55606e;font-size:11px}.rule{stroke:#d7dde4}.one{stroke:#55606e;stroke-dasharray:3 3}
.peer{fill:#9aa5b1}.ours{fill:#0b6bcb}.span{stroke:#0b6bcb;stroke-width:2}
rect.ground{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6e9ed}.axis{fill:#9aa5b1}.rule{stroke:#303945}
.one{stroke:#9aa5b1}.peer{fill:#697685}.ours{fill:#5cb0ff}.span{stroke:#5cb0ff}rect.ground{fill:#14191f}}
"""


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
    """The table as a plot in SVG: a line for each network, a dot for each optimizer; logarithmic."""
    ratios = [s.ratio for row in rows for s in row.standings if s.ratio is not None]
    low, high = min(0.9, *ratios) * 0.98, max(1.2, *ratios) * 1.02
    height = 2 * _MARGIN + _LINE * len(rows)
    width = _LABELS + _PLOT + _MARGIN

    def across(ratio: float) -> float:
        return _LABELS + _PLOT * math.log(ratio / low) / math.log(high / low)

    parts = list(_frame(rows, across, low, high, height))
    for number, row in enumerate(rows):
        y = _MARGIN + _LINE * (number + 0.5)
        parts.append(f'<text x="{_LABELS - 10}" y="{y + 4}" text-anchor="end">{escape(row.network)}</text>')
        for standing in row.standings:
            parts += _dot(standing, across, y, is_ours=standing is row.standings[-1])
    title = "Latency of the original over that of the optimised model"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'role="img" aria-label="{title}"><style>{_STYLE}</style>'
        f'<rect class="ground" width="100%" height="100%"/>{"".join(parts)}</svg>\n'
    )


def _frame(rows: Sequence[Row], across: _Scale, low: float, high: float, height: float) -> Iterator[str]:
    bottom = height - _MARGIN
    ticks = [t / 10 for t in range(math.ceil(low * 10), math.floor(high * 10) + 1)]
    step = max(1, len(ticks) // 10)
    for tick in ticks:
        if (round(tick * 10) - 10) % step == 0:
            x, kind = across(tick), "one" if tick == 1 else "rule"
            yield f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{_MARGIN}" y2="{bottom}"/>'
            yield f'<text class="axis" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g}x</text>'
    names = [standing.optimizer for standing in rows[0].standings]
    legend = (("ours", 0.0, f"{names[-1]} (98% interval)"), ("peer", 180.0, ", ".join(names[:-1])))
    for kind, offset, text in legend:
        x = _LABELS + offset
        yield f'<circle class="{kind}" cx="{x}" cy="16" r="4.5"/><text x="{x + 10}" y="20">{text}</text>'


def _dot(standing: Standing, across: _Scale, y: float, *, is_ours: bool) -> Iterator[str]:
    if standing.ratio is None:
        return
    if is_ours and standing.low is not None and standing.high is not None:
        x1, x2 = across(standing.low), across(standing.high)
        yield f'<line class="span" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y}" y2="{y}"/>'
    kind, title = "ours" if is_ours else "peer", f"{standing.optimizer}: {standing.ratio:.3f}"
    yield (
        f'<circle class="{kind}" cx="{across(standing.ratio):.1f}" cy="{y}" r="{_RADIUS[is_ours]}">'
        f"<title>{escape(title)}</title></circle>"
    )


def _cell(standing: Standing) -> str:
    return "failed" if standing.ratio is None else f"{standing.ratio:.3f}"
