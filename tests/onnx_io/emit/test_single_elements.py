"""Operands of one element have the rank of the other operand where its last axis has size 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import shape_inference

from superopt.ir import ElementType, Graph, Input, TensorType
from superopt.onnx_io import build_model
from superopt.ops import Operator
from superopt.ops.elementwise.arithmetic import Add, Divide, Scale
from superopt.ops.filled import Full
from superopt.ops.shape import Broadcast
from tests.onnx_io.kit import session

Shape = tuple[int, ...]


def by_input(operator: Operator, shape: Shape) -> onnx.ModelProto:
    """The operator of an input and a 0-d input."""
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(ElementType.FLOAT, shape))).value
    number = editor.add(Input("s", TensorType(ElementType.FLOAT, ()))).value
    other = number if isinstance(operator, Scale) else editor.add(Broadcast(shape), [number]).value
    editor.set_outputs(editor.add(operator, [x, other]).values)
    return onnx.load_from_string(build_model(editor.build(), {}))


def by_constant(operator: Operator, shape: Shape) -> onnx.ModelProto:
    """The operator of an input and 3."""
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(ElementType.FLOAT, shape))).value
    number = editor.add(Full(3, ())).value
    other = number if isinstance(operator, Scale) else editor.add(Broadcast(shape), [number]).value
    editor.set_outputs(editor.add(operator, [x, other]).values)
    return onnx.load_from_string(build_model(editor.build(), {}))


def second_rank(model: onnx.ModelProto) -> int:
    """The rank of the second operand of the last node."""
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    name = graph.node[-1].input[1]
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    ranks |= {
        value.name: len(value.type.tensor_type.shape.dim) for value in (*graph.input, *graph.value_info)
    }
    return ranks[name]


OPERATORS = (Scale(), Add(), Divide())


@pytest.mark.parametrize("operator", OPERATORS, ids=repr)
@pytest.mark.parametrize("build", [by_input, by_constant])
@pytest.mark.parametrize(
    ("shape", "rank"),
    [((5, 7, 1, 1), 4), ((5, 1), 2), ((5, 7, 3, 1), 4), ((5, 7), 0), ((1, 1), 0), ((5,), 0)],
)
def test_rank_is_raised_where_the_last_axis_has_size_1(
    build: Callable[[Operator, Shape], onnx.ModelProto], operator: Operator, shape: Shape, rank: int
) -> None:
    model = build(operator, shape)
    assert second_rank(model) == rank
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    feeds = {"x": x, "s": np.asarray(3, np.float32)}
    (got,) = session(model.SerializeToString()).run(
        None, {value.name: feeds[value.name] for value in model.graph.input}
    )
    expected = {"scale": x * 3, "add": x + 3, "div": x / 3}[operator.name]
    np.testing.assert_allclose(got, expected, rtol=1e-6)
