"""Sizes inside a model at given sizes of its inputs, and the names of axes that have none."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from superopt.ir.plan import Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.onnx_io.sizes.concrete import shapes_at, sizes_inside
from tests.onnx_io.kit import model, node, tensor, value, weight

INT64 = TensorProto.INT64

COUNTED = model(
    [
        node("Shape", "x", "s"),
        node("Gather", "s one", "rows"),
        node("Mul", "rows two", "twice"),
        node("Min", "twice most", "least"),
        node("Range", "zero least one", "numbers"),
        node("NonZero", "x", "places"),
    ],
    [value("x", ["n", "rows", 8])],
    [value("numbers", ["count"], INT64), value("places", [3, "found"], INT64)],
    [tensor(name, number, np.int64) for name, number in (("zero", 0), ("one", 1), ("two", 2), ("most", 99))],
)
"""One output has twice as many elements as the input has rows, but at most 99; the size of the other lies in
the content."""


def test_sizes_inside_follow_from_those_of_the_inputs() -> None:
    found = sizes_inside(lift(load_model(COUNTED)), {"x": (3, 5, 8)})
    assert found == {"n": 3, "rows": 5, "count": 10}


def test_a_run_says_what_inference_cannot() -> None:
    found = sizes_inside(lift(load_model(COUNTED)), {"x": (3, 5, 8)}, {"places": (3, 117)})
    assert found["found"] == 117


def test_shapes_leave_the_model_as_it_is() -> None:
    source = load_model(COUNTED)
    before = source.proto.SerializeToString()
    assert shapes_at(source, {"x": (3, 5, 8)})["numbers"] == (10,)
    assert source.proto.SerializeToString() == before


@pytest.mark.parametrize("junk", ["?", "", "None", "dynamic", "unknown", "-1", None])
def test_each_unnamed_axis_has_its_own_name_and_stays_as_it_is(junk: str | None) -> None:
    made = model(
        [node("Conv", "x w", "c"), node("Relu", "c", "y")],
        [value("x", [junk, 3, junk, junk])],
        [value("y", [junk, 4, junk, junk])],
        [weight("w", 4, 3, 1, 1)],
    )
    lifted = lift(load_model(made))
    assert lifted.symbols == {
        **{f"x.{axis}": f"x, axis {axis}" for axis in (0, 2, 3)},
        **{name: place for name, place in lifted.symbols.items() if not name.startswith("x")},
    }
    assert not any("?" in name for name in lifted.symbols)
    written = onnx.load_from_string(lower(lifted, lifted.graph, Plan()).to_bytes())
    for own, theirs in ((made.graph.input, written.graph.input), (made.graph.output, written.graph.output)):
        assert list(own) == list(theirs)


def test_names_that_say_something_mean_equality() -> None:
    made = model([node("Relu", "x", "y")], [value("x", ["side", "side"])], [value("y", ["side", "side"])])
    assert dict(lift(load_model(made)).symbols) == {"side": "x, axis 0"}
