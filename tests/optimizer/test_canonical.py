"""Canonicalisation: what does nothing goes, what is calculated twice is calculated once, all else stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from superopt.ir import NodeId, Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.cost.runtime.executed_kernels import load_and_list
from superopt.optimizer.cost.runtime.session import Provider
from tests.onnx_io.kit import assert_same_results, listing, model, node, tensor, value, weight


@dataclass(frozen=True)
class Case:
    """Nodes from ``x`` [1, 4, 6, 6] to ``y`` of the same shape, and what is left of them."""

    name: str
    nodes: Sequence[onnx.NodeProto]
    left: str
    weights: Sequence[TensorProto] = ()

    def model(self) -> bytes:
        shape = [1, 4, 6, 6]
        made = model(self.nodes, [value("x", shape)], [value("y", shape)], self.weights)
        return made.SerializeToString()


def integers(name: str, *numbers: int) -> TensorProto:
    return tensor(name, numbers, np.int64)


CASES = (
    Case(
        "identities",
        [node("Dropout", "x", "a"), node("Identity", "a", "b"), node("Relu", "b", "y")],
        "y = Relu(x)",
    ),
    Case(
        "the same shape again",
        [node("Reshape", "x s", "a"), node("Expand", "a one", "b"), node("Relu", "b", "y")],
        "y = Relu(x)",
        [integers("s", 1, 4, -1, 6), integers("one", 1)],
    ),
    Case(
        "reshapes",
        [node("Reshape", "x s", "a"), node("Reshape", "a t", "b"), node("Relu", "b", "c"),
         node("Reshape", "c u", "y")],
        "b = Reshape(x, superopt/shape_0)|c = Relu(b)|y = Reshape(c, u)",
        [integers("s", 4, 36), integers("t", 2, 72), integers("u", 1, 4, 6, 6)],
    ),
    Case(
        "transpositions that cancel",
        [node("Transpose", "x", "a", perm=[0, 2, 3, 1]), node("Transpose", "a", "b", perm=[0, 3, 1, 2]),
         node("Relu", "b", "y")],
        "y = Relu(x)",
    ),
    Case(
        "steps by 1 and 0",
        [node("Mul", "x one", "a"), node("Add", "a zero", "b"), node("Sub", "b zero", "c"),
         node("Div", "c one", "d"), node("Pow", "d one", "e"), node("Relu", "e", "y")],
        "y = Relu(x)",
        [tensor("one", 1), tensor("zero", [0])],
    ),
    Case(
        "vectors and images of 1 and 0",
        [node("Mul", "x ones", "a"), node("Add", "a zeros", "b"), node("Add", "image b", "c"),
         node("Mul", "c few", "y")],
        "y = Mul(x, few)",
        [tensor("ones", [[[1.0]]] * 4), tensor("zeros", [[[0.0]]] * 4),
         tensor("image", [[[0.0] * 6] * 6] * 4), tensor("few", [[[1.0]]] * 3 + [[[2.0]]])],
    ),
    Case(
        "a bias of zeros, of a convolution and after one",
        [node("Conv", "x w zeros", "a"), node("Add", "a column", "b"), node("Relu", "b", "y")],
        "a = Conv(x, w, zeros)|y = Relu(a)",
        [weight("w", 4, 4, 1, 1), tensor("zeros", [0.0] * 4), tensor("column", [[[0.0]]] * 4)],
    ),
    Case(
        "calculated twice",
        [node("Sigmoid", "x", "a"), node("Sigmoid", "x", "b"), node("Mul", "a b", "y")],
        "a = Sigmoid(x)|y = Mul(a, a)",
    ),
    Case(
        "what nothing reads",
        [node("Sigmoid", "x", "a"), node("Tanh", "a", "b"), node("Relu", "x", "y")],
        "y = Relu(x)",
    ),
    Case(
        "a number with an axis",
        [node("Conv", "x w", "c"), node("Mul", "c half", "a"), node("Add", "a half", "y")],
        "c = Conv(x, w)|a = Mul(c, superopt/weight_0)|y = Add(a, superopt/weight_1)",
        [weight("w", 4, 4, 1, 1), tensor("half", [0.5])],
    ),
    Case(
        "repeated beside a tensor of full size",
        [node("ReduceMax", "x", "m", axes=[3]), node("Expand", "m s", "e"), node("Div", "x e", "y")],
        "m = ReduceMax(x)|y = Div(x, m)",
        [integers("s", 1, 4, 6, 6)],
    ),
    Case(
        "repeated beside another repeated tensor",
        [node("ReduceMax", "x", "m", axes=[3]), node("ReduceMax", "x", "n", axes=[3, 2, 1], keepdims=1),
         node("Expand", "m s", "e"), node("Expand", "n s", "f"), node("Div", "e f", "y")],
        "m = ReduceMax(x)|n = ReduceMax(x)|e = Expand(m, s)|f = Expand(n, s)|y = Div(e, f)",
        [integers("s", 1, 4, 6, 6)],
    ),
    Case(
        "repeated, and read by an operator that repeats nothing",
        [node("ReduceMax", "x", "m", axes=[3]), node("Expand", "m s", "e"), node("Mul", "x e", "a"),
         node("Softmax", "e", "b", axis=3), node("Add", "a b", "y")],
        "m = ReduceMax(x)|e = Expand(m, s)|a = Mul(x, e)|b = Softmax(e)|y = Add(a, b)",
        [integers("s", 1, 4, 6, 6)],
    ),
    Case(
        "repeated for a comparison, which as its parts is another for NaN",
        [node("Sqrt", "x", "r"), node("ReduceMax", "x", "m", axes=[3]), node("Expand", "m s", "e"),
         node("GreaterOrEqual", "r e", "g"), node("Cast", "g", "y", to=TensorProto.FLOAT)],
        "r = Sqrt(x)|m = ReduceMax(x)|e = Expand(m, s)|g = GreaterOrEqual(r, e)|y = Cast(g)",
        [integers("s", 1, 4, 6, 6)],
    ),
    Case(
        "nothing",
        [node("Conv", "x w", "a"), node("Relu", "a", "y")],
        "a = Conv(x, w)|y = Relu(a)",
        [weight("w", 4, 4, 1, 1)],
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_is_left(case: Case) -> None:
    before = case.model()
    lifted = lift(load_model(before))
    canonical = canonicalise(lifted)
    after = lower(lifted, canonical.graph, Plan()).to_bytes()
    assert_same_results(before, after)
    assert listing(after).splitlines() == case.left.split("|")
    assert bool(canonical.steps) == (after != before)
    again = canonicalise(lifted)
    assert (again.graph.nodes, again.steps) == (canonical.graph.nodes, canonical.steps)


def test_protected_nodes_stay() -> None:
    lifted = lift(load_model(CASES[0].model()))
    everything = tuple(NodeId(number) for number in range(lifted.graph.next_id))
    assert canonicalise(lifted, everything).graph is lifted.graph


def test_an_output_keeps_its_name() -> None:
    made = model([node("Identity", "x", "y")], [value("x", [2])], [value("y", [2])]).SerializeToString()
    lifted = lift(load_model(made))
    after = lower(lifted, canonicalise(lifted).graph, Plan()).to_bytes()
    assert listing(after) == "y = Identity(x)"


def test_sizes_that_only_an_onnx_node_reads_stay() -> None:
    """The graph knows the shape of an Expand; the ONNX node still reads it from a chain of opaque nodes."""
    nodes = [node("Identity", "x", "a"), node("Shape", "a", "s", end=1), node("Concat", "s t", "u", axis=0),
             node("Expand", "b u", "y")]  # fmt: skip
    shapes = [value("x", ["n", 4, 6]), value("b", [1, 24])], [value("y", ["n", 24])]
    before = model(nodes, *shapes, [integers("t", 24)]).SerializeToString()
    lifted = lift(load_model(before))
    after = lower(lifted, canonicalise(lifted).graph, Plan()).to_bytes()
    assert listing(after) == "s = Shape(x)\nu = Concat(s, t)\ny = Expand(b, u)"


def test_a_gelu_is_fused_although_its_numbers_have_axes(tmp_path: Path) -> None:
    """ONNX Runtime recognises it by numbers of at most one axis; exporters from TensorFlow write four."""
    numbers = {"half": 0.5, "cubed": 0.044715, "slope": 0.7978845608, "one": 1.0}
    weights = [tensor(name, np.full((1, 1, 1, 1), number)) for name, number in numbers.items()]
    nodes = [
        node("Conv", "x w", "a"),
        node("Mul", "half a", "h"),
        node("Pow", "a three", "p"),
        node("Mul", "cubed p", "q"),
        node("Add", "a q", "r"),
        node("Mul", "slope r", "t"),
        node("Tanh", "t", "u"),
        node("Add", "one u", "v"),
        node("Mul", "h v", "g"),
        node("Conv", "g w", "y"),
    ]
    given = (
        [value("x", [1, 4, 6, 6])],
        [value("y", [1, 4, 6, 6])],
        [*weights, tensor("three", 3.0), weight("w", 4, 4, 1, 1)],
    )
    original = model(nodes, *given).SerializeToString()
    lifted = lift(load_model(original))
    canonical = canonicalise(lifted)
    assert [step.what for step in canonical.steps] == ["a number without axes"] * 4
    written = lower(lifted, canonical.graph, Plan()).to_bytes()
    assert_same_results(original, written)
    _, kernels = load_and_list(written, 1, Provider.CPU, tmp_path)
    assert kernels is not None
    assert "com.microsoft.FastGelu" in kernels.kernels
