"""superopt inspect names the open dimensions, and says how to give their sizes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from superopt.cli.main import run
from tests.onnx_io.kit import model, node, tensor, value, weight


def test_open_dimensions_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines.onnx"
    made = model(
        [node("Conv", "x w", "c"), node("Relu", "c", "y")],
        [value("x", ["batch", 3, "?", "?"])],
        [value("y", ["batch", 4, "?", "?"])],
        [weight("w", 4, 3, 1, 1)],
    )
    path.write_bytes(made.SerializeToString())
    database = ["--database", f"sqlite:///{tmp_path / 'rules.db'}"]
    assert run(["inspect", str(path), *database]) == 0
    shown = capsys.readouterr().out
    assert f"superopt optimize {path} -o OUT --dim batch=1 --dim x.2=224 --dim x.3=224\n" in shown
    for line in ("batch      x axis 0", "x.2        x axis 2", "x.3        x axis 3"):
        assert line in shown
    assert run(["inspect", str(path), "--json", *database]) == 0
    assert json.loads(capsys.readouterr().out)["dimensions"] == [
        {"name": "batch", "inputs": [{"name": "x", "axis": 0}], "guess": 1},
        {"name": "x.2", "inputs": [{"name": "x", "axis": 2}], "guess": 224},
        {"name": "x.3", "inputs": [{"name": "x", "axis": 3}], "guess": 224},
    ]


def test_proposed_sizes_are_ones_that_the_model_runs_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sound.onnx"
    made = model(
        [node("Reshape", "sound shape", "frames"), node("MatMul", "frames w", "y")],
        [value("sound", ["batch", "samples"])],
        [value("y", ["frames", 3])],
        [weight("w", 512, 3), tensor("shape", [-1, 512], np.int64)],
    )
    path.write_bytes(made.SerializeToString())
    assert run(["inspect", str(path), "--database", f"sqlite:///{tmp_path / 'rules.db'}"]) == 0
    assert "--dim batch=1 --dim samples=512\n" in capsys.readouterr().out
