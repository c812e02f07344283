"""Models that steps are built from, and building them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from superopt.axioms import load_axioms
from superopt.onnx_io import ModelSource
from superopt.optimizer.training.step import BuiltStep, build_step
from superopt.step_options import StepSettings, UpdateSettings

Arrays = dict[str, np.ndarray]
BATCH = 4
RATE = 0.05
SGD = UpdateSettings("sgd", learning_rate=RATE)
ADJOINTS = load_axioms().adjoints


def built(model: ModelSource, settings: StepSettings | None = None) -> BuiltStep:
    return build_step(model, settings or StepSettings(update=SGD), ADJOINTS)


def model_of(
    nodes: list[onnx.NodeProto],
    weights: Arrays,
    inputs: dict[str, tuple[int | str, ...]],
    outputs: dict[str, tuple[int | str, ...]],
    opset: int = 18,
) -> onnx.ModelProto:
    def declared(shapes: dict[str, tuple[int | str, ...]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]

    graph = helper.make_graph(
        *(nodes, "net", declared(inputs), declared(outputs)),
        initializer=[numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def linear(batch: int | str = BATCH) -> onnx.ModelProto:
    """logits = x w + b, and an output that no loss reads."""
    random = np.random.default_rng(0)
    weights = {
        "fc/weight": random.normal(size=(5, 3)).astype(np.float32),
        "fc/bias": random.normal(size=3).astype(np.float32),
        "other": random.normal(size=(5, 2)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "fc/weight", "fc/bias"], ["logits"], name="fc"),
        helper.make_node("MatMul", ["x", "other"], ["aside"], name="aside"),
    ]
    return model_of(nodes, weights, {"x": (batch, 5)}, {"logits": (batch, 3), "aside": (batch, 2)})
