"""A model with large weights is optimised without holding them, and comes out as the one file it was."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidFileError
from superopt.ir import Graph
from superopt.journeys import optimize_job
from superopt.journeys.optimize_job import Attached
from superopt.journeys.replay import replay
from superopt.onnx_io import LiftedModel, LoweredModel, load_model
from superopt.onnx_io.files import source
from superopt.onnx_io.lowering import models
from superopt.optimizer.pipeline.judge import Compared, Equality
from superopt.server.worker import work
from tests.conftest import WithLibrary


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
    model: Path, candidates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary
) -> None:
    monkeypatch.setattr(optimize_job, "_LARGE", 1 << 12)
    database = with_library(tmp_path / "superopt.db")
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


def test_a_recorded_plan_fits_the_model_whose_weights_are_moved(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary
) -> None:
    monkeypatch.setattr(optimize_job, "_LARGE", 1 << 12)
    arguments: dict[str, object] = {
        "model": str(model),
        "output": None,
        "options": {"objective": "latency", "budget": 60.0, "max_candidates": 0},
        "database": with_library(tmp_path / "superopt.db"),
        "started": None,
        "machine": "4x-t4",
    }
    planned = optimize_job.optimized(arguments, lambda _: None).to_json()
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(planned))
    again = optimize_job.optimized({**arguments, "plan": str(plan)}, lambda _: None).to_json()
    assert again["parallel"]["operators"] == planned["parallel"]["operators"]  # type: ignore[index]
    plan.write_text(json.dumps({**planned, "model": {**planned["model"], "sha256": "0"}}))  # type: ignore[dict-item]
    with pytest.raises(InvalidFileError, match="the report is of another model"):
        optimize_job.optimized({**arguments, "plan": str(plan)}, lambda _: None)


@dataclass
class Counts:
    """Files by hash that were loaded, graphs that were lowered, hashes of the files that were judged."""

    loaded: Counter[str] = field(default_factory=Counter[str])
    lowered: list[Graph] = field(default_factory=list[Graph])
    judged: list[str] = field(default_factory=list[str])


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    counts = Counts()
    parsed, original, compare = source._parsed, models.original_of, Equality.compare

    def counted_load(content: bytes, name: str) -> onnx.ModelProto:
        counts.loaded[hashlib.sha256(content).hexdigest()] += 1
        return parsed(content, name)

    def counted_lowering(lifted: LiftedModel, graph: Graph) -> object:
        counts.lowered.append(graph)
        return original(lifted, graph)

    def counted_judgement(equality: Equality, lowered: Callable[[], LoweredModel]) -> Compared:
        compared = compare(equality, lowered)
        assert isinstance(compared.file, bytes)
        counts.judged.append(hashlib.sha256(compared.file).hexdigest())
        return compared

    monkeypatch.setattr(source, "_parsed", counted_load)
    monkeypatch.setattr(models, "original_of", counted_lowering)
    monkeypatch.setattr(Equality, "compare", counted_judgement)
    return counts


def optimize_here(
    model_path: Path,
    output_path: Path,
    options: dict[str, object],
    database_url: str,
    progress: Callable[[dict[str, object]], None],
) -> dict[str, object]:
    """As ``superopt.journeys.supervision.optimize_file`` does in a process of its own."""
    arguments = {"model": str(model_path), "output": str(output_path), "options": options}
    more = {"database": database_url, "started": time.monotonic()}
    report = optimize_job.optimize({**arguments, **more}, progress)["report"]
    assert isinstance(report, dict)
    return report


CLUSTER = "name: pair\nnodes: [{devices: 2, device: t4, link: {bandwidth: 300 GB/s, latency: 1 us}}]"


@pytest.mark.parametrize("is_for_cluster", [False, True])
def test_a_job_loads_a_model_once_and_writes_the_bytes_that_it_judged(
    *, is_for_cluster: bool, model: Path, tmp_path: Path, counts: Counts, with_library: WithLibrary
) -> None:
    directory = tmp_path / "job"
    (directory / "input").mkdir(parents=True)
    given = model.rename(directory / "input" / "model.onnx").read_bytes()
    options: dict[str, object] = {"objective": "flops", "budget": 120.0, "max_candidates": 50}
    if is_for_cluster:
        (directory / "cluster").write_text(CLUSTER)
        options |= {"objective": "latency", "cluster": str(directory / "cluster")}
    arguments: dict[str, object] = {
        "directory": str(directory),
        "job": "0123",
        "model_name": "net.onnx",
        "options": options,
        "database_url": with_library(tmp_path / "superopt.db"),
        "max_model_nodes": 10,
        "optimize_file": "tests.test_optimize_job:optimize_here",
    }
    answer = copy_context().run(work.optimize, arguments, lambda _: None)
    written = directory / str(answer["result"])
    assert counts.loaded[hashlib.sha256(given).hexdigest()] == 1
    assert written.read_bytes() != given
    assert hashlib.sha256(written.read_bytes()).hexdigest() == counts.judged[-1]
    assert len(counts.lowered) == len(counts.judged)
