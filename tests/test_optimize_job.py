"""A model with large weights is optimised without holding them, and comes out as the one file it was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt import optimize_job
from superopt.onnx_io import load_model
from superopt.optimize_job import Attached
from superopt.recorded import replay


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two products of which one order is far cheaper."""
    random = np.random.default_rng(0)
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [d, 256]) for n, d in (("x", 256), ("y", 256))
    ]
    ports[1].type.tensor_type.shape.dim[1].dim_value = 4
    weights = [
        numpy_helper.from_array(random.normal(size=shape).astype(np.float32), name)
        for name, shape in (("v", (256, 256)), ("w", (256, 4)))
    ]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], weights)
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("candidates", [50, 0])
def test_it_comes_out_as_one_file(
    model: Path, candidates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimize_job, "_LARGE", 1 << 12)
    database = f"sqlite:///{tmp_path / 'superopt.db'}"
    options: dict[str, object] = {"objective": "flops", "budget": 120.0, "max_candidates": candidates}
    arguments: dict[str, object] = {
        "model": str(model),
        "output": None,
        "options": options,
        "database": database,
        "started": None,
    }
    result = optimize_job.optimized(arguments, lambda _: None)
    assert isinstance(result, Attached)
    out = tmp_path / "out.onnx"
    result.save(out)
    report = result.to_json()
    assert report["model"]["sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()  # type: ignore[index]
    assert report["model"]["name"] == "net.onnx"  # type: ignore[index]
    assert not load_model(out).has_external_data
    assert sorted(path.name for path in tmp_path.glob("*.onnx")) == ["net.onnx", "out.onnx"]
    assert not list(tmp_path.glob("*.data"))
    if result.report.returned == "original":
        assert out.read_bytes() == model.read_bytes()
    assert replay(model, report, database=database).to_bytes() == out.read_bytes()
