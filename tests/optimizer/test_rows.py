"""Sequences between convolutions become images of one row, where the runtime is faster at those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from superopt.ir import Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.pipeline.selection import kept_nodes
from tests.onnx_io.forcing import canonical
from tests.onnx_io.kit import assert_same_results, model, node, operators, tensor, value, weight


def conv(given: str, result: str, kernel: str, size: int, groups: int = 1) -> onnx.NodeProto:
    """A convolution that keeps the length."""
    made = node("Conv", f"{given} {kernel}", result, kernel_shape=[size], pads=[size // 2] * 2, group=groups)
    made.name = result
    return made


FIRST, LAST = conv("x", "a", "w", 3), conv("b", "y", "v", 5)
WEIGHTS = [weight("w", 32, 16, 3), weight("v", 32, 32, 5)]
VECTOR, NUMBER = weight("c", 32, 1), tensor("n", 0.5)


@dataclass(frozen=True)
class Case:
    """Nodes from ``x`` [2, 16, 40] to ``y``, and what is written for them."""

    nodes: Sequence[onnx.NodeProto]
    written: str
    weights: Sequence[TensorProto] = ()
    shape: Sequence[int | str] = (2, 16, 40)

    def model(self) -> bytes:
        """The model."""
        inputs, outputs = [value("x", self.shape)], [value("y", [None] * 3)]
        return model(self.nodes, inputs, outputs, [*WEIGHTS, *self.weights]).SerializeToString()


def between(*nodes: onnx.NodeProto, written: str, weights: Sequence[TensorProto] = ()) -> Case:
    """Nodes from ``a`` to ``b`` between two convolutions."""
    return Case([FIRST, *nodes, LAST], f"Reshape Conv {written} Conv Reshape", weights)


CASES = {
    "a convolution": Case([conv("x", "y", "w", 3)], "Reshape Conv Reshape"),
    "of an open length": Case([conv("x", "y", "w", 3)], "Unsqueeze Conv Squeeze", shape=["m", 16, "t"]),
    "by depth": Case([conv("x", "y", "d", 3, 16)], "Reshape Conv Reshape", [weight("d", 16, 1, 3)]),
    "in groups": Case(
        [conv("x", "b", "w", 3), conv("b", "y", "g", 3, 2)],
        "Reshape Conv Conv Reshape",
        [weight("g", 32, 16, 3)],
    ),
    "in small groups": Case([conv("x", "y", "g", 3, 2)], "Conv", [weight("g", 16, 8, 3)]),
    "to few channels": Case([conv("x", "y", "f", 3)], "Conv", [weight("f", 3, 16, 3)]),
    "of few positions": Case([conv("x", "y", "w", 3)], "Conv", shape=[2, 16, 5]),
    "an activation": between(node("Sigmoid", "a", "b"), written="Sigmoid"),
    "a gate": between(node("Tanh", "a", "t"), node("Mul", "a t", "b"), written="Tanh Mul"),
    "a bias": between(node("Add", "a c", "b"), written="", weights=[VECTOR]),
    "a factor for each channel": between(node("Mul", "a c", "b"), written="Mul", weights=[VECTOR]),
    "a gelu": between(
        node("Div", "a r", "d"),
        node("Erf", "d", "e"),
        node("Add", "e o", "p"),
        node("Mul", "a p", "q"),
        node("Mul", "q n", "b"),
        written="Div Erf Add Mul Mul",
        weights=[tensor("r", 2**0.5), tensor("o", 1.0), NUMBER],
    ),
    "a difference from one": between(node("Sub", "o a", "b"), written="Sub", weights=[tensor("o", 1.0)]),
    "a bound": between(node("Max", "a n", "b"), written="Max", weights=[NUMBER]),
    "a number that all elements are added to": between(
        node("Add", "a n", "b"), written="Add", weights=[NUMBER]
    ),
    "a transposed convolution": between(
        node("ConvTranspose", "a u", "b", kernel_shape=[4], strides=[2], pads=[1, 1]),
        written="ConvTranspose",
        weights=[weight("u", 32, 32, 4)],
    ),
    "a pooling": between(node("MaxPool", "a", "b", kernel_shape=[3], pads=[1, 1]), written="MaxPool"),
    "a mean": between(node("AveragePool", "a", "b", kernel_shape=[3], pads=[1, 1]), written="AveragePool"),
    "channels joined": between(
        node("Relu", "a", "r"),
        node("Split", "r", "s t", axis=1),
        node("Concat", "t s", "b", axis=1),
        written="Relu Split Concat",
    ),
    "a function of positions": Case(
        [FIRST, node("Softmax", "a", "b", axis=-1), LAST],
        "Reshape Conv Reshape Softmax Reshape Conv Reshape",
    ),
    "what is read as a sequence, too": Case(
        [
            FIRST,
            node("Relu", "a", "b"),
            conv("b", "e", "v", 5),
            node("Softmax", "b", "s"),
            node("Add", "e s", "y"),
        ],
        "Reshape Conv Relu Conv Reshape Reshape Softmax Add",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sequences_become_images(case: Case) -> None:
    content = case.model()
    written = canonical(content)
    assert sorted(operators(written).split()) == sorted(case.written.split())
    assert_same_results(content, written, rtol=1e-4, m=2, t=23)


def test_what_is_named_stays_a_sequence() -> None:
    content = between(node("Sigmoid", "a", "b"), written="").model()
    lifted = lift(load_model(content))
    kept = canonicalise(lifted, kept_nodes(lifted, ["a"]))
    written = onnx.ModelProto.FromString(lower(lifted, kept.graph, Plan()).to_bytes())
    (first,) = (made for made in written.graph.node if made.name == "a")
    assert [np.prod(a.ints) for a in first.attribute if a.name == "kernel_shape"] == [3]
    assert operators(written.SerializeToString()) == "Conv Sigmoid Reshape Conv Reshape"
