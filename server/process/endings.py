"""Outcomes of work in a child process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from superopt.substitution_db.store.records import JsonObject


@dataclass(frozen=True, slots=True)
class Done:
    """The function returned."""

    result: JsonObject


@dataclass(frozen=True, slots=True)
class Failed:
    """The function failed reproducibly or exceeded a limit; ``problem`` is the problem document."""

    problem: JsonObject


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended without an answer."""

    problem: JsonObject


@dataclass(frozen=True, slots=True)
class Stopped:
    """The process ended at the request of its parent."""


Ending: TypeAlias = "Done | Failed | Died | Stopped"
