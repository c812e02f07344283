"""Transposes around steps that may precede them cancel, and the results stay what they are."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from superopt.ir import Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.pipeline.selection import kept_nodes
from tests.onnx_io.kit import assert_same_results, model, node, operators, tensor, value, weight

TO_ROWS, BACK = [0, 2, 3, 1], [0, 3, 1, 2]
IMAGE = ("n", 4, 5, 6)
"""[n, c, h, w]; with channels last, [n, 5, 6, 4]."""

LAST = [weight(name, 1, 1, 1, 4) for name in ("v", "w")]


def canonical(content: bytes, *kept: str) -> bytes:
    lifted = lift(load_model(content))
    return lower(lifted, canonicalise(lifted, kept_nodes(lifted, kept)).graph, Plan()).to_bytes()


def island(*between: onnx.NodeProto, constants: Sequence[onnx.TensorProto] = ()) -> bytes:
    """The nodes between a Transpose of x to a and one of z to y, each beside an activation."""
    nodes = [
        node("Tanh", "x", "x0"),
        node("Transpose", "x0", "a", perm=TO_ROWS),
        *between,
        node("Transpose", "z", "z0", perm=BACK),
        node("Tanh", "z0", "y"),
    ]
    return model(nodes, [value("x", IMAGE)], [value("y", [None] * 4)], [*constants]).SerializeToString()


@pytest.mark.parametrize(
    ("between", "constants", "written"),
    [
        ([node("Relu", "a", "z")], [], "Tanh Relu Tanh"),
        (
            [node("Add", "a v", "b"), node("Mul", "b w", "c"), node("Relu", "c", "z")],
            LAST,
            "Tanh Add Mul Relu Tanh",
        ),
        ([node("Sigmoid", "a", "s"), node("Mul", "a s", "z")], [], "Tanh Sigmoid Mul Tanh"),
        (
            [node("Clip", "a low high", "z")],
            [tensor("low", 0, np.float32), tensor("high", 6, np.float32)],
            "",
        ),
        (
            [node("Concat", "a a", "b", axis=-1), node("ReduceMax", "b", "z", axes=[3])],
            [],
            "Tanh Concat ReduceMax Tanh",
        ),
        ([node("Split", "a", "b c", axis=3), node("Concat", "c b", "z", axis=3)], [], ""),
        ([node("ReduceMean", "a", "z", axes=[1, 2])], [], ""),
        ([node("Add", "a k", "z")], [weight("k", 5, 6, 4)], "Tanh Add Tanh"),
        ([node("Add", "a k", "z")], [weight("k", 1, 5, 6, 1)], "Tanh Add Tanh"),
    ],
)
def test_what_lies_between_follows_directly(
    between: list[onnx.NodeProto], constants: list[onnx.TensorProto], written: str
) -> None:
    content = island(*between, constants=constants)
    result = canonical(content)
    assert "Transpose" not in operators(result)
    assert written in ("", operators(result))
    assert_same_results(content, result, n=2)


def of(nodes: Sequence[onnx.NodeProto], *outputs: str, inputs: str = "x") -> bytes:
    """The nodes on images of channels last or first, with results of any sizes."""
    declared = [value(name, IMAGE) for name in inputs.split()]
    return model(nodes, declared, [value(name, [None] * 4) for name in outputs]).SerializeToString()


STEPS = [node("Transpose", "x", "a", perm=TO_ROWS), node("Relu", "a", "b"), node("Tanh", "b", "y")]


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (of(STEPS, "y"), "Transpose Relu Tanh"),
        (of([*STEPS, node("Transpose", "b", "z", perm=BACK)], "y", "z"), "Relu Tanh Transpose"),
        (of([*STEPS, node("Transpose", "a", "z", perm=BACK)], "y", "z"), "Relu Tanh Transpose Identity"),
        (of([*STEPS, node("Transpose", "b", "z", perm=TO_ROWS)], "b", "y", "z"), ""),
        (
            of([*STEPS[:2], node("Softmax", "b", "s"), node("Transpose", "s", "y", perm=BACK)], "y"),
            "Transpose Relu Softmax Transpose",
        ),
        (
            of(
                [
                    *STEPS[:2],
                    node("Transpose", "x2", "c", perm=TO_ROWS),
                    node("Add", "b c", "d"),
                    node("Transpose", "d", "y", perm=BACK),
                ],
                "y",
                inputs="x x2",
            ),
            "Relu Add",
        ),
        (
            of(
                [
                    *STEPS[:2],
                    node("Transpose", "x2", "c", perm=[0, 2, 3, 1]),
                    node("Mul", "b c", "d"),
                    node("Relu", "d", "y"),
                ],
                "y",
                inputs="x x2",
            ),
            "Relu Mul Relu Transpose",
        ),
    ],
)
def test_transposes_stay_where_none_is_saved(content: bytes, written: str) -> None:
    result = canonical(content)
    assert written in ("", operators(result))
    before, after = (operators(each).split().count("Transpose") for each in (content, result))
    assert after <= before
    assert_same_results(content, result, n=2)


@pytest.mark.parametrize("axis", [1, 2])
def test_axes_of_one_position_are_added_and_dropped_between(axis: int) -> None:
    """As TensorFlow's exporter writes convolutions of sequences."""
    axes = tensor("axes", [axis], np.int64)
    perm = [0, 3, 1, 2]
    nodes = [
        node("Transpose", "x", "a", perm=[0, 2, 1]),
        node("Unsqueeze", "a axes", "b"),
        node("Relu", "b", "c"),
        node("Transpose", "c", "d", perm=perm),
        node("Tanh", "d", "e"),
        node("Transpose", "e", "f", perm=TO_ROWS),
        node("Squeeze", "f axes", "g"),
        node("Transpose", "g", "y", perm=[0, 2, 1]),
    ]
    content = model(nodes, [value("x", ("n", 4, 6))], [value("y", [None] * 3)], [axes]).SerializeToString()
    result = canonical(content)
    assert "Transpose" not in operators(result)
    assert_same_results(content, result, n=2)


def test_steps_per_channel_follow_a_convolution_directly() -> None:
    """Though as many elements are transposed as before."""
    nodes = [
        node("Conv", "x k", "a"),
        node("Transpose", "a", "b", perm=TO_ROWS),
        node("Mul", "b v", "c"),
        node("Relu", "c", "y"),
    ]
    constants = [weight("k", 4, 4, 3, 3), LAST[0]]
    content = model(nodes, [value("x", IMAGE)], [value("y", [None] * 4)], constants).SerializeToString()
    result = canonical(content)
    assert operators(result) == "Conv Mul Relu Transpose"
    assert_same_results(content, result, n=2)


def test_kept_nodes_stay() -> None:
    nodes = [
        node("Transpose", "x", "a", perm=TO_ROWS),
        node("Relu", "a", "z"),
        node("Transpose", "z", "y", perm=BACK),
    ]
    nodes[1].name = "kept"
    content = of(nodes, "y")
    assert operators(canonical(content)) == "Relu"
    assert operators(canonical(content, "kept")) == "Transpose Relu Transpose"


def drawn(seed: int) -> bytes:
    """Random steps on images [1, 3, 3, 3], with Transposes among them, some read several times."""
    random_ = random.Random(seed)
    nodes: list[onnx.NodeProto] = []
    names = ["x", "x2"]
    constants = [weight("v", 1, 1, 1, 3), weight("u", 3, 1, 1), weight("k", 3, 3, 3)]
    constants += [tensor(f"axis{axis}", [axis], np.int64) for axis in (1, 2, 3)]
    permutations = [TO_ROWS, BACK, TO_ROWS, BACK, [0, 1, 3, 2], [0, 3, 2, 1]]
    for number in range(random_.randint(5, 14)):
        one, other = random_.choice(names[-3:]), random_.choice(names)
        result = f"t{number}"
        axis = random_.randint(1, 3)
        nodes += random_.choice(
            [
                *([[node("Transpose", one, result, perm=random_.choice(permutations))]] * 4),
                [node(random_.choice(["Relu", "Sigmoid", "Neg"]), one, result)],
                [node(random_.choice(["Add", "Mul"]), f"{one} {random_.choice('vuk')}", result)],
                [node(random_.choice(["Add", "Mul", "Sub"]), f"{one} {other}", result)],
                [
                    node("Split", one, f"{result}a {result}b {result}c", axis=axis),
                    node("Concat", f"{result}c {result}a {result}b", result, axis=axis),
                ],
                [node("ReduceMean", one, f"{result}m", axes=[axis]), node("Add", f"{one} {result}m", result)],
                [node("Softmax", one, result, axis=axis)],
                [
                    node("Unsqueeze", f"{one} axis{axis}", f"{result}u"),
                    node("Relu", f"{result}u", f"{result}r"),
                    node("Squeeze", f"{result}r axis{axis}", result),
                ],
            ]
        )
        names.append(result)
    ends = dict.fromkeys([names[-1], random_.choice(names[2:])])
    shape = [1, 3, 3, 3]
    return model(
        nodes, [value("x", shape), value("x2", shape)], [value(end, shape) for end in ends], constants
    ).SerializeToString()


@pytest.mark.parametrize("seed", range(60))
def test_random_steps_compute_the_same(seed: int) -> None:
    content = drawn(seed)
    assert_same_results(content, canonical(content))


def test_random_steps_have_fewer_transposes() -> None:
    counts = [
        [operators(each).split().count("Transpose") for each in (content, canonical(content))]
        for content in map(drawn, range(60))
    ]
    assert sum(after for _, after in counts) < 0.8 * sum(before for before, _ in counts)
