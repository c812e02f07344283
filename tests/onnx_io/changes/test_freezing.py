"""Models specialised to sizes: what is fixed and folded, and that they compute the same."""
# pyright: reportUnknownMemberType=false
# onnx leaves types out.

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from superopt.errors import InvalidOptionError
from superopt.ir.plan import Plan
from superopt.onnx_io import LoweredModel, lift, load_model, lower
from superopt.onnx_io.changes.freezing import (
    FROZEN_KEY,
    declared_sizes,
    freeze,
    frozen_sizes,
    open_axes,
    sizes_at,
)
from superopt.onnx_io.files.source import SourceModel
from tests.onnx_io.kit import assert_same_results, model, node, operators, tensor, value, weight

HEADS = model(
    [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "batch"),
        node("Gather", "s one", "rows"),
        node("Unsqueeze", "batch axis", "b"),
        node("Unsqueeze", "rows axis", "r"),
        node("Concat", "b r heads", "shape", axis=0),
        node("Reshape", "x shape", "split"),
        node("Transpose", "split", "moved", perm=[0, 2, 1, 3]),
        node("MatMul", "moved w", "y"),
    ],
    [value("x", ["n", "rows", 8])],
    [value("y", ["n", 2, "rows", "columns"])],
    [tensor("zero", 0, np.int64), tensor("one", 1, np.int64), tensor("axis", [0], np.int64),
     tensor("heads", [2, 4], np.int64), weight("w", 4, 5)],
)  # fmt: skip
"""Columns of [n, rows, 8] as two heads, with the sizes read off at run time."""

CONTENT = HEADS.SerializeToString()


def written(source: SourceModel) -> bytes:
    return LoweredModel.of_source(source, {}).to_bytes()


def shapes(content: bytes) -> list[list[int | str]]:
    graph = onnx.load_from_string(content).graph
    return [
        [dimension.dim_value or dimension.dim_param for dimension in port.type.tensor_type.shape.dim]
        for port in (*graph.input, *graph.output)
    ]


@pytest.mark.parametrize(
    ("sizes", "kept", "declared"),
    [
        ({"n": 3, "rows": 5}, "Reshape Transpose MatMul", [[3, 5, 8], [3, 2, 5, 5]]),
        ({"rows": 5}, "Reshape Transpose MatMul", [["n", 5, 8], ["n", 2, 5, 5]]),
        ({"x.0": 3, "x.1": 5}, "Reshape Transpose MatMul", [[3, 5, 8], [3, 2, 5, 5]]),
    ],
)
def test_a_frozen_model_has_the_sizes_and_computes_the_same(
    sizes: Mapping[str, int], kept: str, declared: list[list[int | str]]
) -> None:
    frozen = freeze(load_model(HEADS), sizes)
    content = written(frozen)
    assert operators(content) == kept
    assert shapes(content) == declared
    onnx.checker.check_model(content, full_check=True)
    assert_same_results(CONTENT, content, n=3, rows=5)
    assert frozen_sizes(onnx.load_from_string(content)) == sizes
    lifted = lift(frozen)
    assert lower(lifted, lifted.graph, Plan()).to_bytes() == content


def test_a_frozen_model_remains_known_as_the_one_it_was_made_from() -> None:
    source = load_model(CONTENT)
    frozen = freeze(source, {"n": 3})
    assert frozen.sha256 == source.sha256
    assert frozen.received is source
    assert len(frozen.received.proto.graph.node) == 9
    assert freeze(frozen, {"rows": 5}).sha256 == source.sha256


def test_sizes_add_up_when_a_model_is_frozen_twice() -> None:
    once = written(freeze(load_model(HEADS), {"n": 3}))
    twice = onnx.load_from_string(written(freeze(load_model(once), {"rows": 5})))
    assert frozen_sizes(twice) == {"n": 3, "rows": 5}
    assert [entry.key for entry in twice.metadata_props] == [FROZEN_KEY]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"batch": 3}, "freeze: the model has no open dimension 'batch'; it has: n, rows"),
        (
            {"columns": 5},
            "freeze: the model has no open dimension 'columns' (only outputs declare it); it has: n, rows",
        ),
        ({"x.2": 8}, "freeze: the model has no open dimension 'x.2'; it has: n, rows"),
        ({"n": 3, "x.0": 4}, "freeze: n and x.0 are one axis, got two sizes"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes: Mapping[str, int], message: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        freeze(load_model(HEADS), sizes)
    assert str(caught.value) == message


def test_axes_without_a_name_are_called_after_their_input() -> None:
    source = load_model(
        model([node("Relu", "x", "y")], [value("x", ["?", None, 3])], [value("y", [None] * 3)])
    )
    assert [axis.name for axis in open_axes(source)] == ["x.0", "x.1"]
    assert shapes(written(freeze(source, {"x.1": 7}))) == [["?", 7, 3], ["", 7, 3]]


def test_sizes_of_arrays_go_by_the_name_that_their_axes_share() -> None:
    source = load_model(
        model(
            [node("Add", "a b", "y")],
            [value("a", ["n", "side"]), value("b", ["n", "side"])],
            [value("y", ["n", "side"])],
        )
    )
    assert sizes_at(source, {"a": (2, 3), "b": (2, 3)}) == {"n": 2, "side": 3}
    assert sizes_at(source, {"a": (2, 3), "b": (2, 1)}) == {"n": 2, "a.1": 3, "b.1": 1}
    assert sizes_at(source, {"a": (None, 3)}) == {"side": 3}
    assert declared_sizes(freeze(source, {"a.1": 3})) == {"a": (None, 3), "b": (None, None)}


def test_weights_in_another_file_stay_there(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(
        HEADS, path, save_as_external_data=True, location="weights", size_threshold=0, convert_attribute=False
    )
    frozen = freeze(load_model(path), {"n": 3, "rows": 5})
    out = tmp_path / "out" / "frozen.onnx"
    out.parent.mkdir()
    LoweredModel.of_source(frozen, {}).save(out)
    whole = onnx.load(out).SerializeToString()
    assert operators(whole) == "Reshape Transpose MatMul"
    assert_same_results(CONTENT, whole, n=3, rows=5)


def test_metadata_that_is_no_record_of_sizes_counts_as_none() -> None:
    for text in ("", "[1]", "half", json.dumps({"n": "3"})):
        made = onnx.ModelProto(metadata_props=[onnx.StringStringEntryProto(key=FROZEN_KEY, value=text)])
        assert frozen_sizes(made) == {}
