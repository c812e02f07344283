"""A plot of ratios as SVG: a line for each subject, dots along it, a band around 1.

The scale is logarithmic; light and dark by what the reader prefers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["main", "far", "other"]

_LINE = 20
_LABEL = 170
_PLOT = 480
_NOTE = 60
_TOP = 58
_RADIUS = {"main": 4.5, "far": 4.5, "other": 3.0}
_STYLE = """
text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1b2430}
.title{font-size:14px}
.tick{fill:#55606e;text-anchor:middle}
.label{text-anchor:end}
.ground{fill:#fff;stroke:#d5dae1}
.band{fill:#e9f5ea}
.grid{stroke:#d5dae1}
.one{stroke:#55606e}
.main{fill:#4a7ebb}
.span{stroke:#4a7ebb;stroke-width:2}
.far{fill:#c2573f}
.other{fill:#9aa5b1}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.tick{fill:#a3adb8}
.ground{fill:#0d1117;stroke:#30363d}
.band{fill:#14301a}
.grid{stroke:#30363d}
.one{stroke:#a3adb8}
.main{fill:#5b8fd0}
.span{stroke:#5b8fd0}
.far{fill:#e07a62}
.other{fill:#697685}}
"""


@dataclass(frozen=True, slots=True)
class Dot:
    """A ratio, what it is of, and the interval that holds it where one is known."""

    ratio: float
    kind: Kind
    title: str
    span: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """The dots of one subject, and what stands beside them."""

    label: str
    dots: Sequence[Dot]
    note: str = ""


def dot_plot(
    title: str, lines: Sequence[Line], tolerance: float = 0.0, legend: Sequence[tuple[Kind, str]] = ()
) -> str:
    """The plot as an SVG document, with a band of 1 +- tolerance; ``legend`` says what kinds of dots are."""
    ratios = [ratio for line in lines for dot in line.dots for ratio in (dot.ratio, *(dot.span or ()))]
    low, high = 0.98 * min(0.8, *ratios), 1.02 * max(1.2, *ratios)

    def x(ratio: float) -> float:
        return _LABEL + _PLOT * math.log(ratio / low) / math.log(high / low)

    bottom = _TOP + _LINE * len(lines)
    width, height = _LABEL + _PLOT + _NOTE, bottom + 14 + (_LINE if legend else 0)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            f'<text class="title" x="16" y="24">{escape(title)}</text>',
            *_band(x, tolerance, bottom),
            *_grid(x, low, high, bottom),
            *(part for number, line in enumerate(lines) for part in _drawn(x, line, number)),
            *_explained(legend, bottom + _LINE),
            "</svg>\n",
        )
    )


def _band(x: Callable[[float], float], tolerance: float, bottom: float) -> Iterator[str]:
    if tolerance:
        left, right = x(1 - tolerance), x(1 + tolerance)
        place = f'x="{left:.1f}" y="{_TOP - 6}" width="{right - left:.1f}" height="{bottom - _TOP + 6}"'
        yield f'<rect class="band" {place}/>'


def _grid(x: Callable[[float], float], low: float, high: float, bottom: float) -> Iterator[str]:
    tenths = range(math.ceil(low * 10), math.floor(high * 10) + 1)
    step = max(1, len(tenths) // 10)
    for tenth in tenths:
        if (tenth - 10) % step == 0:
            at, kind = x(tenth / 10), "one" if tenth == 10 else "grid"
            yield f'<path class="{kind}" d="M{at:.1f} {_TOP - 6}V{bottom}"/>'
            yield f'<text class="tick" x="{at:.1f}" y="{_TOP - 12}">{tenth / 10:.1f}</text>'


def _drawn(x: Callable[[float], float], line: Line, number: int) -> Iterator[str]:
    y = _TOP + _LINE * number + _LINE / 2
    yield f'<text class="label" x="{_LABEL - 8}" y="{y + 4:.0f}">{escape(line.label)}</text>'
    for dot in line.dots:
        if dot.span is not None:
            left, right = map(x, dot.span)
            yield f'<path class="span" d="M{left:.1f} {y:.0f}H{right:.1f}"/>'
        circle = f'<circle class="{dot.kind}" cx="{x(dot.ratio):.1f}" cy="{y:.0f}" r="{_RADIUS[dot.kind]}">'
        yield f"{circle}<title>{escape(dot.title)}</title></circle>"
    yield f'<text x="{_LABEL + _PLOT + 8}" y="{y + 4:.0f}">{escape(line.note)}</text>'


def _explained(legend: Sequence[tuple[Kind, str]], y: float) -> Iterator[str]:
    x = 24
    for kind, text in legend:
        yield f'<circle class="{kind}" cx="{x}" cy="{y - 4}" r="{_RADIUS[kind]}"/>'
        yield f'<text x="{x + 10}" y="{y}">{escape(text)}</text>'
        x += 30 + 8 * len(text)
