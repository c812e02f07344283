"""``python -m benchmarks real`` on a small model: all forms, timed, kept, and printed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.real_cells import Cell, known_cells, table
from benchmarks.real_models import DEVELOPMENT, HELD_OUT, MODELS
from benchmarks.real_origins import GivenFile, Packaged, fetched
from benchmarks.real_sizes import declared_shapes, fixed, open_dimensions

SHAPES = {"x": (3, 64)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relu(x · w) with an open batch, and a mask whose second axis has no name."""
    weight = numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, None])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "mask"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "steps", [x, mask], [y], [weight])
    path = tmp_path_factory.mktemp("real") / "steps.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_sizes_are_those_asked_for_and_1_elsewhere(model: Path, tmp_path: Path) -> None:
    shapes = declared_shapes(model, SHAPES)
    assert shapes == {"x": (3, 64), "mask": (1, 1)}
    assert open_dimensions(model, shapes) == {"batch": 3, "mask.1": 1}
    path = fixed(model, shapes, tmp_path / "fixed.onnx")
    assert open_dimensions(path, shapes) == {}
    session = onnxruntime.InferenceSession(path)
    assert [port.shape for port in (*session.get_inputs(), *session.get_outputs())] == [
        [3, 64],
        [1, 1],
        [3, 64],
    ]


def test_every_form_is_optimised_timed_and_kept(model: Path, tmp_path: Path) -> None:
    cells = tmp_path / "cells.jsonl"
    words = ("--models", model, "--shape", "x=3,64", "--budget", "6", "--seconds", "1", "--out", tmp_path)

    def ran(*more: str) -> str:
        command = [sys.executable, "-m", "benchmarks", "real", *map(str, words), "--cells", str(cells), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    printed = ran("--forms", "exported", "fixed")
    kept = known_cells(cells)
    assert [(cell.model, cell.form, cell.outcome) for cell in kept] == [
        ("steps", "exported", "original"),
        ("steps", "fixed", "original"),
    ]
    for cell in kept:
        ours = cell.standing("superopt")
        assert ours is not None
        assert ours.low is not None
        assert ours.high is not None
        assert ours.ratio is not None
        assert ours.low <= ours.ratio <= ours.high
        assert cell.nodes == 3
        assert cell.understood in (2, 3)  # a factor of an unknown size may be opaque
        assert cell.sizes == "x 3x64, mask 1x1"
    assert printed == table(kept)
    assert ran("--forms", "fixed", "exported") == printed
    assert ran("--table") == printed
    assert json.loads(ran("--table", "--json"))[0]["model"] == "steps"


def test_a_model_that_is_not_there_is_a_row_that_says_so(tmp_path: Path) -> None:
    words = ("--models", tmp_path / "none.onnx", "--forms", "exported", "--out", tmp_path, "--json")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "real", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["outcome"]) == (1, "error")
    assert row["why"].endswith("none.onnx: no such file")


def test_models_are_named_once_each_and_both_sets_are_there() -> None:
    names = [model.name for model in MODELS]
    assert len(names) == len(set(names)) == len(DEVELOPMENT) + len(HELD_OUT)
    assert {model.kind for model in DEVELOPMENT} == {"development"}
    assert {model.kind for model in HELD_OUT} == {"held-out"}


def test_the_held_out_set_has_every_exporter_and_many_packages() -> None:
    exporters = {model.exporter.partition(" (")[0].partition(",")[0] for model in HELD_OUT}
    assert exporters >= {"PyTorch", "TensorFlow", "Keras", "Paddle", "scikit-learn", "JAX"}
    assert {"PyTorch, legacy", "PyTorch, dynamo"} <= {model.exporter for model in HELD_OUT}
    packages = {model.origin.requirement for model in HELD_OUT if isinstance(model.origin, Packaged)}
    assert len(packages) >= 8
    assert not packages & {m.origin.requirement for m in DEVELOPMENT if isinstance(m.origin, Packaged)}


def test_a_cell_of_a_missing_model_is_kept() -> None:
    cell = Cell.missing((MODELS[0].name, "exported", 60.0, 1), "no network")
    assert Cell.of(json.loads(json.dumps(asdict(cell)))) == cell


def test_fetching_prints_where_models_are_and_which_are_not(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origins = [("steps", GivenFile(model)), ("none", GivenFile(tmp_path / "none.onnx"))]
    assert fetched(origins, tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"steps: {model}, ")
    assert lines[1] == f"none: not installed: {tmp_path}/none.onnx: no such file"
