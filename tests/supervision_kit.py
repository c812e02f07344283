"""A small model, and jobs about it whose process does what ``supervised_functions`` says."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from superopt.journeys.supervision import Job

HERE = "tests.supervised_functions"
BUDGET = 0.5


def small_network(weights: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def job_about(model: Path, function: str, **others: object) -> Job:
    out = model.with_name("out.onnx")
    reports = (model.with_name("report.json"),)
    values: dict[str, object] = {"budget": BUDGET, "started": time.monotonic(), "reports": reports, **others}
    return Job(model, out, {"budget": BUDGET}, function=f"{HERE}:{function}", **values)  # type: ignore[arg-type]
