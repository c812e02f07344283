"""The journey of docs/own-rules.md: a rule that a user wrote is proved, and makes a model cheaper."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.cli.main import run

RULE = "reduce_sum[axis=-1](matmul(x, y)) => matmul(x, reduce_sum[axis=-1](y))"
FALSE = "mul(sigmoid(x), sigmoid(x)) => sigmoid(x)"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The sum of the outputs of a dense layer."""
    weight = np.random.default_rng(0).standard_normal((32, 256)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "weight"], ["scores"]),
            helper.make_node("ReduceSum", ["scores", "axes"], ["y"], keepdims=1),
        ],
        "scores",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 1])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(np.array([-1]), "axes")],
    )
    path = tmp_path / "scores.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_a_rule_goes_from_text_to_a_cheaper_model(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", f"sqlite:///{tmp_path / 'rules.db'}")
    Path("rules.txt").write_text(f"# A reason.\nsum-of-product: {RULE}\nsquared: {FALSE}\n")
    assert run(["library", "import", "rules.txt"]) == 0
    assert "2 new candidates" in capsys.readouterr().out
    assert run(["library", "verify"]) == 0
    assert "2 judged: 1 verified, 1 refuted" in capsys.readouterr().out

    words = ["-o", "out.onnx", "--objective", "flops", "--max-candidates", "100", "--report", "report.json"]
    assert run(["optimize", str(model), *words]) == 0
    report = json.loads(Path("report.json").read_text())
    assert RULE in {step["equation"] for step in report["trace"]}
    assert report["cost"]["after"] * 50 < report["cost"]["before"]
    assert report["equivalence"]["passed"]

    monkeypatch.setenv("SUPEROPT_DATABASE_URL", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    assert run(["replay", str(model), "report.json", "-o", "again.onnx"]) == 1
    assert "is not among the verified rules" in capsys.readouterr().err
