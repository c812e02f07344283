"""superopt inspect names the open dimensions, and says how to give their sizes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from superopt.cli.main import run
from tests.conftest import WithLibrary
from tests.onnx_io.kit import graph, model, node, tensor, value, weight


def test_open_dimensions_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_library: WithLibrary
) -> None:
    path = tmp_path / "lines.onnx"
    made = model(
        [node("Conv", "x w", "c"), node("Relu", "c", "y")],
        [value("x", ["batch", 3, "?", "?"])],
        [value("y", ["batch", 4, "?", "?"])],
        [weight("w", 4, 3, 1, 1)],
    )
    path.write_bytes(made.SerializeToString())
    database = ["--database", with_library(tmp_path / "rules.db")]
    assert run(["inspect", str(path), *database]) == 0
    shown = capsys.readouterr().out
    assert f"superopt optimize {path} -o OUT --dim batch=1 --dim x.2=224 --dim x.3=224\n" in shown
    assert "Symbolic dimensions; the model runs at these sizes; give those you run with:\n" in shown
    for line in ("batch      x axis 0     1", "x.2        x axis 2   224", "x.3        x axis 3   224"):
        assert line in shown
    assert run(["inspect", str(path), "--json", *database]) == 0
    assert json.loads(capsys.readouterr().out)["dimensions"] == [
        {"name": "batch", "inputs": [{"name": "x", "axis": 0}], "guess": 1},
        {"name": "x.2", "inputs": [{"name": "x", "axis": 2}], "guess": 224},
        {"name": "x.3", "inputs": [{"name": "x", "axis": 3}], "guess": 224},
    ]


def test_a_model_that_does_not_run_is_described_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_library: WithLibrary
) -> None:
    path = tmp_path / "never.onnx"
    made = model(
        [node("Reshape", "x shape", "y")], [value("x", ["n", 2])], [value("y", [7, 11])],
        [tensor("shape", [7, 11], np.int64)],
    )  # fmt: skip
    path.write_bytes(made.SerializeToString())
    assert run(["inspect", str(path), "--database", with_library(tmp_path / "rules.db")]) == 0
    assert "; the model was not found to run at these sizes; " in capsys.readouterr().out


def test_compared_models_have_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several where they are free, one where it is given."""
    path = tmp_path / "rows.onnx"
    made = model([node("Relu", "x", "y")], [value("x", ["rows", 4])], [value("y", ["rows", 4])])
    path.write_bytes(made.SerializeToString())
    both = [str(path), str(path)]
    assert run(["check", *both]) == 0
    assert re.search(r"^sizes +rows=\d+; rows=\d+", capsys.readouterr().out, re.MULTILINE)
    assert run(["check", *both, "--dim", "rows=3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sizes"] == [{"rows": 3}]
    assert run(["check", *both, "--dim", "row=3"]) == 2
    assert capsys.readouterr().err == ("superopt: dim: the model has no open dimension 'row'; it has: rows\n")


def test_proposed_sizes_are_ones_that_the_model_runs_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_library: WithLibrary
) -> None:
    path = tmp_path / "sound.onnx"
    made = model(
        [node("Reshape", "sound shape", "frames"), node("MatMul", "frames w", "y")],
        [value("sound", ["batch", "samples"])],
        [value("y", ["frames", 3])],
        [weight("w", 512, 3), tensor("shape", [-1, 512], np.int64)],
    )
    path.write_bytes(made.SerializeToString())
    assert run(["inspect", str(path), "--database", with_library(tmp_path / "rules.db")]) == 0
    assert "--dim batch=1 --dim samples=512\n" in capsys.readouterr().out


def test_weights_in_attributes_and_bodies_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_library: WithLibrary
) -> None:
    """A thousand numbers each: an initialiser, a constant in a branch, the coefficients of a regressor."""
    path = tmp_path / "branches.onnx"
    held = weight("held", 1000)
    branches = [
        graph([node("Constant", "", name, value=held)], [], [value(name, [1000])]) for name in ("p", "q")
    ]
    made = model(
        [
            node("If", "c", "b", then_branch=branches[0], else_branch=branches[1]),
            node("Add", "b w", "y"),
            node(
                "LinearRegressor", "r", "z", domain="ai.onnx.ml", coefficients=[0.5] * 1000, intercepts=[0.0]
            ),
        ],
        [value("c", [], onnx.TensorProto.BOOL), value("r", [1, 1000])],
        [value("y", [1000]), value("z", [1, 1])],
        [weight("w", 1000)],
        domains={"ai.onnx.ml": 3},
    )
    path.write_bytes(made.SerializeToString())
    assert run(["inspect", str(path), "--json", "--database", with_library(tmp_path / "rules.db")]) == 0
    assert json.loads(capsys.readouterr().out)["weight_bytes"] == 4 * (4 * 1000 + 1)


def test_of_many_inputs_some_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a training step, whose states are inputs."""
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", str(tmp_path / "rules.db"))
    names = [f"x{number}" for number in range(15)]
    made = model([node("Sum", " ".join(names), "y")], [value(n, [2]) for n in names], [value("y", [2])], [])
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    assert run(["inspect", str(tmp_path / "m.onnx")]) == 0
    out = capsys.readouterr().out
    assert "x11: f32[2] and 3 more (all with --json)" in out
    assert "x12: f32[2]" not in out
    assert run(["inspect", str(tmp_path / "m.onnx"), "--json"]) == 0
    assert "x14" in capsys.readouterr().out
