"""``--opset``, ``--inline-functions`` and ``--cut-…``: the model is changed, then optimised, and back by its
report."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import parser

import superopt
from superopt.cli.main import run
from superopt.errors import InvalidModelError
from superopt.journeys import optimize_job
from superopt.journeys.changes import adaptation
from superopt.journeys.optimize_job import Attached
from superopt.journeys.replay import replay
from superopt.onnx_io import SourceModel
from superopt.onnx_io.changes.adapting import adapted
from superopt.onnx_io.node_building import copy_of
from tests.conftest import WithLibrary
from tests.onnx_io.kit import assert_same_results, operators, weight

QUICK = ("--budget", "60", "--max-candidates", "20", "--objective", "flops", "--threads", "1")

CHAIN = """
<ir_version: 8, opset_import: ["" : 13, "local" : 1]>
chain (float[n,8] x) => (float[n,4] y)
{
    a = local.soft(x)
    p = MatMul(a, v)
    q = MatMul(p, w)
    y = Relu(q)
}
<domain: "local", opset_import: ["" : 13]>
soft (s) => (t) { t = Sigmoid(s) }
"""
"""Two products, of which that of the weights is computed in advance, behind a call of a function."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    path = tmp_path / "chain.onnx"
    model = parser.parse_model(CHAIN)
    model.graph.initializer.extend([weight("v", 8, 64), weight("w", 64, 4)])
    path.write_bytes(model.SerializeToString())
    return path


def report_of(path: Path, *options: str) -> dict[str, Any]:
    """The report of ``superopt optimize`` as it is typed; the model is ``out.onnx``."""
    out, report = path.with_name("out.onnx"), path.with_name("report.json")
    assert run(["optimize", str(path), "-o", str(out), "--report", str(report), *QUICK, *options]) == 0
    return json.loads(report.read_text())  # type: ignore[no-any-return]


CASES = {
    "another operator set": (
        ["--inline-functions", "--opset", "18"],
        ["inlining 1 function", "converting operator set 13 to 18"],
        "Sigmoid MatMul Relu",
    ),
    "no rule applied": (
        ["--inline-functions", "--max-candidates", "0"],
        ["inlining 1 function"],
        "Sigmoid MatMul MatMul Relu",
    ),
    "a part": (
        ["--cut-input", "a", "--cut-output", "q"],
        ["cutting from 'a' to 'q'"],
        "MatMul",
    ),
    "the beginning": (["--cut-output", "p"], ["cutting to 'p'"], "soft MatMul"),
}


@pytest.mark.parametrize(("options", "done", "written"), CASES.values(), ids=CASES.keys())
def test_the_model_is_changed_and_then_optimised(
    path: Path, options: list[str], done: list[str], written: str
) -> None:
    report = report_of(path, *options)
    assert report["model"]["adapted"] == done
    assert report["model"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    content = path.with_name("out.onnx").read_bytes()
    assert operators(content) == written
    if "--cut-output" not in options:
        assert_same_results(path.read_bytes(), content)
    opset = onnx.ModelProto.FromString(content).opset_import[0].version
    assert opset == (18 if "--opset" in options else 13)
    again = path.with_name("again.onnx")
    assert run(["replay", str(path), str(path.with_name("report.json")), "-o", str(again)]) == 0
    assert again.read_bytes() == content


def test_python_changes_models_too(path: Path) -> None:
    result = superopt.optimize(
        path,
        cut_inputs=["a"],
        cut_outputs=["q"],
        objective="flops",
        budget=60.0,
        max_candidates=20,
        threads=1,
    )
    assert result.report.model.adapted == ("cutting from 'a' to 'q'",)
    assert operators(result.to_bytes()) == "MatMul"


def test_a_model_with_large_weights_is_changed_too(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are moved to another file while it is optimised."""
    monkeypatch.setattr(optimize_job, "_LARGE", 1 << 8)
    arguments: dict[str, object] = {
        "model": str(path),
        "output": None,
        "options": {"objective": "flops", "max_candidates": 0, "inline_functions": True, "opset": 17},
        "database": os.environ["SUPEROPT_DATABASE_URL"],
        "started": None,
    }
    result = optimize_job.optimized(arguments, lambda _: None)
    assert isinstance(result, Attached)
    out = tmp_path / "out.onnx"
    result.save(out)
    assert operators(out.read_bytes()) == "Sigmoid MatMul MatMul Relu"
    assert_same_results(path.read_bytes(), out.read_bytes())
    assert replay(path, result.to_json()).to_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--opset 6", "opset: expected a whole number, at least 7, got 6"),
        ("--opset 18", "the model has functions, which ONNX cannot convert to another operator set: inline"),
        (
            "--inline-functions --opset 12",
            "node 'a' (Sigmoid) cannot be converted from operator set 13 to 12",
        ),
        ("--cut-input b", "cut-input: the model has no tensor 'b'"),
    ],
)
def test_what_cannot_be_done_is_said(
    path: Path, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["optimize", str(path), "-o", str(path.with_name("out.onnx")), *QUICK, *options.split()]) == 2
    assert f"superopt: {message}" in capsys.readouterr().err
    assert not path.with_name("out.onnx").exists()


def test_a_converted_model_that_differs_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the converter of ONNX were wrong about an operator."""

    def wrong(source: SourceModel, opset: int) -> SourceModel:
        proto = copy_of(source.proto)
        proto.graph.node[-1].op_type = "Abs"
        return adapted(source, proto, f"converting to operator set {opset}")

    monkeypatch.setattr(adaptation, "at_opset", wrong)
    arguments: dict[str, object] = {
        "model": str(path),
        "output": None,
        "options": {"opset": 18},
        "database": None,
        "started": None,
    }
    with pytest.raises(InvalidModelError, match="does not compute what the given one does: output y"):
        optimize_job.optimized(arguments, lambda _: None)
