"""The result of ``benchmarks real``: a row for each model and form, kept as a JSON line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from benchmarks.models.peers_table import Standing

OURS = "superopt"
OTHERS = ("onnxsim", "onnxslim", "openvino")

Key = tuple[str, str, float, int]
"""Model, form, seconds of budget, threads."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a rule, or a canonical step, gained in how many places: predicted microseconds."""

    equation: str
    times: int
    microseconds: float


@dataclass(frozen=True, slots=True)
class Contents:
    """What superopt understood of a model: nodes without constants and quantised ones, those without an
    operator in the algebra, quantised ones apart.

    Arithmetic of the returned model in FLOP, None where nothing was priced or at guessed sizes, which are not
    those of the timing; the machine's peak in FLOP per microsecond."""

    nodes: int
    unknown: int
    quantised: int
    flops: int | None
    peak: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One model in one form. ``outcome`` is what superopt made of it: optimized, original or error.

    Microseconds of a run of the original at ``sizes``; None where unknown. ``gains`` are those of the rules
    of the returned model, the largest first.
    """

    model: str
    form: str
    budget: float
    threads: int
    sizes: str
    outcome: str
    why: str
    contents: Contents | None
    gains: tuple[Gain, ...]
    microseconds: float | None
    standings: tuple[Standing, ...]

    @property
    def key(self) -> Key:
        """What was measured, and how."""
        return self.model, self.form, self.budget, self.threads

    @property
    def at_peak(self) -> float | None:
        """The share of the remaining time that the arithmetic would take at the machine's peak; None for
        quantised models, whose products have another peak."""
        ours = self.standing(OURS)
        if self.contents is None or self.contents.flops is None or not self.contents.peak:
            return None
        if self.contents.quantised:
            return None
        if self.microseconds is None or ours is None or ours.ratio is None:
            return None
        remaining = self.microseconds / ours.ratio if self.outcome == "optimized" else self.microseconds
        return self.contents.flops / self.contents.peak / remaining

    @staticmethod
    def missing(key: Key, why: str) -> Cell:
        """A model that could not be installed."""
        return Cell(*key, "", "error", f"not installed: {why}", None, (), None, ())

    @staticmethod
    def of(document: Mapping[str, object]) -> Cell:
        """A cell from its JSON."""
        contents = cast("Mapping[str, object] | None", document["contents"])
        gains = cast("Sequence[Mapping[str, object]]", document["gains"])
        standings = cast("Sequence[Mapping[str, object]]", document["standings"])
        parts: Mapping[str, object] = {
            "contents": None if contents is None else Contents(**contents),  # pyright: ignore[reportArgumentType]
            "gains": tuple(Gain(**gain) for gain in gains),  # pyright: ignore[reportArgumentType]
            "standings": tuple(map(Standing.of, standings)),
        }
        return Cell(**{**document, **parts})  # pyright: ignore[reportArgumentType]

    def standing(self, optimizer: str) -> Standing | None:
        """How an optimizer did; None where it was not tried."""
        return next((found for found in self.standings if found.optimizer == optimizer), None)


def known_cells(path: Path | None) -> list[Cell]:
    """The rows of a file; none without one."""
    if path is None or not path.exists():
        return []
    return [Cell.of(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def append(path: Path | None, cell: Cell) -> None:
    """Keeps a row."""
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(cell)) + "\n")
