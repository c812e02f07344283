"""Scatter nodes that add are gradients of lookups and of maxima, and give the same results written anew."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from superopt.domains import Array
from superopt.onnx_io import lift, load_model
from superopt.ops import Opaque
from tests.onnx_io.forcing import written_anew, written_as_it_was
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
    again = written_anew(content)
    assert listing(again).splitlines()[-1].startswith("y = ScatterElements(")
    assert "lookup_gradient" in operators(again)
    assert_same(content)


def test_rows_of_one_index_are_summed_by_any_number_of_threads() -> None:
    """ScatterND of ONNX Runtime 1.31 gives a wrong sum in every fourth run here."""
    rows, count, width = 1000, 2048, 256
    content = model(
        [node("Expand", "zero shape", "z"), node("ScatterND", "z i u", "y", reduction="add")],
        [value("i", [count, 1], onnx.TensorProto.INT64), value("u", [count, width])],
        [value("y", [rows, width])],
        [tensor("zero", [0], np.float32), tensor("shape", [rows, width], np.int64)],
    ).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(written_anew(content), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    for _ in range(20):
        indices = np.minimum(random.zipf(1.2, (count, 1)) - 1, rows - 1)
        updates = random.integers(0, 3, (count, width)).astype(np.float32)
        expected = np.zeros((rows, width), np.float32)
        np.add.at(expected, indices[:, 0], updates)
        (found,) = session.run(None, {"i": indices, "u": updates})
        np.testing.assert_array_equal(found, expected)


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


def test_a_table_of_sizes_that_are_open_stays_as_it_is() -> None:
    """As in graph networks: messages are added to as many nodes as the graph has."""
    content = model(
        [node("ScatterND", "t i u", "y", reduction="add")],
        [*INPUTS, value("t", ["nodes", WIDTH])],
        [value("y", ["nodes", WIDTH])],
    ).SerializeToString()
    ((_, operator, why),) = lift(load_model(content)).opaque
    assert (operator, why) == ("ScatterND", "the sizes of the table are known at run time only")


IMAGE = np.random.default_rng(0).integers(-3, 3, (2, 3, 7, 9)).astype(np.float32)
"""Many maxima are equal: the first one counts."""


def pooled(reduction: str = "add", zero: float = 0.0, **attributes: object) -> tuple[bytes, dict[str, Array]]:
    """The gradient of the maxima of windows as it is written, and operands."""
    pool = {"kernel_shape": [3, 2], "strides": [2, 2], **attributes}
    (found,) = run(
        model(
            [node("MaxPool", "x", "y", **pool)], [value("x", [2, 3, 7, 9])], [value("y", [None] * 4)]
        ).SerializeToString(),
        {"x": IMAGE},
    )
    nodes = [
        node("MaxPool", "x", "m p", **pool),
        node("Reshape", "p all", "flat"),
        node("Reshape", "g all", "updates"),
        node("Expand", "zero size", "z"),
        node("ScatterElements", "z flat updates", "sums", reduction=reduction),
        node("Reshape", "sums shape", "y"),
    ]
    weights = [
        tensor("all", [-1], np.int64),
        tensor("size", [IMAGE.size], np.int64),
        tensor("shape", IMAGE.shape, np.int64),
        tensor("zero", [zero], np.float32),
    ]
    inputs = [value("x", IMAGE.shape), value("g", found.shape)]
    content = model(nodes, inputs, [value("y", IMAGE.shape)], weights).SerializeToString()
    cotangent = np.arange(found.size, dtype=np.float32).reshape(found.shape)
    return content, {"x": IMAGE, "g": cotangent}


@pytest.mark.parametrize(
    "attributes", [{}, {"pads": [1, 0, 1, 1]}, {"auto_pad": "SAME_UPPER"}, {"strides": [3, 1]}], ids=str
)
def test_sums_at_the_places_of_maxima(attributes: dict[str, object]) -> None:
    content, given = pooled(**attributes)
    assert operators(content).count("maxpool_gradient") == 1
    assert "ScatterElements" not in [kind for _, kind, _ in lift(load_model(content)).opaque]
    assert written_as_it_was(content) == content
    for expected, got in zip(run(content, given), run(written_anew(content), given), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("reduction", "zero", "attributes", "why"),
    [
        ("max", 0.0, {}, "its reduction is max, not a sum"),
        ("add", 1.0, {}, "it does not add to as many zeros as the image has elements"),
        ("add", 0.0, {"dilations": [2, 2]}, "its windows are dilated"),
        ("add", 0.0, {"storage_order": 1}, "the maxima are not those of an image in rows"),
    ],
)
def test_other_sums_of_elements_stay(
    reduction: str, zero: float, attributes: dict[str, object], why: str
) -> None:
    content, _ = pooled(reduction, zero, **attributes)
    assert ("ScatterElements", why) in [
        (kind, reason) for _, kind, reason in lift(load_model(content)).opaque
    ]
