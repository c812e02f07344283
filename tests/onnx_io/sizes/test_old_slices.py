"""Slices of operator set 10 have the sizes that they have in operator set 11."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.ir.types import TensorType
from superopt.onnx_io.sizes.inference import infer_types
from tests.onnx_io.kit import session

CUTS = [
    *((1, end, 1) for end in (-1, 5, 2**31 - 1, 2**63 - 1)),
    *[(0, -1, 1), (-3, 2**63 - 1, 1), (0, 2**63 - 1, 2), (5, 3, 1), (-1, -(2**63), -1)],
]


def cut(
    opset: int, size: str | int, start: int, end: int, step: int, *, after: bool = False
) -> onnx.ModelProto:
    """A Slice along the last axis; ``after``: of its result again."""
    constants = {"start": start, "end": end, "axis": 2, "step": step}
    node = helper.make_node("Slice", ["x", *constants], ["y"])
    again = [helper.make_node("Slice", ["y", *constants], ["z"]), helper.make_node("Relu", ["z"], ["r"])]
    graph = helper.make_graph(
        [node, *(again if after else [])],
        "cut",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, size])],
        [helper.make_tensor_value_info("r" if after else "y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([number], np.int64), name) for name, number in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("how", CUTS, ids=str)
def test_open_sizes_are_those_of_the_next_operator_set(how: tuple[int, int, int], *, after: bool) -> None:
    """Up to the names of sizes that are not known: that of the input is none of them."""
    old, new = (infer_types(cut(opset, "w", *how, after=after)).types for opset in (10, 11))
    assert old.keys() == new.keys()
    for name, type_ in new.items():
        assert re.sub("unk__[0-9]+|[yzr][.]2", "?", str(old[name])) == re.sub("unk__[0-9]+", "?", str(type_))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("how", CUTS, ids=str)
def test_known_sizes_are_those_of_a_run(how: tuple[int, int, int], *, after: bool) -> None:
    model = cut(10, 9, *how, after=after)
    x = np.arange(72, dtype=np.float32).reshape(1, 8, 9)
    (found,) = session(model.SerializeToString()).run(None, {"x": x})
    type_ = infer_types(model).types[model.graph.output[0].name]
    assert isinstance(type_, TensorType)
    assert type_.shape == found.shape


@pytest.mark.parametrize("version", [3, 8])
def test_bounds_that_callers_can_override_give_no_size(version: int) -> None:
    """Since IR version 4, an initialiser that is a graph input is only a default."""
    model = cut(10, 9, 1, 5, 1)
    model.ir_version = version
    for name in ("start", "end", "axis", "step"):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, [1]))
    type_ = infer_types(model).types["y"]
    assert isinstance(type_, TensorType)
    assert (type_.shape == (1, 8, 4)) is (version == 3)
    assert type_.shape != (1, 8, 9)
