"""An open batch is declared where ONNX Runtime does not infer its name, so that it may be empty."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.equations import format_equation
from superopt.generator.bilinear import filter_rules, filters
from superopt.ir import Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.optimizer.cost.runtime.session import LoadedModel
from tests.onnx_io.kit import model, node, tensor, value, weight
from tests.onnx_io.lowering.rewriting import rewritten, touch


def declared(content: bytes) -> list[list[str | int]]:
    """The sizes of tensors that are declared beside inputs and outputs."""
    values = onnx.load_from_string(content).graph.value_info
    return [[size.dim_param or size.dim_value for size in v.type.tensor_type.shape.dim] for v in values]


@pytest.mark.parametrize(
    ("shape", "target", "back", "expected"),
    [
        (["n", 4], [-1, 2], [-1, 4], [["n", 4]]),
        (["n", "t", 4], [-1, 4], [-1, 4], []),
        (["n", 4], [1, -1, 4], [1, -1, 2, 2], []),
        (["?", 4], [-1, 2], [-1, 4], []),
        ([6, 4], [-1, 2], [-1, 4], []),
    ],
)
def test_only_a_batch_of_inputs_is_declared(
    shape: list[str | int], target: list[int], back: list[int], expected: list[list[str | int]]
) -> None:
    nodes = [node("Reshape", "x s", "a"), node("Reshape", "a r", "b"), node("Relu", "b", "y")]
    weights = [tensor("s", target, np.int64), tensor("r", back, np.int64)]
    made = model(nodes, [value("x", shape)], [value("y", [None] * len(back))], weights)
    lifted = lift(load_model(made))
    assert declared(lower(lifted, lifted.graph, Plan()).to_bytes()) == []
    content = lower(lifted, touch(lifted, "reshape"), Plan()).to_bytes()
    assert declared(content) == expected
    onnx.checker.check_model(content, full_check=True)


def test_a_network_with_a_bilinear_convolution_takes_an_empty_batch() -> None:
    """Without the declaration, ONNX Runtime adds a Reshape that refuses it before the sum."""
    nodes = [
        node("Conv", "x v", "a", pads=[1] * 4),
        node("Conv", "a w", "b", pads=[1] * 4, strides=[2, 2]),
        node("Conv", "a u", "c", strides=[2, 2]),
        node("Add", "b c", "s"),
        node("Relu", "s", "y"),
    ]
    weights = [weight("v", 16, 16, 3, 3), weight("w", 16, 16, 3, 3), weight("u", 16, 16, 1, 1)]
    made = model(nodes, [value("x", ["n", 16, 8, 8])], [value("y", ["n", 16, 4, 4])], weights)
    lifted = lift(load_model(made))
    *_, both = filter_rules(filters(2, 3)[0])
    content = lower(lifted, rewritten(lifted, format_equation(both.equation)), Plan()).to_bytes()
    assert declared(content) == [["n", 16, 8, 8]]
    (got,) = LoadedModel(content, threads=1).run({"x": np.zeros((0, 16, 8, 8), np.float32)})
    assert np.shape(got) == (0, 16, 4, 4)
