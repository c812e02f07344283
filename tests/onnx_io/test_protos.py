"""Attributes as fractions, captured names, and tensors wherever they hide."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from superopt.onnx_io.protos import captured_names, constant_tensor, simplest_fraction, tensors_in_model
from tests.onnx_io.kit import graph, model, node, tensor, value, weight

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("written", "expected"),
    [(0.1, "1/10"), (1e-5, "1/100000"), (0.75, "3/4"), (1 / 3, "1/3"), (2.0, "2"), (0.0, "0"), (-0.2, "-1/5"),
     (1e-12, "1/1000000000000"), (0.044715, "8943/200000"), (16777216.0, "16777216")],
)  # fmt: skip
def test_a_float_attribute_is_the_fraction_that_a_person_wrote(written: float, expected: str) -> None:
    assert str(simplest_fraction(float(np.float32(written)))) == expected


@given(floats)
def test_the_fraction_rounds_to_the_same_float(number: float) -> None:
    assert np.float32(float(simplest_fraction(number))) == np.float32(number)


@given(st.fractions(-2, 2, max_denominator=80))
def test_a_simple_fraction_comes_back(fraction: Fraction) -> None:
    assert simplest_fraction(float(np.float32(float(fraction)))) == fraction


def test_captured_names_are_those_that_no_inner_graph_makes() -> None:
    inner = graph(
        [node("Add", "a made", "t"), node("Mul", "t w", "u")], [], [value("u", [1])], [weight("w", 1)]
    )
    middle = graph(
        [node("Relu", "b", "made"), node("If", "a", "v", then_branch=inner, else_branch=inner)],
        [],
        [value("v", [1])],
    )
    outer = node("If", "condition", "y", then_branch=middle, else_branch=graph([], [], [value("c", [1])]))
    assert captured_names(outer) == ("c", "b", "a")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value": tensor("", [1.0, 2.0])}, np.array([1, 2], np.float32)),
        ({"value_float": 0.5}, np.array(0.5, np.float32)),
        ({"value_floats": [0.5, 1.0]}, np.array([0.5, 1], np.float32)),
        ({"value_int": 3}, np.array(3)),
        ({"value_ints": [3, 4]}, np.array([3, 4])),
        ({"value_string": "é"}, np.array("é".encode(), object)),
        ({"value_strings": ["a", "b"]}, np.array([b"a", b"b"], object)),
    ],
)
def test_every_form_of_a_constant(attributes: dict[str, object], expected: np.ndarray) -> None:
    stored = constant_tensor(node("Constant", "", "c", **attributes))
    assert stored is not None
    np.testing.assert_array_equal(onnx_ir.serde.deserialize_tensor(stored).numpy(), expected)


def test_tensors_are_found_in_attributes_subgraphs_and_functions() -> None:
    branch = graph([node("Constant", "", "k", value=tensor("in_constant", [1.0]))], [], [value("k", [1])],
                   [weight("in_branch", 1)])  # fmt: skip
    choice = node("If", "x", "y", then_branch=branch, else_branch=branch)
    made = model([choice], [value("x", [], TensorProto.BOOL)], [value("y", [1])], [weight("at_the_top", 1)])
    made.functions.add().node.append(node("Constant", "", "f", value=tensor("in_function", [1.0])))
    names = {stored.name for stored in tensors_in_model(made)}
    assert names == {"at_the_top", "in_branch", "in_constant", "in_function"}
