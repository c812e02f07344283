"""The table of plans: a run that was ended goes on where it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.plans.cells import Cell, append, known_cells, table

CELL = Cell(
    network="mlp",
    devices=6,
    machine="summit-node",
    seed=0,
    operators=47,
    ours=100.0,
    fits=True,
    plain=100.0,
    by="refined",
    experts={"data parallel": 130.0, "Megatron 2-way": 120.0},
    sequential=110.0,
    sampled=99.0,
    proposals=7,
    sampling_factor=2.5,
    is_cut=True,
    alone=400.0,
    planning_seconds=1.0,
    seconds=3.0,
)


def test_finished_cells_are_found_again_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    assert known_cells(path) == []
    append(path, CELL)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"network": "xdl", "dev')
    assert known_cells(path) == [CELL]
    other = replace(CELL, devices=12)
    append(path, other)
    assert known_cells(path) == [CELL, other]


def test_a_row_says_what_was_cut_and_what_is_lost() -> None:
    assert CELL.losses == ("sampling",)
    assert table([CELL]).splitlines()[-1] == (
        "| mlp | 6 | 100 | refined | Megatron 2-way | 1.200 | 2.0 | 1.100 | 0.990 (cut at 2.5x) | 4.0 "
        "| 1.0 + 2.0 |"
    )
