"""``python -m benchmarks training`` on a small network: the same losses in JAX, a row, what is missing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.training.graph import Network, slices
from benchmarks.training.jax_steps import FUNCTIONS
from benchmarks.training.rows import FORWARD, JAX, OURS, TORCH, Row, losses_apart
from superopt import zoo
from superopt.errors import UnsupportedError

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="needs a system without PyTorch")
def test_a_small_network_in_a_row(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "benchmarks", "training", "light-gpt2:2",
            "--rounds", "2", "--torch", str(tmp_path / "none"), "--out", str(tmp_path / "out"),
        ],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    header, _, row, *notes = done.stdout.splitlines()
    cells = dict(zip(header.split("|")[1:-1], row.split("|")[1:-1], strict=True))
    filled = [name.strip() for name, cell in cells.items() if cell.strip()]
    assert filled == ["network", "batch", OURS, JAX, FORWARD]
    assert notes == [
        "- light-gpt2: PyTorch: No module named 'torch'",
        "- light-gpt2: torch.compile: No module named 'torch'",
    ]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["training.md"]


def test_a_cell_is_the_median_and_the_median_quotient_of_a_round() -> None:
    times = {OURS: np.array([1.0, 4.0, 2.0]), TORCH: np.array([3.0, 4.0, 5.0])}
    row = Row("mlp", 8, times, ())
    assert row.text == "| mlp | 8 | 2 | 4 (2.50) |  |  |  |"


@pytest.mark.parametrize(
    ("losses", "note"),
    [
        ([2.0, 1.0, 0.5], ""),
        ([2.0001, 1.0, 0.5], ""),
        ([2.0, 1.001, 0.5], "losses 2, 1.001, 0.5, superopt's 2, 1, 0.5"),
    ],
)
def test_losses_agree_to_a_ten_thousandth(losses: list[float], note: str) -> None:
    assert losses_apart(losses, [2.0, 1.0, 0.5]) == note


def test_a_node_without_equivalent_is_named(tmp_path: Path) -> None:
    zoo.save("light-mlp", tmp_path / "mlp.onnx")
    network = Network.read(tmp_path / "mlp.onnx")
    network.require(FUNCTIONS)
    with pytest.raises(UnsupportedError, match="no equivalent of the nodes Relu"):
        network.require({name: own for name, own in FUNCTIONS.items() if name != "Relu"})


def test_slices_of_some_axes() -> None:
    cut = slices(3, np.array([1, 0]), np.array([9, -1]), np.array([2, 0]), np.array([2, 1]))
    assert cut == (slice(0, -1, 1), slice(None), slice(1, 9, 2))
