"""Outputs and captured values keep their names when the nodes that give them are rewritten."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.errors import SuperoptError
from superopt.ir import Plan
from superopt.onnx_io import lift, load_model, lower
from tests.onnx_io.kit import graph, listing, model, node, tensor, value, weight
from tests.onnx_io.lowering.rewriting import COMMUTE, RELU_TWICE, after


def test_graph_outputs_keep_their_names() -> None:
    nodes = [node("Relu", "x", "a"), node("Relu", "a", "y"), node("Tanh", "a", "z")]
    made = model(nodes, [value("x", [3])], [value("y", [3]), value("a", [3]), value("z", [3])])
    assert listing(after(made, RELU_TWICE)) == "a = Relu(x)\nz = Tanh(a)\ny = Identity(a)"


def test_a_new_node_takes_over_the_name_of_an_output() -> None:
    nodes = [node("Sigmoid", "x", "a"), node("Add", "a x", "y")]
    made = model(nodes, [value("x", [3])], [value("y", [3])])
    assert listing(after(made, COMMUTE)) == "a = Sigmoid(x)\ny = Add(x, a)"


def test_a_copied_node_takes_over_the_name_of_an_output() -> None:
    nodes = [node("Sigmoid", "x", "a"), node("Identity", "a", "y"), node("Tanh", "a", "z")]
    made = model(nodes, [value("x", [3])], [value("y", [3]), value("z", [3])])
    assert listing(after(made, "identity(x) => x")) == "y = Sigmoid(x)\nz = Tanh(y)"


def test_outputs_that_are_inputs_or_weights_get_an_identity() -> None:
    nodes = [node("Identity", "x", "y"), node("Identity", "w", "z")]
    made = model(nodes, [value("x", [3])], [value("y", [3]), value("z", [3])], [weight("w", 3)])
    result = after(made, "identity(x) => x", "identity(x) => x")
    assert listing(result) == "y = Identity(x)\nz = Identity(w)"


def test_outputs_may_trade_places() -> None:
    nodes = [node("Relu", "x", "y"), node("Tanh", "x", "z")]
    lifted = lift(load_model(model(nodes, [value("x", [3])], [value("y", [3]), value("z", [3])])))
    editor = lifted.graph.edit()
    editor.set_outputs(reversed(lifted.graph.outputs))
    assert listing(lower(lifted, editor.build(), Plan()).to_bytes()) == "z = Relu(x)\ny = Tanh(x)"


def test_captured_values_keep_their_names_when_they_are_rewritten() -> None:
    branch = graph([node("Tanh", "a", "t")], [], [value("t", [3])])
    other = graph([node("Neg", "a", "n")], [], [value("n", [3])])
    nodes = [
        node("Relu", "x", "r"),
        node("Relu", "r", "a"),
        node("If", "yes", "y", then_branch=branch, else_branch=other),
        node("Sigmoid", "r", "z"),
    ]
    weights = [tensor("yes", 1, np.bool_)]
    made = model(nodes, [value("x", [3])], [value("y", [3]), value("z", [3])], weights)
    assert listing(after(made, RELU_TWICE)) == "a = Relu(x)\ny = If(yes)\nz = Sigmoid(a)"
    made.graph.output.append(value("r", [3]))
    assert listing(after(made, RELU_TWICE)) == "r = Relu(x)\na = Identity(r)\ny = If(yes)\nz = Sigmoid(r)"


def test_a_name_that_two_tensors_would_need_is_an_error() -> None:
    """No rewriting does this: two readers that capture one name come to read different values."""
    branch = graph([node("Tanh", "a", "t")], [], [value("t", [3])])
    nodes = [node("Relu", "x", "a"), node("Sigmoid", "x", "b"),
             *(node("If", "yes", y, then_branch=branch, else_branch=branch) for y in "yz")]  # fmt: skip
    made = model(nodes, [value("x", [3])], [value("y", [3]), value("z", [3])], [tensor("yes", 1, np.bool_)])
    lifted = lift(load_model(made))
    relu, sigmoid = (lifted.graph[lifted.graph.with_operator(name)[0]].value for name in ("relu", "sigmoid"))
    first = next(n for n in lifted.graph if n.operator.name == "opaque")
    editor = lifted.graph.edit()
    editor.set_inputs_of(first.id, tuple(sigmoid if v == relu else v for v in first.inputs))
    with pytest.raises(SuperoptError, match="two different tensors would have to be called 'a'"):
        lower(lifted, editor.build(), Plan())
