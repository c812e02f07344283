"""The sizes at which a model with open dimensions is priced, checked and timed are the same, and are said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import superopt.journeys.in_process
from superopt.errors import InvalidOptionError
from superopt.journeys.replay import replay
from superopt.onnx_io import LiftedModel, lift, load_model
from superopt.optimizer import Measured, optimize
from superopt.optimizer.check import names_apart
from superopt.optimizer.check.guesses import Kind, OpenDimension, open_dimensions
from superopt.optimizer.check.inputs import InputPlan
from superopt.optimizer.cost import MemoryCostStore
from superopt.optimizer.cost.runtime.ports import Port
from superopt.optimizer.pipeline.prepare import refusal_of
from superopt.options import Options
from tests.conftest import WithLibrary
from tests.onnx_io.kit import model, node, tensor, value, weight
from tests.optimizer.models import run
from tests.optimizer.rules import ASSOCIATIVE, rules

WIDE, NARROW = 512, 8


def products(rows: str) -> onnx.ModelProto:
    """A product of three matrices that is worth reordering only where there are many rows."""
    return model(
        [node("MatMul", "x square", "p"), node("MatMul", "p column", "y")],
        [value("x", [rows, WIDE]), value("square", [WIDE, WIDE]), value("column", [WIDE, NARROW])],
        [value("y", [rows, NARROW])],
    )


def lifted(rows: str) -> LiftedModel:
    return lift(load_model(products(rows)))


def inputs_file(directory: Path, rows: int) -> Path:
    random = np.random.default_rng(0)
    shapes = ((rows, WIDE), (WIDE, WIDE), (WIDE, NARROW))
    x, square, column = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    path = directory / "inputs.npz"
    np.savez(path, x=x, square=square, column=column)
    return path


def test_a_gain_is_one_at_the_sizes_that_were_given(costs: MemoryCostStore) -> None:
    few = run(lifted("n"), costs).report
    assert (few.returned, dict(few.sizes.priced), few.sizes.guessed) == ("original", {"n": 1}, ("n",))
    many = run(lifted("n"), costs, dims={"n": 700}).report
    assert (many.returned, many.sizes.guessed, many.sizes.request) == ("optimized", (), "")
    assert many.sizes.priced == many.sizes.timed == many.sizes.checked[0] == {"n": 700}
    assert "guessed" not in many.why


def test_a_gain_at_guessed_sizes_says_so(costs: MemoryCostStore) -> None:
    report = run(lifted("tokens"), costs).report
    assert report.returned == "optimized"
    assert report.why.endswith(", at guessed sizes: tokens=128")
    told = report.sizes.to_json()
    smaller = told.pop("smaller")
    assert told == {
        "priced": {"tokens": 128},
        "checked": [{"tokens": 128}, {"tokens": 48}, {"tokens": 33}],
        "timed": {"tokens": 128},
        "guessed": ["tokens"],
        "request": "--dim tokens=128",
        "apart": [],
        "given": None,
    }
    assert isinstance(smaller, dict)
    assert smaller["sizes"] == {"tokens": 32}
    assert 0 < smaller["low"] <= smaller["ratio"] <= smaller["high"]


def test_sizes_of_given_inputs_count(costs: MemoryCostStore, tmp_path: Path) -> None:
    path = inputs_file(tmp_path, 300)
    report = run(lifted("n"), costs, inputs=path).report
    assert (report.returned, report.sizes.guessed) == ("optimized", ())
    assert report.sizes.priced == report.sizes.timed == {"n": 300}
    assert {"n": 300} in report.sizes.checked


def test_an_option_that_contradicts_the_inputs_is_refused(costs: MemoryCostStore, tmp_path: Path) -> None:
    path = inputs_file(tmp_path, 300)
    with pytest.raises(
        InvalidOptionError, match=r"dimension n: expected one size, got 8 as an option and 300"
    ):
        optimize(
            lifted("n"), rules(ASSOCIATIVE), Options(dims={"n": 8}, inputs=path, threads=1), Measured(costs)
        )


def test_where_the_model_does_not_run_nothing_is_searched(costs: MemoryCostStore) -> None:
    made = model(
        [node("Gather", "table ids", "e"), node("Add", "e places", "y")],
        [value("ids", ["n", "seq"], TensorProto.INT64)],
        [value("y", ["n", "seq", 2])],
        [weight("table", 9, 2), weight("places", 1, 64, 2)],
    )
    report = run(lift(load_model(made)), costs, dims={"seq": 5}).report
    assert report.why.startswith("the original does not run at seq=5 (")
    assert "Attempting to broadcast an axis by a dimension other than 1. 5 by 64" in report.why
    assert report.why.endswith("; give valid sizes of n (--dim n=SIZE), or --inputs")
    assert report.sizes.priced == {}
    assert report.search.candidates == 0


_FAILS = "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            f"{_FAILS} Reshape node. Status Message: /s/help.h:91 Help(bool) a == b was false. No\n",
            "No",
        ),
        (
            f"{_FAILS} Loop node. Status Message: /k.cc:87 Out(int) [ONNXRuntimeError] : 2 : FAIL : No {{}}",
            "No {}",
        ),
        (f"{_FAILS} MatMul node. Name:'' Status Message: matmul_helper.h:59 Compute M", "Compute M"),
        ("not enough memory", "not enough memory"),
    ],
)
def test_the_cause_is_shown_and_not_its_place_in_the_source(message: str, cause: str) -> None:
    refusal = refusal_of(Options(), ["a", "b", "c", "d", "e", "f", "g", "h"], message)
    assert refusal == (
        f"the original does not run on random inputs ({cause}); "
        "give valid sizes of a, b, c, d, e, f, 2 more (--dim a=SIZE), or --inputs"
    )


def test_sizes_inside_the_model_follow(costs: MemoryCostStore) -> None:
    """Images are made larger by half, which no operator describes, before a convolution."""
    made = model(
        [node("Resize", "x - scales", "larger"), node("Conv", "larger w", "c"), node("Relu", "c", "y")],
        [value("x", ["n", 3, "h", "w"])],
        [value("y", ["n", 4, "height", "width"])],
        [tensor("scales", [1, 1, 1.5, 1.5]), weight("w", 4, 3, 1, 1)],
    )
    lifted = lift(load_model(made))
    report = run(lifted, costs, objective="flops", dims={"n": 2, "h": 40, "w": 20}, budget=4.0).report
    multiplications = 2 * 3 * 4 * 60 * 30
    assert 2 * multiplications <= report.cost.before < 2.5 * multiplications


def test_a_model_without_open_dimensions_has_no_sizes(costs: MemoryCostStore) -> None:
    made = model([node("Relu", "x", "y")], [value("x", [2, 3])], [value("y", [2, 3])])
    report = run(lift(load_model(made)), costs).report
    assert (report.sizes.priced, report.sizes.guessed, report.sizes.request) == ({}, (), "")


def flattened() -> onnx.ModelProto:
    """Images of 48 to 192, whose exporter called both axes alike."""
    return model(
        [node("Reshape", "x shape", "row"), node("MatMul", "row square", "p"),
         node("MatMul", "p column", "y")],
        [value("x", ["n", 1, "side", "side"]), value("square", [9216, 64]), value("column", [64, 1])],
        [value("y", ["n", 1])],
        [tensor("shape", [-1, 9216], np.int64)],
    )  # fmt: skip


def test_axes_that_are_called_alike_may_differ(tmp_path: Path, with_library: WithLibrary) -> None:
    source = load_model(flattened())
    path = tmp_path / "inputs.npz"
    np.savez(path, x=np.zeros((1, 1, 48, 192), np.float32))
    assert names_apart(source, {}, None) == frozenset()
    assert names_apart(source, {"n": 2, "side": 96}, None) == frozenset()
    assert names_apart(source, {}, path) == names_apart(source, {"x.2": 48}, None) == {"side"}
    options = Options(budget=60.0, max_candidates=20, threads=1, dims={"x.2": 48, "x.3": 192})
    database = with_library(tmp_path / "rules.db")
    result = superopt.journeys.in_process.optimize_with(flattened(), options, database=database)
    sizes = result.report.sizes
    assert (dict(sizes.priced), sizes.apart) == ({"n": 1, "x.2": 48, "x.3": 192}, ("side",))
    written = result.model
    assert list(written.graph.input) == list(flattened().graph.input)
    again = replay(flattened(), result.to_json(), database=database)
    assert again.to_bytes() == result.to_bytes()


def test_sizes_that_were_given_are_named_where_nothing_runs() -> None:
    dimensions = tuple(OpenDimension(name, (("x", axis),), Kind.LENGTH) for axis, name in enumerate("bh"))
    assert InputPlan((), {}, dimensions, {}).refusal == (
        "the original does not run on random inputs; give valid sizes of b, h (--dim b=SIZE), or --inputs"
    )
    assert InputPlan((), {}, dimensions, {"h": 300}).refusal == (
        "the original does not run on random inputs at h=300, and at any sizes of b that were tried; "
        "give other sizes, or --inputs"
    )
    assert InputPlan((), {}, dimensions, {"b": 1, "h": 300}).refusal == (
        "the original does not run on random inputs at b=1, h=300; give other sizes, or --inputs"
    )


def test_a_name_says_more_than_the_axis_of_a_state() -> None:
    """The second axis of a recurrent state is the batch, unless it is called otherwise."""
    states = ("hidden", "h0")
    ports = [
        Port("hidden", "float32", ("batch", "encoder_sequence_length", 512)),
        Port("h0", "float32", (2, "h0.1", 64)),
    ]
    kinds = {found.name: found.kind for found in open_dimensions(ports, {}, states)}
    assert kinds == {"batch": Kind.BATCH, "encoder_sequence_length": Kind.LENGTH, "h0.1": Kind.BATCH}
