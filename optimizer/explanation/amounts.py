"""Format quantities with units for reading."""

from __future__ import annotations

import math
from collections.abc import Mapping

_STEPS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "us": ((1e6, "s"), (1e3, "ms"), (1, "µs")),
    "flops": ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"), (1, "FLOP")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
}


def amount(value: float, unit: str) -> str:
    """A cost in the unit of an objective, to three significant digits: ``1500, "us"`` is 1.50 ms."""
    if not math.isfinite(value):
        return "–"
    scale, name = scale_of(abs(value), unit)
    sign = "−" if value < 0 and digits(abs(value) / scale) != "0" else ""
    return f"{sign}{digits(abs(value) / scale)}\u00a0{name}"


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """The divisor, and the name of the scaled unit."""
    steps = _STEPS.get(unit, ((1, unit),))
    return next((step for step in steps if value >= step[0]), steps[-1])


def digits(value: float) -> str:
    """A non-negative number to three significant digits."""
    if value == 0:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    places = 1 if value >= 10 else 2 if value >= 0.1 else min(6, 2 - math.floor(math.log10(value)))
    return f"{value:,.{places}f}"


def change(before: float, after: float, unit: str) -> str:
    """Two costs, with a common unit written once."""
    (scale, name), (scale_after, _) = scale_of(abs(before), unit), scale_of(abs(after), unit)
    if scale == scale_after and math.isfinite(before) and math.isfinite(after):
        return f"{digits(before / scale)} → {digits(after / scale)}\u00a0{name}"
    return f"{amount(before, unit)} → {amount(after, unit)}"


def signed(value: float, unit: str) -> str:
    """A gain or loss with its sign."""
    text = amount(value, unit)
    return f"+{text}" if value > 0 and not text.startswith("0\u00a0") else text


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.1f}\u00a0%"
