"""How work in another process ends."""

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
    """The function failed in a way that would come again, or passed a limit."""

    problem: JsonObject


@dataclass(frozen=True, slots=True)
class Died:
    """The process is gone without an answer."""

    problem: JsonObject


@dataclass(frozen=True, slots=True)
class Stopped:
    """The parent wanted it to end, and it has."""


Ending: TypeAlias = "Done | Failed | Died | Stopped"
