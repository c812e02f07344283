"""Symbolic sizes through a model: what is inferred, and that ONNX Runtime gives these sizes when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from superopt.ir.dimensions import substitute
from superopt.ir.types import TensorType
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.sizes.inference import infer_types
from tests.onnx_io.forcing import Rewriting, every_other_node_written_anew, written_anew
from tests.onnx_io.kit import assert_same_results, feeds, model, node, run, tensor, value, weight

SIZES: Sequence[Mapping[str, int]] = ({"n": 4, "t": 6}, {"n": 1, "t": 32}, {"n": 3, "t": 17})


def integers(name: str, *numbers: int) -> TensorProto:
    return tensor(name, numbers, np.int64)


def scalar(name: str, number: int) -> TensorProto:
    return tensor(name, number, np.int64)


def size_of_axis(tensor_name: str, axis: str, output: str) -> list[onnx.NodeProto]:
    return [
        node("Shape", tensor_name, f"{output}.shape"),
        node("Gather", f"{output}.shape {axis}", output, axis=0),
    ]


@dataclass(frozen=True)
class Case:
    """A model whose input is ``x``; ``expected`` is the type of ``y``."""

    name: str
    shape: Sequence[int | str]
    nodes: Sequence[onnx.NodeProto]
    expected: str
    weights: Sequence[TensorProto] = ()
    opset: int = 17

    def model(self) -> onnx.ModelProto:
        element = TensorProto.FLOAT if self.expected.startswith("f32") else TensorProto.INT64
        rank = self.expected.count(",") + 1 if "[]" not in self.expected else 0
        return model(
            self.nodes,
            [value("x", self.shape)],
            [value("y", [None] * rank, element)],
            self.weights,
            opset=self.opset,
        )


NUMBERS = [scalar("zero", 0), scalar("one", 1), scalar("two", 2), integers("first", 0), integers("second", 1)]

CASES = (
    Case(
        "reshape to a size through int32",
        ["n", "t", 8],
        [
            node("Shape", "x", "s"),
            node("Cast", "s", "narrow", to=TensorProto.INT32),
            node("Slice", "narrow first second", "batch"),
            node("Concat", "batch rest", "joined", axis=0),
            node("Cast", "joined", "shape", to=TensorProto.INT64),
            node("Reshape", "x shape", "y"),
        ],
        "f32[n, t, 2, 4]",
        [*NUMBERS, tensor("rest", [-1, 2, 4], np.int32)],
    ),
    Case(
        "half a size",
        ["n", "t", 8],
        [
            *size_of_axis("x", "one", "rows"),
            node("Div", "rows two", "half"),
            node("Range", "zero half one", "y"),
        ],
        "i64[floor((t) / (2))]",
        NUMBERS,
    ),
    Case(
        "slices",
        ["n", "t", 8],
        [node("Slice", "x starts ends axes steps", "y")],
        "f32[n, t - 1, 4]",
        [
            integers("starts", 1, 0),
            integers("ends", 2**31 - 1, -1),
            integers("axes", 1, 2),
            integers("steps", 1, 2),
        ],
    ),
    Case(
        "slice up to the size of another tensor",
        ["n", "t", 8],
        [
            *size_of_axis("x", "one", "rows"),
            node("Unsqueeze", "rows first", "end"),
            node("Slice", "table first end", "y"),
        ],
        "f32[unk__0, 3]",
        [*NUMBERS, weight("table", 40, 3)],
    ),
    Case(
        "expand to sizes, where -1 keeps one",
        ["n", "t"],
        [
            node("Shape", "x", "s"),
            node("Equal", "s minus", "is_open"),
            node("Where", "is_open ones s", "shape"),
            node("Expand", "number shape", "y"),
        ],
        "f32[n, t]",
        [integers("minus", -1, -1), integers("ones", 1, 1), weight("number")],
    ),
    Case(
        "tile and pad",
        ["n", "t"],
        [node("Tile", "x times", "a"), node("Pad", "a margins", "y")],
        "f32[n + 3, 2*t]",
        [integers("times", 1, 2), integers("margins", 1, 0, 2, 0)],
    ),
    Case(
        "concat and split",
        ["n", "t"],
        [node("Concat", "x x x", "a", axis=1), node("Split", "a", "y b c", axis=1)],
        "f32[n, t]",
    ),
    Case(
        "resize to half the size, computed in floating point",
        ["n", 3, "t", 5],
        [
            node("Shape", "x", "s"),
            node("Slice", "s second fourth", "rows"),
            node("Slice", "s first second2", "whole"),
            node("Cast", "rows", "real", to=TensorProto.FLOAT),
            node("Mul", "factor real", "scaled"),
            node("Floor", "scaled", "rounded"),
            node("Cast", "rounded", "smaller", to=TensorProto.INT64),
            node("Concat", "whole smaller", "sizes", axis=0),
            node("Resize", "x - - sizes", "y", mode="nearest"),
        ],
        "f32[n, 3, floor((t) / (2)), 7]",
        [
            *NUMBERS[:3],
            tensor("factor", [0.5, 1.5]),
            integers("first", 0),
            integers("second", 2),
            integers("second2", 2),
            integers("fourth", 4),
        ],
    ),
    Case(
        "a third, rounded up in floating point",
        ["n", "t"],
        [
            *size_of_axis("x", "one", "rows"),
            node("Cast", "rows", "real", to=TensorProto.FLOAT),
            node("Div", "real three", "third"),
            node("Ceil", "third", "rounded"),
            node("Cast", "rounded", "limit", to=TensorProto.INT64),
            node("Range", "zero limit one", "y"),
        ],
        "i64[floor((t + 2) / (3))]",
        [*NUMBERS, tensor("three", 3)],
    ),
    Case(
        "what is larger for all sizes",
        ["n", "t"],
        [
            *size_of_axis("x", "one", "rows"),
            node("Add", "rows two", "more"),
            node("Max", "rows more one", "most"),
            node("Greater", "rows zero", "is_positive"),
            node("Min", "rows more", "least"),
            node("Where", "is_positive most least", "limit"),
            node("Range", "zero limit one", "y"),
        ],
        "i64[t + 2]",
        NUMBERS,
    ),
    Case("flatten", ["n", 3, "t"], [node("Flatten", "x", "y", axis=2)], "f32[3*n, t]"),
    Case(
        "transposed convolution",
        ["n", 3, "t", 5],
        [node("ConvTranspose", "x w", "y", strides=[2, 2], pads=[1, 0, 0, 1], output_padding=[1, 0])],
        "f32[n, 4, 2*t + 1, 10]",
        [weight("w", 3, 4, 3, 3)],
    ),
    Case(
        "resize by scales",
        ["n", 3, "t", 6],
        [node("Resize", "x - scales", "y", mode="nearest", coordinate_transformation_mode="asymmetric")],
        "f32[n, 3, floor((t) / (2)), 9]",
        [tensor("scales", [1, 1, 0.5, 1.5])],
    ),
    Case(
        "depth to space",
        ["n", 8, "t", 5],
        [node("DepthToSpace", "x", "y", blocksize=2)],
        "f32[n, 2, 2*t, 10]",
    ),
    Case(
        "number of elements",
        ["n", "t"],
        [
            node("Size", "x", "count"),
            node("Unsqueeze", "count first", "shape"),
            node("ConstantOfShape", "shape", "y", value=tensor("", [1.5])),
        ],
        "f32[n*t]",
        NUMBERS,
    ),
    Case(
        "squeeze of what is always 1",
        ["n", "t", 8],
        [node("ReduceMean", "x", "a", axes=[1]), node("Squeeze", "a second", "y")],
        "f32[n, 8]",
        NUMBERS,
    ),
    Case(
        "sizes behind a convolution over one axis",
        ["n", 3, "t"],
        [
            node("Conv", "x w", "a", strides=[2], pads=[1, 1]),
            node("Shape", "a", "s"),
            node("Gather", "s two", "columns"),
            node("Unsqueeze", "columns first", "last"),
            node("Concat", "minus last", "shape", axis=0),
            node("Reshape", "a shape", "y"),
        ],
        "f32[4*n, floor((t + 1) / (2))]",
        [*NUMBERS, integers("minus", -1), weight("w", 4, 3, 3)],
    ),
)
"""Sizes by ONNX's own inference stop at all of these."""

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_types_hold_for_every_size(case: Case) -> None:
    made = case.model()
    inferred = infer_types(made).types["y"]
    assert isinstance(inferred, TensorType)
    assert str(inferred) == case.expected
    content = made.SerializeToString()
    for sizes in SIZES:
        (got,) = run(content, feeds(content, **sizes))
        known = [substitute(size, sizes) for size in inferred.shape]
        assert [
            own for own, real in zip(known, got.shape, strict=True) if isinstance(own, int) and own != real
        ] == []


@every_case
@pytest.mark.parametrize("rewriting", [written_anew, every_other_node_written_anew])
def test_models_written_anew_read_sizes_when_they_run(case: Case, rewriting: Rewriting) -> None:
    content = case.model().SerializeToString()
    written = rewriting(content)
    for sizes in SIZES:
        assert_same_results(content, written, **sizes)


def test_nodes_that_compute_sizes_say_so() -> None:
    case = next(case for case in CASES if case.name == "half a size")
    lifted = lift(load_model(case.model()))
    assert lifted.opaque == ()
    assert lifted.computing_sizes == ("Shape", "Gather", "Div", "Range")


@pytest.mark.parametrize(
    ("wanted", "shape"),
    [
        ("batch rows w4 w2", [0, 0, 4, 2]),
        ("rows batch w8", None),
        ("rows rest", None),
        ("batch rest", [0, -1]),
        ("half w4 w4 batch", None),
    ],
)
def test_shapes_that_follow_from_the_tensor_are_constants(wanted: str, shape: list[int] | None) -> None:
    """Two unknown sizes may be copied where they were, and one more follows from the number of elements."""
    names = ("w8", "w4", "w2", "rest")
    made = model(
        [
            node("Shape", "x", "s"),
            node("Slice", "s first second", "batch"),
            node("Slice", "s second third", "rows"),
            node("Div", "rows pair", "half"),
            node("Concat", wanted, "shape", axis=0),
            node("Reshape", "x shape", "y"),
        ],
        [value("x", ["n", "t", 8])],
        [value("y", [None] * len(wanted.split()))],
        [*NUMBERS, integers("third", 2), integers("pair", 2),
         *(integers(name, number) for name, number in zip(names, (8, 4, 2, -1), strict=True))],
    )  # fmt: skip
    source = lift(load_model(made)).source
    reshaping = source.proto.graph.node[-1]
    constant = source.constants.get(reshaping.input[1])
    assert (None if constant is None else constant.numpy().tolist()) == shape
    content = made.SerializeToString()
    written = written_anew(content)
    for sizes in ({"n": 4, "t": 6}, {"n": 1, "t": 32}, {"n": 5, "t": 2}):
        assert_same_results(content, written, **sizes)


def test_known_parts_of_sizes_become_constants() -> None:
    """A third of the columns is a number, although the rows are not."""
    made = model(
        [
            *size_of_axis("x", "two", "columns"),
            node("Div", "columns three", "third"),
            node("Mul", "third two", "end"),
            node("Unsqueeze", "third first", "a"),
            node("Unsqueeze", "end first", "b"),
            node("Slice", "x a b axis", "y"),
        ],
        [value("x", ["n", "t", 12])],
        [value("y", ["n", "t", 4])],
        [*NUMBERS, scalar("three", 3), integers("axis", 2)],
    )
    assert [n.op_type for n in lift(load_model(made)).source.proto.graph.node] == ["Slice"]


def test_what_holds_for_some_sizes_only_is_left_as_it_is() -> None:
    """The sum of n and 2*floor(n/2) rows is defined for even n, and where both are 1 or 0."""
    made = model(
        [
            node("MaxPool", "x", "half", kernel_shape=[2, 1], strides=[2, 1]),
            node(
                "Resize",
                "half - scales",
                "twice",
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
            ),
            node("Add", "x twice", "y"),
        ],
        [value("x", [1, 1, "t", 3])],
        [value("y", [1, 1, None, 3])],
        [tensor("scales", [1, 1, 2, 1])],
    )
    lifted = lift(load_model(made))
    assert [(op_type, why) for _, op_type, why in lifted.opaque if op_type == "Add"] == [
        ("Add", "whether t and 2*floor((t) / (2)) broadcast is only known at run time")
    ]
    content = made.SerializeToString()
    for rows in (2, 8):
        assert_same_results(content, written_anew(content), t=rows)


def test_dimensions_that_a_concat_requires_to_be_equal_are_one() -> None:
    """A declared name for a computed size gives way to what it is."""
    made = model(
        [
            node("Conv", "x w", "a", pads=[1, 1]),
            node("Concat", "x a", "b", axis=1),
            node("Relu", "b", "y"),
        ],
        [value("x", ["n", 3, "t"])],
        [value("y", ["n", 7, "somehow"])],
        [weight("w", 4, 3, 3)],
    )
    assert str(infer_types(made).types["y"]) == "f32[n, 7, t]"
