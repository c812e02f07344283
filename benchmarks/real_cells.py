"""The result of ``benchmarks real``: a row for each model and form, kept as a JSON line, and the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from benchmarks.peers_table import Standing

OURS = "superopt"
OTHERS = ("onnxsim", "onnxslim", "openvino")

Key = tuple[str, str, float, int]
"""Model, form, seconds of budget, threads."""

_HEADER = (
    *("model", "form", "understood", "ms", *OTHERS, OURS, "its interval", "outcome", "seconds", "why"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One model in one form. ``outcome`` is what superopt made of it: optimized, original or error.

    ``understood`` of ``nodes``; microseconds of a run of the original at ``sizes``; None where unknown.
    """

    model: str
    form: str
    budget: float
    threads: int
    sizes: str
    outcome: str
    why: str
    nodes: int | None
    understood: int | None
    microseconds: float | None
    standings: tuple[Standing, ...]

    @property
    def key(self) -> Key:
        """What was measured, and how."""
        return self.model, self.form, self.budget, self.threads

    @staticmethod
    def missing(key: Key, why: str) -> Cell:
        """A model that could not be installed."""
        return Cell(*key, "", "error", f"not installed: {why}", None, None, None, ())

    @staticmethod
    def of(document: Mapping[str, object]) -> Cell:
        """A cell from its JSON."""
        standings = cast("Sequence[Mapping[str, object]]", document["standings"])
        return Cell(**{**document, "standings": tuple(map(Standing.of, standings))})  # pyright: ignore[reportArgumentType]

    def standing(self, optimizer: str) -> Standing | None:
        """How an optimizer did; None where it was not tried."""
        return next((found for found in self.standings if found.optimizer == optimizer), None)

    def line(self) -> str:
        """The row of the table."""
        ours = self.standing(OURS)
        understood = "" if self.understood is None else f"{self.understood} of {self.nodes}"
        span = f"{ours.low:.3f} to {ours.high:.3f}" if ours and ours.low and ours.high else ""
        cells = [
            *(self.model, self.form, understood),
            "" if self.microseconds is None else f"{self.microseconds / 1000:.3f}",
            *(_ratio(self.standing(name)) for name in (*OTHERS, OURS)),
            *(span, self.outcome, "" if ours is None else f"{ours.seconds:.1f}", self.why.replace("|", "/")),
        ]
        return f"| {' | '.join(cells)} |"


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


def table(cells: Sequence[Cell]) -> str:
    """A Markdown table, and below it why others have no ratio."""
    lines = [f"| {' | '.join(_HEADER)} |", "|" + "---|" * len(_HEADER), *(cell.line() for cell in cells)]
    notes = [
        f"- {cell.model}, {cell.form}, {found.optimizer}: {found.note}"
        for cell in cells
        for found in cell.standings
        if found.ratio is None and found.note
    ]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _ratio(found: Standing | None) -> str:
    if found is None:
        return ""
    return "none" if found.ratio is None else f"{found.ratio:.3f}"
