"""Nodes in low precision are float32 nodes between casts, and stay so in ONNX Runtime and in optimization."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from superopt.domains import Array
from superopt.ir.graph import NodeId
from superopt.ir.plan import Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.ops.elementwise.precision import Cast
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.training.precision.casts import (
    PrecisionPlan,
    with_casts,
    without_casts,
)
from superopt.optimizer.training.precision.formats import FORMATS, LowPrecision
from superopt.optimizer.training.precision.sensitivity import is_product
from tests.optimizer.training.precision.planned import count_casts, step

_TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}


def _product() -> onnx.ModelProto:
    """x w twice, summed."""
    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 8]) for n in "xwvy"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["x", "v"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "products", tensors[:3], tensors[3:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_numbers_are_rounded_to_the_bit_at_full_optimization_of_the_runtime(precision: LowPrecision) -> None:
    lifted = lift(load_model(_product()))
    products = frozenset(node.id for node in lifted.graph if is_product(node.operator))
    plan = PrecisionPlan(precision, products)
    content = lower(lifted, with_casts(lifted.graph, plan).graph, Plan()).to_bytes()
    random = np.random.default_rng(3)
    x, w, v = (random.integers(-80, 80, (8, 8)).astype(np.float32) for _ in range(3))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = np.asarray(session.run(None, {"x": x, "w": w, "v": v})[0])

    def rounded(array: Array) -> Array:
        return array.astype(_TYPES[precision]).astype(np.float32)

    exact = rounded(rounded(x) @ rounded(w)) + rounded(rounded(x) @ rounded(v))  # float32 sums are exact here
    np.testing.assert_array_equal(found, exact)
    assert not np.array_equal(found, x @ w + x @ v)


def test_the_variance_of_rounding_is_that_of_numbers_that_were_rounded() -> None:
    numbers = np.exp(np.random.default_rng(0).uniform(-6, 6, 100_000)).astype(np.float32)
    for precision, known in FORMATS.items():
        errors = numbers.astype(_TYPES[precision]).astype(np.float64) - numbers
        assert np.mean((errors / numbers) ** 2) == pytest.approx(known.relative_variance, rel=0.02)
        assert np.max(np.abs(errors) / numbers) <= known.unit
    tiny = np.full(4, 3e-8, np.float32)
    np.testing.assert_allclose(FORMATS["f16"].variances(tiny), (2.0**-24) ** 2 / 12)


def test_readers_share_casts_unless_theirs_are_exclusive() -> None:
    graph = lift(load_model(_product())).graph
    products = [node for node in graph if is_product(node.operator)]
    low = frozenset(node.id for node in products)
    x = products[0].inputs[0]
    shared = with_casts(graph, PrecisionPlan("bf16", low))
    assert (shared.shared_casts, shared.exclusive_casts, len(shared.rounded)) == (3, 0, 2)
    exclusive = with_casts(graph, PrecisionPlan("bf16", low, frozenset((node, x) for node in low)))
    assert (exclusive.shared_casts, exclusive.exclusive_casts) == (2, 2)
    assert without_casts(shared.graph).signature == graph.signature
    assert count_casts(graph) == 0
    assert count_casts(shared.graph) == 5


def test_casts_survive_canonicalisation_and_the_file(tmp_path: Path) -> None:
    built = step(precision="bf16")
    built.model.save(tmp_path / "step.onnx")
    lifted = lift(load_model(tmp_path / "step.onnx"))
    pairs = count_casts(lifted.graph)
    assert built.precision is not None
    mixed = built.precision.planned.mixed
    assert pairs == mixed.shared_casts + mixed.exclusive_casts + len(mixed.rounded) > 0
    canonical = canonicalise(lifted, frozenset[NodeId]()).graph
    low = [n for n in canonical if isinstance(n.operator, Cast) and n.operator.to == "bf16"]
    assert len({(node.inputs, node.operator) for node in low}) == len(low) > 0
    assert {node.inputs[0] for node in low} == {
        node.inputs[0]
        for node in lifted.graph
        if isinstance(node.operator, Cast) and node.operator.to == "bf16"
    }
