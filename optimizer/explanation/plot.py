"""SVG plots that inherit the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import TypeAlias

from superopt.optimizer.explanation.amounts import digits, scale_of

_WIDTH, _HEIGHT = 760.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 16.0, 12.0, 34.0
_TICKS = 5
_MOST_POINTS = 400

_Place: TypeAlias = "Callable[[float], float]"


def curve_plot(curve: Sequence[tuple[float, float]], seconds: float, unit: str) -> str:
    """The best cost over the seconds of the search, as steps; "" without points."""
    if not curve:
        return ""
    points = _thinned(curve)
    end = max(seconds, points[-1][0], 1e-3)
    costs = [cost for _, cost in points]
    low, high = min(costs), max(costs)
    margin = 0.08 * (high - low) or 0.05 * (high or 1)
    low, high = max(0.0, low - margin), high + margin
    scale, name = scale_of(high, unit)

    def x(second: float) -> float:
        return _LEFT + second / end * (_WIDTH - _LEFT - _RIGHT)

    def y(cost: float) -> float:
        return _TOP + (high - cost) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    path = f"M{x(points[0][0]):.1f} {y(costs[0]):.1f}"
    for second, cost in points[1:]:
        path += f"H{x(second):.1f}V{y(cost):.1f}"
    path += f"H{x(end):.1f}"
    floor = _HEIGHT - _BOTTOM
    area = f"{path}V{floor:.1f}H{x(points[0][0]):.1f}Z"
    gained = f"from {digits(costs[0] / scale)} to {digits(costs[-1] / scale)} {name}"
    title = escape(f"The best predicted cost went {gained} in {end:.1f} seconds of search.")
    parts = [
        f'<svg class="plot" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{title}">',
        *_rows(low, high, scale, name, y),
        *_columns(end, x, floor),
        f'<path class="area" d="{area}"/><path class="line" d="{path}"/>',
        *(
            f'<circle class="dot" cx="{x(s):.1f}" cy="{y(c):.1f}" r="3">'
            f"<title>{s:.2f} s: {digits(c / scale)} {name}</title></circle>"
            for s, c in points
        ),
        "</svg>",
    ]
    return "".join(parts)


def interval_plot(ratio: float, low: float, high: float) -> str:
    """The ratio with its interval on an axis that marks 1 (no change)."""
    start, end = min(low, 1.0), max(high, 1.0)
    margin = 0.15 * (end - start) or 0.05
    start, end = start - margin, end + margin

    def x(value: float) -> float:
        return 6 + (value - start) / (end - start) * 228

    label = f"Ratio {ratio:.3f}, interval {low:.3f} to {high:.3f}; 1 is no change"
    return (
        f'<svg class="interval" viewBox="0 0 240 44" role="img" aria-label="{label}">'
        f'<path class="axis" d="M6 20H234"/><path class="one" d="M{x(1):.1f} 8V32"/>'
        f'<text x="{x(1):.1f}" y="43">1×</text>'
        f'<path class="span" d="M{x(low):.1f} 20H{x(high):.1f}"/>'
        f'<circle class="dot" cx="{x(ratio):.1f}" cy="20" r="6"/></svg>'
    )


def _rows(low: float, high: float, scale: float, name: str, y: _Place) -> Iterator[str]:
    ticks = list(_ticks(low / scale, high / scale))
    for tick in ticks:
        height = y(tick * scale)
        unit = f" {escape(name)}" if tick == ticks[-1] else ""
        yield f'<path class="grid" d="M{_LEFT:g} {height:.1f}H{_WIDTH - _RIGHT:g}"/>'
        yield f'<text class="end" x="{_LEFT - 8:g}" y="{height + 4:.1f}">{digits(tick)}{unit}</text>'


def _columns(end: float, x: _Place, floor: float) -> Iterator[str]:
    for tick in _ticks(0.0, end):
        yield f'<path class="grid" d="M{x(tick):.1f} {floor:.1f}v5"/>'
        yield f'<text x="{x(tick):.1f}" y="{floor + 20:.1f}">{tick:g} s</text>'


def _ticks(low: float, high: float) -> Iterator[float]:
    """Round tick values between two numbers."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next((power * factor for factor in (1, 2, 5) if power * factor >= 0.8 * rough), 10 * power)
    tick = math.ceil(low / step)
    while tick * step <= high:
        yield float(f"{tick * step:.6g}")
        tick += 1


def _thinned(curve: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    if len(curve) <= _MOST_POINTS:
        return curve
    every = len(curve) / (_MOST_POINTS - 1)
    return [*(curve[int(i * every)] for i in range(_MOST_POINTS - 1)), curve[-1]]
