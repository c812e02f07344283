"""Slice and Gather with known positions are pieces of splits, and written anew give the same results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest

from superopt.ir import Graph
from superopt.onnx_io import lift, load_model
from superopt.optimizer.canonical.canonicalise import canonicalise
from tests.onnx_io.forcing import written_anew, written_as_it_was
from tests.onnx_io.kit import assert_same_results, model, node, operators, run, tensor, value

MOST, LEAST = 2**63 - 1, -(2**63)


@dataclass(frozen=True)
class Cut:
    """A Slice, the operators that it is lifted to, or the reason why it is not."""

    shape: Sequence[int | str]
    starts: Sequence[int]
    stops: Sequence[int]
    axes: Sequence[int] | None = None
    steps: Sequence[int] | None = None
    lifted: str = "split"
    reason: str = ""

    def model(self, opset: int) -> bytes:
        """A model of the node, in the spelling of the operator set."""
        if opset < 10:
            axes = {} if self.axes is None else {"axes": self.axes}
            made, weights = node("Slice", "x", "y", starts=self.starts, ends=self.stops, **axes), []
        else:
            given = {"s": self.starts, "e": self.stops, "a": self.axes, "t": self.steps}
            names = ["-" if content is None else name for name, content in given.items()]
            made = node("Slice", " ".join(["x", *names]), "y")
            weights = [tensor(name, c, np.int64) for name, c in given.items() if c is not None]
        content = model(
            [made],
            [value("x", self.shape)],
            [value("y", [None] * len(self.shape))],
            weights,
            opset=opset,
        )
        return content.SerializeToString()


SLICES = {
    "the start": Cut([4, 6], [0], [2], [1]),
    "the middle": Cut([4, 6], [1], [4], [1]),
    "the end": Cut([4, 6], [2], [MOST], [1]),
    "counted from the end": Cut([4, 6], [-3], [-1], [-1]),
    "beyond the end": Cut([4, 6], [1], [99], [0]),
    "before the start": Cut([4, 6], [-99], [3], [0]),
    "two axes": Cut([4, 6], [1, 2], [3, 5], lifted="split split"),
    "an axis of unknown size kept": Cut(["n", 6], [0, 2], [MOST, 4], [0, 1]),
    "everything": Cut([4, 6], [0, 0], [4, MOST], lifted="identity"),
    "five axes": Cut([2, 1, 3, 4, 5], [1], [2], [0]),
    "nothing": Cut([4, 6], [3], [2], [0], lifted="opaque", reason="it keeps nothing"),
    "of nothing": Cut([0, 6], [0], [2], [0], lifted="opaque", reason="it keeps nothing"),
    "a part of nothing": Cut([0, 6], [0], [2], [1]),
    "of unknown size": Cut(
        ["n", 6],
        [1],
        [MOST],
        [0],
        lifted="opaque",
        reason="what it keeps of the size n is only known at run time",
    ),
}
STEPS = {
    "reversed": Cut([4, 6], [MOST], [LEAST], [1], [-1], lifted="opaque", reason="it reverses an axis"),
    "rows of an image": Cut([1, 2, 5, 6], [0], [MOST], [2], [2], lifted="maxpool"),
    "rows and columns": Cut([1, 2, 5, 6], [0, 0], [MOST, 6], [2, 3], [2, 3], lifted="maxpool"),
    "rows of the upper part": Cut([1, 2, 5, 6], [0], [4], [2], [3], lifted="split maxpool"),
    "odd rows": Cut([1, 2, 6, 6], [1], [MOST], [2], [2], lifted="reshape split reshape"),
    "even rows, odd columns": Cut(
        [1, 2, 6, 6], [0, 1], [MOST, MOST], [2, 3], [2, 2], lifted="maxpool reshape split reshape"
    ),
    "rows from the third on": Cut([1, 2, 7, 6], [2], [7], [2], [2], lifted="split maxpool"),
    "odd rows, columns from the third on": Cut(
        [1, 2, 9, 9], [1, 2], [8, 9], [2, 3], [2, 2], lifted="split maxpool split reshape split reshape"
    ),
    "even numbers": Cut([3, 8], [0], [MOST], [-1], [2], lifted="reshape split reshape"),
    "odd numbers": Cut([3, 8], [1], [8], [-1], [2], lifted="reshape split reshape"),
    "the last of three": Cut([9], [2], [9], [0], [3], lifted="reshape split reshape"),
    "the second of three": Cut([9], [1], [9], [0], [3], lifted="reshape split reshape"),
    "some of many": Cut([20], [3], [11], [0], [4], lifted="split reshape split reshape"),
    "a step over the end": Cut(
        [5], [0], [5], [0], [2], lifted="opaque", reason="axis 0 does not divide into steps of 2"
    ),
    "a step longer than the axis": Cut(
        [5], [1], [5], [0], [9], lifted="opaque", reason="axis 0 does not divide into steps of 9"
    ),
}


def working(content: bytes) -> str:
    """The operators of the graph that read something."""
    return " ".join(made.operator.name for made in lift(load_model(content)).graph if made.inputs)


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 13, 17, 23])
@pytest.mark.parametrize("cut", [*SLICES.values(), *STEPS.values()], ids=[*SLICES, *STEPS])
def test_a_slice_is_pieces(cut: Cut, opset: int) -> None:
    if opset < 10 and cut.steps is not None:
        pytest.skip("no steps before operator set 10")
    content = cut.model(opset)
    assert working(content) == cut.lifted
    assert [why for _, _, why in lift(load_model(content)).opaque] == ([cut.reason] if cut.reason else [])
    assert_same_results(content, written_anew(content))
    assert written_as_it_was(content) == content


def test_a_slice_that_names_an_axis_twice_stays() -> None:
    content = Cut([4, 6], [0, 1], [2, 4], [1, -1]).model(17)
    assert lift(load_model(content)).opaque == (("y", "Slice", "it names an axis twice"),)


GATHERS: dict[str, tuple[object, int, str]] = {
    "one position": (2, 1, "split reshape"),
    "counted from the end": (-1, -1, "split reshape"),
    "a vector of one": ([0], 0, "split"),
    "a matrix of one": ([[1]], 0, "split reshape"),
    "in a row": ([1, 2, 3], 1, "split"),
    "in a row over the end": ([-2, -1], 1, "split"),
    "all": ([0, 1, 2, 3], 0, "identity"),
    "backwards": ([2, 1], 0, "lookup"),
    "backwards along another axis": ([2, 1], 1, "opaque"),
    "twice": ([1, 1], 0, "lookup"),
    "wrapping around": ([-1, 0], 0, "lookup"),
    "none": (np.zeros(0), 0, "lookup"),
}


@pytest.mark.parametrize(("indices", "axis", "lifted"), GATHERS.values(), ids=GATHERS)
def test_a_gather_of_known_positions_is_a_piece(indices: object, axis: int, lifted: str) -> None:
    numbers = tensor("i", indices, np.int64)
    rank = 1 + len(numbers.dims)
    content = model(
        [node("Gather", "x i", "y", axis=axis)], [value("x", [4, 6])], [value("y", [None] * rank)], [numbers]
    ).SerializeToString()
    assert working(content) == lifted
    assert_same_results(content, written_anew(content))
    assert written_as_it_was(content) == content


@pytest.mark.parametrize(("axis", "lifted"), [(0, "lookup"), (-2, "lookup"), (1, "opaque")])
def test_rows_at_computed_positions_are_looked_up(axis: int, lifted: str) -> None:
    content = model(
        [node("Gather", "x i", "y", axis=axis)],
        [value("x", [4, 6]), value("i", [2], onnx.TensorProto.INT64)],
        [value("y", [None, None])],
    ).SerializeToString()
    assert working(content) == lifted
    again = written_anew(content)
    given = {"x": np.arange(24, dtype=np.float32).reshape(4, 6), "i": np.array([-1, 2])}
    for expected, got in zip(run(content, given), run(again, given), strict=True):
        np.testing.assert_array_equal(got, expected)


def canonical(content: bytes) -> Graph:
    return canonicalise(lift(load_model(content))).graph


def test_slices_of_one_tensor_become_one_split() -> None:
    cuts = [tensor(f"c{n}", [n], np.int64) for n in (0, 2, 4, 6)]
    slices = [node("Slice", f"x c{n} c{n + 2} one", f"p{n}") for n in (0, 2, 4)]
    content = model(
        [*slices, node("MatMul", "p4 p0", "a"), node("Add", "a p2", "y")],
        [value("x", [2, 6])],
        [value("y", [2, 2])],
        [*cuts, tensor("one", [1], np.int64)],
    ).SerializeToString()
    splits = [made for made in canonical(content) if made.operator.name == "split"]
    assert [getattr(made.operator, "sizes", ()) for made in splits] == [(2, 2, 2)]


def test_slices_that_overlap_are_cut_each_by_itself() -> None:
    numbers = [tensor(f"c{n}", [n], np.int64) for n in (0, 1, 4, 6)]
    content = model(
        [
            node("Slice", "x c0 c4 c1", "a"),
            node("Slice", "x c1 c6 c1", "b"),
            node("Concat", "a b", "y", axis=1),
        ],
        [value("x", [2, 6])],
        [value("y", [2, 9])],
        numbers,
    ).SerializeToString()
    splits = [made for made in canonical(content) if made.operator.name == "split"]
    assert [getattr(made.operator, "sizes", ()) for made in splits] == [(4, 2), (1, 5)]
    assert_same_results(content, written_anew(content))


def test_unused_pieces_are_not_copied() -> None:
    content = SLICES["the middle"].model(17)
    assert operators(written_anew(content)) == "Slice"


def test_bounds_computed_from_sizes_are_known() -> None:
    content = model(
        [
            node("Shape", "x", "shape"),
            node("Gather", "shape one", "width"),
            node("Div", "width two", "half"),
            node("Slice", "x half width one", "y"),
        ],
        [value("x", ["n", 6])],
        [value("y", ["n", 3])],
        [tensor("one", [1], np.int64), tensor("two", [2], np.int64)],
    ).SerializeToString()
    assert [made.operator.name for made in lift(load_model(content)).graph][-1] == "split"
    assert_same_results(content, written_anew(content))


def test_infinities_and_nan_are_moved() -> None:
    content = STEPS["even numbers"].model(17)
    given = {"x": np.full((3, 8), np.nan, np.float32)}
    assert np.isnan(run(written_anew(content), given)[0]).all()
