"""Models and clusters at the edge of what can be planned, and what is refused in a sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidFileError, InvalidModelError, SuperoptError
from superopt.onnx_io import LiftedModel, lift, load_model
from superopt.optimizer import Options, Pipeline, Request, Result, Simulated, optimize
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.parallel.topology import Cluster

SOLO = parse_cluster("name: solo\nnodes: [{device: t4}]", "solo")
LINK = "link: {bandwidth: 300 GB/s, latency: 1 us}"
PAIR = parse_cluster(f"name: pair\nnodes: [{{devices: 2, device: t4, {LINK}}}]", "pair")
TINY = parse_cluster(f"name: tiny\nnodes: [{{devices: 2, device: t4, memory: 1 MiB, {LINK}}}]", "tiny")
MIXED = parse_cluster(
    f"""
name: mixed
nodes: [{{devices: 2, device: a100-sxm-80gb, {LINK}}}, {{devices: 4, device: t4, {LINK}}}]
network: {{bandwidth: 12 GB/s, latency: 5 us}}
""",
    "mixed",
)


def _model(
    nodes: Sequence[tuple[str, Sequence[str]]],
    inputs: Mapping[str, Sequence[int | str]],
    output: Sequence[int | str],
    weights: Mapping[str, tuple[int, ...]],
) -> LiftedModel:
    """Nodes by operator and what they read, each making the next of y0, y1, ...; the last is returned."""
    draw = np.random.default_rng(0)
    graph = helper.make_graph(
        [helper.make_node(kind, read, [f"y{number}"]) for number, (kind, read) in enumerate(nodes)],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(f"y{len(nodes) - 1}", TensorProto.FLOAT, output)],
        [
            numpy_helper.from_array(draw.standard_normal(shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return lift(load_model(model))


LAYERS = [("MatMul", ["x", "w"]), ("Relu", ["y0"]), ("MatMul", ["y1", "u"])]
WEIGHTS = {"w": (512, 1024), "u": (1024, 512)}
DYNAMIC = _model(LAYERS, {"x": ["batch", 512]}, ["batch", 512], WEIGHTS)
DENSE = _model(LAYERS, {"x": [64, 512]}, [64, 512], WEIGHTS)
MODELS = {
    "unknown operator": _model(
        [("MatMul", ["x", "w"]), ("Det", ["y0"])], {"x": [8, 32, 64]}, [8], {"w": (64, 32)}
    ),
    "no weights": _model([("MatMul", ["x", "y"])], {"x": [8, 64], "y": [64, 16]}, [8, 16], {}),
    "one node": _model([("Relu", ["x"])], {"x": [8, 64]}, [8, 64], {}),
    "weights alone": _model([("Relu", ["w"])], {}, [8, 64], {"w": (8, 64)}),
    "nothing to do": _model([("Identity", ["x"])], {"x": [8, 64]}, [8, 64], {}),
    "open size": DYNAMIC,
}


def _run(
    lifted: LiftedModel,
    cluster: Cluster,
    objective: str = "latency",
    memory: int | None = None,
    given: Mapping[str, object] | None = None,
) -> Result:
    dims = {"batch": 64} if lifted is DYNAMIC else {}
    options = Options(
        objective=objective, budget=60, cluster=cluster.name, dims=dims, memory_limit=memory, search="none"
    )
    return Pipeline(Request(lifted, (), options), Simulated(cluster, given=given)).run()


def _section(result: Result) -> Mapping[str, object]:
    assert result.report.parallel is not None
    return result.report.parallel


@pytest.mark.parametrize("cluster", [SOLO, PAIR, MIXED], ids=lambda cluster: cluster.name)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_whatever_runs_is_planned_and_written(model: LiftedModel, cluster: Cluster) -> None:
    result = _run(model, cluster, "training")
    assert result.report.returned == "optimized", result.report.why
    section = _section(result)
    total = cast("Mapping[str, float]", section["predicted"])["total"]
    baselines = cast("Sequence[Mapping[str, float]]", section["baselines"])
    assert all(total <= baseline["total"] for baseline in baselines)
    written = result.model.to_bytes()
    assert len(load_model(written).proto.graph.node) == len(model.source.proto.graph.node)


def test_what_does_not_fit_comes_back_with_what_would_be_enough() -> None:
    result = _run(DENSE, TINY)
    assert (result.report.returned, result.report.parallel) == ("original", None)
    assert "does not fit on tiny" in result.report.why
    assert "8 such devices would be enough, or 2.50 MiB on each" in result.report.why


def test_what_is_said_to_be_enough_is_enough() -> None:
    why = _run(DENSE, PAIR, memory=1 << 20).report.why
    said = re.search(r"or ([\d.]+) MiB on each of its devices", why)
    assert said is not None, why
    enough = math.floor(float(said[1]) * (1 << 20))
    assert _run(DENSE, PAIR, memory=enough).report.returned == "optimized"


def test_a_memory_limit_is_for_each_device() -> None:
    limit = 3 << 20
    memory = cast("Sequence[Mapping[str, int]]", _section(_run(DENSE, PAIR, memory=limit))["memory"])
    assert all(device["bytes"] <= device["limit"] == limit for device in memory)
    assert max(device["bytes"] for device in memory) > limit // 2


def test_a_plan_of_a_report_is_for_its_model_alone() -> None:
    report = _run(DENSE, PAIR).report.to_json()
    again = _section(_run(DENSE, PAIR, given=report))
    assert again["operators"] == cast("Mapping[str, object]", report["parallel"])["operators"]
    with pytest.raises(InvalidFileError, match="the report is of another model: expected sha256"):
        _run(MODELS["no weights"], PAIR, given=report)
    section = cast("Mapping[str, object]", report["parallel"])
    with pytest.raises(InvalidFileError, match="the graph has no operator"):
        _run(MODELS["no weights"], PAIR, given=section)


@pytest.mark.parametrize(
    ("model", "dims", "error", "message"),
    [
        (DYNAMIC, {}, InvalidModelError, "needs the size of batch: give it with --dim batch=SIZE"),
        (DENSE, {"batch": 8}, SuperoptError, "the model has no open dimension 'batch'"),
    ],
)
def test_sizes_are_asked_for(
    model: LiftedModel, dims: Mapping[str, int], error: type[SuperoptError], message: str
) -> None:
    options = Options(cluster="pair", dims=dims)
    with pytest.raises(error, match=message):
        optimize(model, (), options, Simulated(PAIR))
