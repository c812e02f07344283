"""ONNX models for the optimizer's tests, built from graphs, with seeded weights."""

from __future__ import annotations

import math

import numpy as np
import onnx

from superopt.ir import Graph, Weight
from superopt.onnx_io import LiftedModel, build_model, lift, load_model
from superopt.optimizer import Measured, Options, Pipeline, Request, Result
from superopt.optimizer.cost import CostStore
from superopt.optimizer.cost.runtime.session import Array
from tests.optimizer.rules import ASSOCIATIVE, DISTRIBUTIVE, rules

OPSET = 17


def weights_of(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Normal numbers scaled by fan-in, for every weight of the graph."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for node in graph:
        if isinstance(node.operator, Weight):
            shape = tuple(size for size in node.operator.type.shape if isinstance(size, int))
            fan_in = math.prod(shape[1:]) if len(shape) == 4 else shape[0] if len(shape) == 2 else 1
            values = random.standard_normal(shape) * math.sqrt(2 / fan_in)
            found[node.operator.label] = values.astype(np.float32)
    return found


def model_of(graph: Graph, seed: int = 0) -> bytes:
    """The graph as an ONNX model."""
    return build_model(graph, weights_of(graph, seed), OPSET)


def lifted(graph: Graph, seed: int = 0) -> LiftedModel:
    """The graph written as ONNX and lifted again."""
    return lift(load_model(model_of(graph, seed)))


def run(
    model: LiftedModel,
    costs: CostStore,
    texts: tuple[str, ...] = (ASSOCIATIVE, DISTRIBUTIVE),
    **options: object,
) -> Result:
    """The journey of a model in a short time, with few rules."""
    given: dict[str, object] = {"budget": 6.0, "threads": 1, **options}
    options = Options(**given)  # type: ignore[arg-type]
    return Pipeline(Request(model, rules(*texts), options), Measured(costs)).run()


def lifted_text(graph: str) -> LiftedModel:
    """A graph in ONNX's text, lifted."""
    text = f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g {graph}'
    return lift(load_model(onnx.parser.parse_model(text)))
