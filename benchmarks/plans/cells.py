"""Cells of the table of plans: kept as JSON lines, and printed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

UNITY = {
    "resnext50": 1.0, "inception-v3": 1.3, "mlp": 2.0, "xdl": 1.9, "dlrm": 3.6, "candle-uno": 1.6,
    "bert-large": 1.0,
}  # fmt: skip
"""Unity's gain over the best existing approach (section 6.2, figure 14), the largest of all machines."""

TIES = 0.001
"""Times that differ by less than this share are equal."""

_HEADER = (
    "network", "devices", "ours us", "by", "best expert", "x expert", "Unity", "x sequential", "x sampling",
    "x one device", "search s",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One network on one machine. Microseconds by simulation: ``ours``, ``plain`` of the graph as it is,
    ``experts`` that fit, ``sequential`` (rewritten for one device, then planned), ``sampled`` by Metropolis
    (with ``sampling_factor`` times our seconds of the processor; ``is_cut``: it should have had more),
    ``alone`` on one device."""

    network: str
    devices: int
    machine: str
    seed: int
    operators: int
    ours: float
    fits: bool
    plain: float
    by: str
    experts: Mapping[str, float]
    sequential: float | None
    sampled: float | None
    proposals: int
    sampling_factor: float
    is_cut: bool
    alone: float
    planning_seconds: float
    seconds: float

    @property
    def best_expert(self) -> tuple[str, float]:
        """The fastest plan of experts that fits."""
        return min(self.experts.items(), key=lambda item: item[1], default=("none fits", float("nan")))

    @property
    def losses(self) -> tuple[str, ...]:
        """What was faster than our plan."""
        others = {"expert": self.best_expert[1], "sequential": self.sequential, "sampling": self.sampled}
        return tuple(
            name for name, time in others.items() if time is not None and time < (1 - TIES) * self.ours
        )

    def row(self) -> tuple[str, ...]:
        """The row of the table."""
        name, expert = self.best_expert
        sampled = "" if self.sampled is None else f"{self.sampled / self.ours:.3f}"
        return (
            self.network,
            str(self.devices),
            f"{self.ours:,.0f}" if self.fits else "does not fit",
            self.by if self.ours == self.plain else f"{self.by}, rewritten",
            name,
            f"{expert / self.ours:.3f}",
            str(UNITY.get(self.network, "")),
            "" if self.sequential is None else f"{self.sequential / self.ours:.3f}",
            f"{sampled} (cut at {self.sampling_factor:g}x)" if self.is_cut else sampled,
            f"{self.alone / self.ours:.1f}",
            f"{self.planning_seconds:.1f} + {self.seconds - self.planning_seconds:.1f}",
        )

    def line(self) -> str:
        """The same in one line, with what is lost."""
        pairs = zip(_HEADER, self.row(), strict=True)
        lost = f"; SLOWER THAN {', '.join(self.losses)}" if self.losses else ""
        return ", ".join(f"{name} {value}" for name, value in pairs) + lost


def known_cells(path: Path | None) -> list[Cell]:
    """The cells of a file; none where there is no file. A last line that was not finished is left out."""
    if path is None or not path.exists():
        return []
    names = {field.name for field in fields(Cell)}
    found: list[Cell] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            values = json.loads(line)
        except json.JSONDecodeError:
            continue
        if set(values) == names:
            found.append(Cell(**values))
    return found


def append(path: Path | None, cell: Cell) -> None:
    """Adds a cell to the file, on the disk when this returns."""
    if path is None:
        return
    with path.open("a+b") as file:
        if file.tell() and path.read_bytes()[-1:] != b"\n":
            file.write(b"\n")
        file.write(json.dumps(asdict(cell)).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def table(cells: Sequence[Cell]) -> str:
    """All cells in Markdown, network by network."""
    order = list(dict.fromkeys(cell.network for cell in cells))
    ordered = sorted(cells, key=lambda cell: (order.index(cell.network), cell.devices))
    rows = [_HEADER, ("---",) * len(_HEADER), *(cell.row() for cell in ordered)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
