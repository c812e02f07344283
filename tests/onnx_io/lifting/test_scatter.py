"""ScatterND that adds to rows is the gradient of a lookup, and gives the same results written anew."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.onnx_io import lift, load_model
from superopt.ops import Opaque
from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import listing, model, node, run, tensor, value

ROWS, WIDTH = 5, 3
INDICES = np.array([[[0], [-1]], [[4], [0]]])
UPDATES = np.arange(12, dtype=np.float32).reshape(2, 2, WIDTH)
TABLE = np.arange(15, dtype=np.float32).reshape(ROWS, WIDTH)
GIVEN = {"i": INDICES, "u": UPDATES, "t": TABLE}
INPUTS = [value("i", [2, 2, 1], onnx.TensorProto.INT64), value("u", [2, 2, WIDTH])]


def scattered(first: str, *before: onnx.NodeProto, reduction: str = "add") -> bytes:
    return model(
        [*before, node("ScatterND", f"{first} i u", "y", reduction=reduction)],
        [*INPUTS, *([value("t", [ROWS, WIDTH])] if first == "t" else [])],
        [value("y", [ROWS, WIDTH])],
        [
            tensor("zero", [0], np.float32),
            tensor("one", [1], np.float32),
            tensor("shape", [ROWS, WIDTH], np.int64),
        ],
    ).SerializeToString()


def operators(content: bytes) -> list[str]:
    return [
        each.operator.name
        for each in lift(load_model(content)).graph
        if each.operator.name not in ("input", "weight")
    ]


def test_sums_of_rows_in_a_table_of_zeros() -> None:
    content = scattered("z", node("Expand", "zero shape", "z"))
    assert operators(content) == ["broadcast", "reshape", "lookup_gradient"]
    assert listing(written_anew(content)).splitlines()[-1].startswith("y = ScatterND(")
    assert_same(content)


@pytest.mark.parametrize(("first", "before"), [("t", ()), ("o", (node("Expand", "one shape", "o"),))])
def test_sums_of_rows_are_added_to_another_table(first: str, before: tuple[onnx.NodeProto, ...]) -> None:
    content = scattered(first, *before)
    assert operators(content)[-3:] == ["reshape", "lookup_gradient", "add"]
    assert_same(content)


def assert_same(content: bytes) -> None:
    assert not any(isinstance(each.operator, Opaque) for each in lift(load_model(content)).graph)
    names = [each.name for each in onnx.ModelProto.FromString(content).graph.input]
    given = {name: GIVEN[name] for name in names}
    for expected, got in zip(run(content, given), run(written_anew(content), given), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_what_replaces_numbers_stays_as_it_is() -> None:
    ((_, operator, why),) = lift(load_model(scattered("t", reduction="none"))).opaque
    assert (operator, why) == ("ScatterND", "it puts numbers in place of others")
