"""A plot of ratios as SVG: one dot a line, a band around 1; light and dark by what the reader prefers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LINE = 20
_LABEL = 150
_PLOT = 480
_NOTE = 60
_TOP = 58
_STYLE = """
text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1b2430}
.title{font-size:14px}
.tick{fill:#55606e;text-anchor:middle}
.label{text-anchor:end}
.ground{fill:#fff;stroke:#d5dae1}
.band{fill:#e9f5ea}
.grid{stroke:#d5dae1}
.one{stroke:#55606e}
.dot{fill:#4a7ebb}
.far{fill:#c2573f}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.tick{fill:#a3adb8}
.ground{fill:#0d1117;stroke:#30363d}
.band{fill:#14301a}
.grid{stroke:#30363d}
.one{stroke:#a3adb8}
.dot{fill:#5b8fd0}
.far{fill:#e07a62}}
"""


@dataclass(frozen=True, slots=True)
class Dot:
    """A ratio with its name and what stands beside it."""

    label: str
    ratio: float
    note: str


def dot_plot(title: str, dots: Sequence[Dot], tolerance: float) -> str:
    """The plot as an SVG document; dots outside 1 +- tolerance have a colour of their own."""
    ratios = [dot.ratio for dot in dots]
    low = min(0.8, *ratios) - 0.02
    high = max(1.2, *ratios) + 0.02
    bottom = _TOP + _LINE * len(dots)
    width, height = _LABEL + _PLOT + _NOTE, bottom + 14

    def x(ratio: float) -> str:
        return f"{_LABEL + _PLOT * (ratio - low) / (high - low):.1f}"

    band = float(x(1 + tolerance)) - float(x(1 - tolerance))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    place = f'x="{x(1 - tolerance)}" y="{_TOP - 6}" width="{band:.1f}" height="{bottom - _TOP + 6}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="16" y="24">{escape(title)}</text>',
        f'<rect class="band" {place}/>',
    ]
    for tenth in range(int(low * 10) + 1, int(high * 10) + 1):
        at = x(tenth / 10)
        kind = "one" if tenth == 10 else "grid"
        parts.append(f'<path class="{kind}" d="M{at} {_TOP - 6}V{bottom}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{_TOP - 12}">{tenth / 10:.1f}</text>')
    for number, dot in enumerate(dots):
        y = _TOP + _LINE * number + _LINE / 2
        kind = "dot" if abs(dot.ratio - 1) <= tolerance else "far"
        parts.append(f'<text class="label" x="{_LABEL - 8}" y="{y + 4:.0f}">{escape(dot.label)}</text>')
        parts.append(f'<circle class="{kind}" cx="{x(dot.ratio)}" cy="{y:.0f}" r="4.5"/>')
        parts.append(f'<text x="{_LABEL + _PLOT + 8}" y="{y + 4:.0f}">{escape(dot.note)}</text>')
    return "\n".join((*parts, "</svg>\n"))
