"""Clip, Max and Min with any bounds, of every operator set, are understood or stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.onnx_io import lift, load_model
from tests.onnx_io.forcing import written_anew, written_as_it_was
from tests.onnx_io.kit import assert_same_results, model, node, tensor, value

CLIPS: dict[str, tuple[float | None, float | None, str]] = {
    "relu6": (0, 6, "hard_sigmoid scale"),
    "not negative": (0, None, "relu"),
    "around zero": (-1, 1, "clip"),
    "above zero": (0.25, 2, "clip"),
    "nothing": (None, None, "identity"),
    "the widest range": (-3.4028234663852886e38, 3.4028234663852886e38, "identity"),
    "below a number": (None, 0.1, "broadcast minimum"),
    "above a number": (-0.5, None, "broadcast maximum"),
    "no upper bound in words": (-0.5, np.inf, "broadcast maximum"),
}


def clip(low: float | None, high: float | None, opset: int) -> bytes:
    given = {"min": low, "max": high}
    ports = [value("x", [2, 3])], [value("y", [2, 3])]
    if opset < 11:
        attributes = {name: float(bound) for name, bound in given.items() if bound is not None}
        return model([node("Clip", "x", "y", **attributes)], *ports, opset=opset).SerializeToString()
    names = ["-" if bound is None else name for name, bound in given.items()]
    weights = [tensor(name, bound) for name, bound in given.items() if bound is not None]
    return model(
        [node("Clip", " ".join(["x", *names]), "y")], *ports, weights, opset=opset
    ).SerializeToString()


def working(content: bytes) -> str:
    """The operators of the graph that read something."""
    return " ".join(made.operator.name for made in lift(load_model(content)).graph if made.inputs)


@pytest.mark.parametrize("opset", [8, 10, 11, 12, 13, 23])
@pytest.mark.parametrize(("low", "high", "lifted"), CLIPS.values(), ids=CLIPS)
def test_a_clip_is_understood(low: float | None, high: float | None, lifted: str, opset: int) -> None:
    content = clip(low, high, opset)
    assert working(content) == lifted
    assert_same_results(content, written_anew(content))
    assert written_as_it_was(content) == content


def test_bounds_in_the_wrong_order() -> None:
    content = clip(2, -1, 13)
    assert working(content) == "clip"
    assert_same_results(content, written_anew(content))


@pytest.mark.parametrize(("low", "high"), [(np.nan, 1), (0, -np.inf), (np.inf, None)])
def test_a_bound_that_is_no_number_stays(low: float, high: float | None) -> None:
    content = clip(low, high, 13)
    assert [name for _, name, _ in lift(load_model(content)).opaque] == ["Clip"]


@pytest.mark.parametrize("opset", [8, 12, 13, 23])
@pytest.mark.parametrize("name", ["Max", "Min"])
def test_extrema_of_several_tensors(name: str, opset: int) -> None:
    content = model(
        [node(name, "x z n", "a"), node(name, "a", "y")],
        [value("x", [2, 3]), value("z", [3])],
        [value("y", [2, 3])],
        [tensor("n", 0.5)],
        opset=opset,
    ).SerializeToString()
    assert lift(load_model(content)).opaque == ()
    assert_same_results(content, written_anew(content))


def test_an_infinite_operand_stays() -> None:
    content = model(
        [node("Max", "x n", "y")], [value("x", [2, 3])], [value("y", [2, 3])], [tensor("n", -np.inf)]
    ).SerializeToString()
    assert lift(load_model(content)).opaque == (("y", "Max", "an operand is not finite"),)
