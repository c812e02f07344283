"""Draw equations as SVG: source graph, arrow, target graph, condition.

Colours follow the reader's light or dark preference, on an opaque background. Use the SVG as an image: its
style rules are not meant to be combined with those of a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html import escape
from itertools import pairwise
from textwrap import wrap

from superopt.equations.abbreviation import abbreviated
from superopt.equations.layout import (
    LINE,
    PADDING,
    SMALL_CHARACTER,
    SMALL_LINE,
    Box,
    Edge,
    Kind,
    Layout,
    Point,
    layout,
)
from superopt.equations.printer import format_condition, format_equation, format_term
from superopt.ir.terms import Direction, Equation

WIDEST = 860.0
"""Maximum width of two graphs side by side."""

MARGIN = 16.0

_RELATION = 56.0
_HEAD = 6
_STYLE = """
text{font:13px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;text-anchor:middle}
text{fill:#1b2430}
.small{font-size:11px;fill:#55606e}
.ground{fill:#fff;stroke:#d5dae1}
.operator rect{fill:#e3edfb;stroke:#4a7ebb}
.constant rect{fill:#f4f0e4;stroke:#a68a3c;stroke-dasharray:4 3}
.input rect{fill:#e9f5ea;stroke:#5c9b63}
.output circle{fill:#fff;stroke:#55606e}
.edge{fill:none;stroke:#55606e;stroke-width:1.3}
.head{fill:#55606e}
.relation{font-size:24px}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.small{fill:#a3adb8}
.ground{fill:#0d1117;stroke:#30363d}
.operator rect{fill:#16294a;stroke:#5b8fd0}
.constant rect{fill:#2e2814;stroke:#b99c4b}
.input rect{fill:#14301a;stroke:#64a86c}
.output circle{fill:#0d1117;stroke:#a3adb8}
.edge{stroke:#a3adb8}
.head{fill:#a3adb8}}
"""
_SIGNS = {Direction.FORWARD: "⇒", Direction.BOTH: "⇔", Direction.EQUAL: "="}
_WORDS = {
    Direction.FORWARD: "may be replaced by",
    Direction.BOTH: "may be replaced by, and back,",
    Direction.EQUAL: "equals",
}


def drawing(equation: Equation) -> str:
    """The equation as an SVG document; deterministic."""
    source, target = layout(equation.left), layout(equation.right)
    beside = source.width + _RELATION + target.width <= WIDEST
    if beside:
        height = max(source.height, target.height)
        source = _moved(source, 0, (height - source.height) / 2)
        target = _moved(target, source.width + _RELATION, (height - target.height) / 2)
        sign = Point(source.width + _RELATION / 2, height / 2)
        width = source.width + _RELATION + target.width
    else:
        width = max(source.width, target.width)
        sign = Point(width / 2, source.height + _RELATION / 2)
        top = source.height + _RELATION
        source = _moved(source, (width - source.width) / 2, 0)
        target = _moved(target, (width - target.width) / 2, top)
        height = top + target.height
    condition = _condition_lines(equation, width)
    needed = max((len(line) for line in condition), default=0) * SMALL_CHARACTER
    shift = max(0.0, (needed - width) / 2)
    width = max(width, needed)
    parts = [
        *(_edge(edge) for side in (source, target) for edge in _moved(side, shift, 0).edges),
        *(_box(box) for side in (source, target) for box in _moved(side, shift, 0).boxes),
        _sign(equation.direction, Point(sign.x + shift, sign.y + 8)),
        *_lines(condition, width / 2, height + SMALL_LINE + 4),
    ]
    height += (len(condition) + 1) * SMALL_LINE if condition else 0
    return _document(equation, parts, width + 2 * MARGIN, height + 2 * MARGIN)


def _document(equation: Equation, parts: list[str], width: float, height: float) -> str:
    size = f'width="{_n(width)}" height="{_n(height)}"'
    frame = f'x="{_n(0.5 - MARGIN)}" y="{_n(0.5 - MARGIN)}" width="{_n(width - 1)}" height="{_n(height - 1)}"'
    view = f'viewBox="{_n(-MARGIN)} {_n(-MARGIN)} {_n(width)} {_n(height)}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} role="img">',
            f"<title>{escape(abbreviated(format_equation(equation)))}</title>",
            f"<desc>{escape(description(equation))}</desc>",
            f"<style>{_STYLE}</style>",
            f'<rect class="ground" {frame} rx="8"/>',
            *parts,
            "</svg>\n",
        )
    )


def description(equation: Equation) -> str:
    """The equation in words, for screen readers."""
    source, target = (", ".join(map(format_term, side)) for side in (equation.left, equation.right))
    conditions = ", ".join(map(format_condition, equation.conditions))
    where = f", where {conditions}" if conditions else ""
    return abbreviated(f"The graph of {source} {_WORDS[equation.direction]} the graph of {target}{where}.")


def _moved(side: Layout, x: float, y: float) -> Layout:
    return Layout(
        tuple(replace(box, x=box.x + x, y=box.y + y) for box in side.boxes),
        tuple(Edge(tuple(Point(p.x + x, p.y + y) for p in edge.points)) for edge in side.edges),
        side.width,
        side.height,
    )


def _box(box: Box) -> str:
    middle = box.x + box.width / 2
    if box.kind is Kind.OUTPUT:
        if not box.name:
            return ""
        radius = box.width / 2
        return (
            f'<g class="output"><circle cx="{_n(middle)}" cy="{_n(box.y + radius)}" r="{_n(radius)}"/>'
            f'<text class="small" x="{_n(middle)}" y="{_n(box.y + radius + 4)}">{box.name}</text></g>'
        )
    corner = box.height / 2 if box.kind is Kind.INPUT else 4
    size = f'width="{_n(box.width)}" height="{_n(box.height)}" rx="{_n(corner)}"'
    first = box.y + PADDING / 2 + LINE - 4
    return "".join(
        (
            f'<g class="{box.kind}"><rect x="{_n(box.x)}" y="{_n(box.y)}" {size}/>',
            f'<text x="{_n(middle)}" y="{_n(first)}">{escape(box.name)}</text>',
            *_lines(box.attributes, middle, first + SMALL_LINE),
            "</g>",
        )
    )


def _sign(direction: Direction, place: Point) -> str:
    return f'<text class="relation" x="{_n(place.x)}" y="{_n(place.y)}">{_SIGNS[direction]}</text>'


def _lines(lines: tuple[str, ...], middle: float, first: float) -> Iterator[str]:
    for number, line in enumerate(lines):
        y = first + number * SMALL_LINE
        yield f'<text class="small" x="{_n(middle)}" y="{_n(y)}">{escape(line)}</text>'


def _edge(edge: Edge) -> str:
    """An arrow that leaves and arrives vertically."""
    *_, end = edge.points
    points = (*edge.points[:-1], Point(end.x, end.y - _HEAD))
    path = f"M{_n(points[0].x)} {_n(points[0].y)}"
    for a, b in pairwise(points):
        half = (a.y + b.y) / 2
        path += f"C{_n(a.x)} {_n(half)} {_n(b.x)} {_n(half)} {_n(b.x)} {_n(b.y)}"
    head = f"M{_n(end.x)} {_n(end.y)}l-3.5 -{_HEAD}h7z"
    return f'<path class="edge" d="{path}"/><path class="head" d="{head}"/>'


def _condition_lines(equation: Equation, width: float) -> tuple[str, ...]:
    """The condition, wrapped to the width of the graphs, but at least 40 characters."""
    text = ", ".join(map(format_condition, equation.conditions))
    room = max(40, int(width / SMALL_CHARACTER))
    return tuple(wrap(f"where {text}", room, break_long_words=False)) if text else ()


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


__all__ = ["description", "drawing"]
