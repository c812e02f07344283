"""Monotone progress of an attempt at a job, although an optimization may search and check again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from superopt.substitution_db.store.records import JsonObject

PHASES = ("step", "pricing", "search", "check", "timing")
"""The phases in the order of their first occurrence (``superopt.optimizer.search.protocol.Phase``)."""

_MONOTONE: dict[str, Callable[[float, float], float]] = {"seconds": max, "candidates": max, "best_cost": min}


class ForwardProgress:
    """The furthest progress so far: the latest phase, the most seconds and candidates, the best cost. A cost
    that was known stays known.
    """

    def __init__(self) -> None:
        self._furthest: dict[str, object] = {}

    def after(self, report: JsonObject) -> JsonObject:
        """The furthest progress after another report."""
        self._furthest = {**self._furthest, **{name: self._later(name, one) for name, one in report.items()}}
        return dict(self._furthest)

    def _later(self, name: str, value: object) -> object:
        before = self._furthest.get(name)
        if before is None or value is None:
            return before if value is None else value
        if name == "phase":
            return max(before, value, key=_place)
        choose = _MONOTONE.get(name)
        if choose is None or not (_is_number(before) and _is_number(value)):
            return value
        return choose(before, value)


def _place(phase: object) -> int:
    return PHASES.index(phase) if isinstance(phase, str) and phase in PHASES else len(PHASES)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
