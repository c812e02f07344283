"""Sizes that a model computes: known ones become constants, others are followed as symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto

from superopt.ir.text import format_graph
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.changes.simplifying import simplify
from superopt.onnx_io.sizes.shape_data import evaluate
from tests.onnx_io.forcing import every_other_node_written_anew, written_anew
from tests.onnx_io.kit import assert_same_results, graph, model, node, tensor, value, weight

INT64 = TensorProto.INT64


def integers(name: str, *numbers: int) -> TensorProto:
    return tensor(name, numbers, np.int64)


HEADS = [
    node("Shape", "x", "s"),
    node("Gather", "s zero", "batch"),
    node("Gather", "s one", "rows"),
    node("Unsqueeze", "batch axis", "b"),
    node("Unsqueeze", "rows axis", "r"),
    node("Concat", "b r heads width", "shape", axis=0),
    node("Reshape", "x shape", "split"),
    node("Transpose", "split", "moved", perm=[0, 2, 1, 3]),
    node("Relu", "moved", "y"),
]
"""Columns of [batch, rows, 8] as two heads, with the sizes read off at run time, as exporters write it."""

MARGINS = [
    node("ConstantOfShape", "four", "zeros", value=tensor("", [0], np.int64)),
    node("Concat", "pads zeros", "all", axis=0),
    node("Reshape", "all pairs", "paired"),
    node("Slice", "paired last least axis back", "reversed"),
    node("Transpose", "reversed", "turned", perm=[1, 0]),
    node("Reshape", "turned flat", "flattened"),
    node("Cast", "flattened", "margins", to=INT64),
    node("Pad", "x margins", "padded"),
    node("Conv", "padded kernel", "c", pads=[1, 0, 0, 0]),
    node("Relu", "c", "y"),
]
"""A pad before a convolution, whose margins are put in the order of ONNX at run time."""

CASES: Sequence[tuple[str, onnx.ModelProto, str]] = (
    (
        "sizes of the batch",
        model(
            HEADS, [value("x", ["n", "rows", 8])], [value("y", ["n", 2, "rows", 4])],
            [tensor("zero", 0, np.int64), tensor("one", 1, np.int64), integers("axis", 0),
             integers("heads", 2), integers("width", 4)],
        ),
        "reshape[shape=(n, rows, 2, 4)](x): f32[n, rows, 2, 4]",
    ),
    (
        "known sizes",
        model(
            HEADS, [value("x", [3, 5, 8])], [value("y", [3, 2, 5, 4])],
            [tensor("zero", 0, np.int64), tensor("one", 1, np.int64), integers("axis", 0),
             integers("heads", 2), integers("width", 4)],
        ),
        "reshape[shape=(3, 5, 2, 4)](x): f32[3, 5, 2, 4]",
    ),
    (
        "margins",
        model(
            MARGINS, [value("x", [1, 2, 5, 5])], [value("y", [1, 2, 6, 5])],
            [integers("four", 4), integers("pads", 0, 1, 0, 1), integers("pairs", -1, 2),
             integers("last", -1), integers("least", -(2**63) + 1), integers("axis", 0),
             integers("back", -1), integers("flat", -1), weight("kernel", 2, 2, 2, 2)],
        ),
        "conv[padding=(1, 0, 1, 1)](x, kernel): f32[1, 2, 6, 5]",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("made", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_sizes_are_calculated(made: onnx.ModelProto, expected: str) -> None:
    before = made.SerializeToString()
    lifted = lift(load_model(before))
    assert expected in format_graph(lifted.graph)
    assert lifted.source.original == before
    assert_same_results(before, written_anew(before))
    assert_same_results(before, every_other_node_written_anew(before))


@dataclass(frozen=True)
class Calculation:
    node: onnx.NodeProto
    operands: Sequence[object]
    result: object


NO_AXES = np.empty(0, np.int64)

CALCULATIONS = (
    Calculation(node("Slice", "x s e a t", "y"), ([1, 2, 3], [-1], [-9], [0], [-1]), [3, 2, 1]),
    Calculation(node("Slice", "x s e", "y"), ([1, 2, 3], [1], [99]), [2, 3]),
    Calculation(node("Slice", "x s e a t", "y"), ([1, 2, 3], [-1], [2**63 - 1], [0], [-1]), None),
    Calculation(node("ReduceSum", "a n", "y", noop_with_empty_axes=1), ([2, 3], NO_AXES), None),
    Calculation(node("Squeeze", "a n", "y"), ([2], NO_AXES), None),
    Calculation(node("Div", "a b", "y"), ([7, -7], [2, 2]), [3, -3]),
    Calculation(node("Range", "a b c", "y"), (1, 7, 3), [1, 4]),
    Calculation(node("Equal", "a b", "y"), ([1, 2], [1, 3]), [True, False]),
    Calculation(node("Where", "c a b", "y"), ([True, False], [1, 2], [3, 4]), [1, 4]),
    Calculation(node("ReduceProd", "a", "y", keepdims=0), ([2, 3],), 6),
    Calculation(node("Expand", "a s", "y"), ([[1], [2]], [2, 2]), [[1, 1], [2, 2]]),
    Calculation(node("Mod", "a b", "y"), ([7, -7, 7], [3, 3, -3]), [1, 2, -2]),
    Calculation(node("Mod", "a b", "y", fmod=1), ([7, -7, 7], [3, 3, -3]), [1, -1, 1]),
    Calculation(node("Mod", "a b", "y"), ([7], [0]), None),
    Calculation(node("Mod", "a b", "y", fmod=1), ([7.5], [2.0]), None),
    Calculation(node("BitShift", "a b", "y", direction="LEFT"), ([7], [2]), None),
    Calculation(node("Expand", "a s", "y"), ([1], [10**9]), None),
    Calculation(node("Split", "a s", "y z", axis=0), ([1, 2, 3], [1, 2]), ([1], [2, 3])),
    Calculation(node("Split", "a", "y z", axis=-1), ([[1, 2], [3, 4]],), None),
    Calculation(node("Split", "a", "y z"), ([1, 2, 3],), ([1, 2], [3])),
    Calculation(node("Split", "a", "y"), ([1, 2],), [1, 2]),
    Calculation(node("Split", "a s", "y z", axis=0), ([1, 2, 3], [1, 1]), None),
)


@pytest.mark.parametrize("case", CALCULATIONS, ids=[case.node.op_type for case in CALCULATIONS])
def test_a_node_is_calculated(case: Calculation) -> None:
    operands: list[NDArray[np.generic]] = [np.asarray(operand) for operand in case.operands]
    results = [result.tolist() for result in evaluate(case.node, operands, 17)]
    wanted = case.result if isinstance(case.result, tuple) else (case.result,)
    assert results == ([] if case.result is None else list(wanted))


def test_pads_out_of_a_split_are_those_of_the_convolution() -> None:
    """As TensorFlow's exporter writes them."""
    made = model(
        [
            node("Split", "margins", "a b c d", axis=0),
            node("Concat", "zero zero a b zero zero c d", "pads", axis=0),
            node("Pad", "x pads", "padded"),
            node("Conv", "padded w", "y"),
        ],
        [value("x", [1, 3, 8, 8])],
        [value("y", [1, 4, 8, 8])],
        [tensor("margins", [1, 1, 1, 1], np.int64), tensor("zero", [0], np.int64), weight("w", 4, 3, 3, 3)],
        opset=13,
    )
    source = simplify(load_model(made.SerializeToString()))
    assert [one.op_type for one in source.proto.graph.node] == ["Conv"]


NUMBERS = {"zero": 0, "one": 1, "all": 2400, "few": 20, "many": 40, "ten": 10}


def test_a_large_constant_that_is_calculated_keeps_its_content() -> None:
    """What is found later must not take the content of what was found first, which no file has."""
    made = model(
        [
            node("Range", "zero all one", "places"),
            node("Gather", "x places", "taken", axis=0),
            node("Range", "few many ten", "halves"),
            node("Add", "halves halves", "shape"),
            node("Reshape", "taken shape", "matrix"),
            node("Shape", "matrix", "sizes"),
            node("Gather", "sizes zero", "first", axis=0),
            node("Range", "zero first one", "again"),
            node("Gather", "matrix again", "y", axis=0),
        ],
        [value("x", [2400])],
        [value("y", [40, 60])],
        [tensor(name, content, np.int64) for name, content in NUMBERS.items()],
    ).SerializeToString()
    assert_same_results(made, every_other_node_written_anew(made))


def test_what_decides_a_branch_stays_computed() -> None:
    """ONNX Runtime may refuse the branch that it puts in place of an If node with a constant condition."""
    made = model(
        [
            node("Size", "x", "count"),
            node("Equal", "count four", "is_four"),
            node(
                "If", "is_four", "factor",
                then_branch=graph([node("Identity", "half", "kept")], [], [value("kept", [])]),
                else_branch=graph([node("Neg", "half", "other")], [], [value("other", [])]),
            ),
            node("Mul", "x factor", "y"),
        ],
        [value("x", [2, 2])],
        [value("y", [2, 2])],
        [tensor("four", 4, np.int64), tensor("half", 0.5)],
    ).SerializeToString()  # fmt: skip
    written = every_other_node_written_anew(made)
    assert_same_results(made, written)
    assert "is_four" in {name for each in onnx.load_from_string(written).graph.node for name in each.output}
