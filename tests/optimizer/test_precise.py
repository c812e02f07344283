"""Models evaluated in double precision, and with weights that are off by one unit."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from superopt.errors import UnsupportedError
from superopt.onnx_io import load_model
from superopt.onnx_io.changes.probing import perturbed
from superopt.optimizer.check.precise import PreciseModel
from tests.onnx_io.kit import graph, model, node, tensor, value
from tests.optimizer.equivalence_models import (
    NETWORKS,
    Made,
    detector,
    network,
    typed,
)


def test_double_precision_is_what_numpy_computes() -> None:
    model = detector(0.3, -2)
    run = PreciseModel(load_model(model), 1)
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    found = run.run({"x": x}, math.inf, ("t",))
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(float) for tensor in model.graph.initializer}
    expected = x.astype(float) @ weights["w"] + weights["shift"]
    np.testing.assert_allclose(found.tensors["t"], expected, rtol=1e-13)
    np.testing.assert_allclose(found.tensors["y"], 1 / (1 + np.exp(-expected)), atol=1e-15)
    assert (found.nodes, found.single) == (3, 0)
    with pytest.raises(UnsupportedError, match="no time"):
        run.run({"x": x}, time.monotonic() - 1)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "weight"),
    [
        ("MatMul", "x w", {}, (6, 9)),
        ("Gemm", "x w", {}, (6, 9)),
        ("Gemm", "x w row", {"alpha": 0.5, "beta": 2.0}, (6, 9)),
        ("Gemm", "x w row", {"transB": 1}, (9, 6)),
        ("Gemm", "x w column", {"transB": 1}, (9, 6)),
        ("Gemm", "y w row", {"transA": 1}, (6, 9)),
        ("Gather", "w indices", {"axis": 0}, (6, 9)),
        ("Gather", "w indices", {"axis": 1}, (6, 9)),
    ],
)
def test_large_matrices_are_converted_in_parts(
    kind: str, inputs: str, attributes: dict[str, object], weight: tuple[int, int]
) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 6)).astype(np.float32)
    contents = {
        "w": random.standard_normal(weight).astype(np.float32),
        "row": random.standard_normal(9).astype(np.float32),
        "column": random.standard_normal((4, 1)).astype(np.float32),
        "indices": np.array([[0, 5], [3, 3]]),
    }
    read = {name: content for name, content in contents.items() if name in inputs.split()}
    feeds = {"x": x, "y": x.T} if kind != "Gather" else {}
    nodes: list[Made] = [(kind, inputs, "z", attributes), ("Relu", "z", "out", {})]
    shapes = {name: list(array.shape) for name, array in feeds.items()}
    model = load_model(typed(network(nodes, dict(read), shapes, {"out": TensorProto.FLOAT})))
    whole, parts = (PreciseModel(model, 1, part_bytes=size).run(feeds, math.inf) for size in (1 << 20, 64))
    np.testing.assert_allclose(parts.tensors["out"], whole.tensors["out"], rtol=1e-13)
    assert parts.tensors["out"].dtype == np.float64
    assert (parts.nodes, parts.single) == (2, 0)


def test_convolutions_are_evaluated_in_double_precision() -> None:
    """The runtime has no kernel for them: the algebra's meaning, which the kernel of float32 confirms."""
    model = NETWORKS["image"]
    x = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    found = PreciseModel(load_model(model), 1).run({"x": x}, math.inf, ("c1",)).tensors["c1"]
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(float) for tensor in model.graph.initializer}
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, weights["w1"]) + weights["b1"].reshape(1, -1, 1, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_bodies_with_external_data_run_in_double_precision(tmp_path: Path) -> None:
    """An initialiser of a branch and a constant in it, stored in a file beside the model."""
    inside = tensor("w", np.arange(4, dtype=np.float32))
    branch = graph(
        [node("Constant", "", "c", value=tensor("c", np.full(4, 3, np.float32))), node("Mul", "x c", "m"),
         node("Add", "m w", "r")],
        [],
        [value("r", [4])],
        [inside],
    )  # fmt: skip
    other = graph([node("Neg", "x", "n")], [], [value("n", [4])])
    made = model(
        [node("If", "f", "y", then_branch=branch, else_branch=other)],
        [value("f", [], TensorProto.BOOL), value("x", [4])],
        [value("y", [4])],
    )
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, convert_attribute=True)
    assert load_model(tmp_path / "m.onnx").has_external_data
    x = np.array([1, -2, 0.5, 4], np.float32)
    found = PreciseModel(load_model(tmp_path / "m.onnx"), 1).run({"f": np.array(1, bool), "x": x}, math.inf)
    np.testing.assert_allclose(found.tensors["y"], 3 * x + np.arange(4))


def test_perturbed_weights_are_one_unit_off() -> None:
    model = detector(0.3, -2)
    moved = onnx.ModelProto.FromString(perturbed(model.SerializeToString(), 0))
    for before, after in zip(model.graph.initializer, moved.graph.initializer, strict=True):
        left, right = numpy_helper.to_array(before), numpy_helper.to_array(after)
        assert np.array_equal(
            np.abs(right.view(np.int32) - left.view(np.int32)), np.ones_like(left, np.int32)
        )
