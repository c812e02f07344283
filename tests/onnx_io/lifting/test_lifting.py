"""What ONNX nodes become in the graph, and what the graph is written as: texts that a person can read."""

from __future__ import annotations

import onnx
import pytest

from superopt.ir.text import format_graph
from superopt.onnx_io import lift, load_model
from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import assert_same_results, listing
from tests.onnx_io.lifting.case import Case
from tests.onnx_io.lifting.elementwise_cases import ELEMENTWISE
from tests.onnx_io.lifting.layers_cases import LAYERS
from tests.onnx_io.lifting.selection_cases import SELECTION
from tests.onnx_io.lifting.shapes_cases import SHAPES

CASES = (*ELEMENTWISE, *LAYERS, *SELECTION, *SHAPES)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@every_case
def test_the_graph_of_a_model(case: Case) -> None:
    assert format_graph(lift(load_model(case.model())).graph).splitlines() == lines(case.lifted)


@every_case
def test_the_nodes_of_a_graph(case: Case) -> None:
    written = written_anew(case.model())
    assert listing(written).splitlines() == lines(case.written)
    onnx.checker.check_model(written, full_check=True)
    assert_same_results(case.model(), written)


def test_symbols_say_where_they_are_from() -> None:
    case = next(case for case in CASES if case.name == "unknown dimensions")
    symbols = lift(load_model(case.model())).symbols
    assert {name: symbols[name] for name in ("x.0", "x.2", "W")} == {
        "x.0": "x, axis 0",
        "x.2": "x, axis 2",
        "W": "x, axis 3",
    }


def test_opaque_nodes_say_why() -> None:
    reasons = {case.name: why for case in CASES for _, _, why in lift(load_model(case.model())).opaque}
    assert reasons == {
        "automatic padding that crops after one that does not": (
            "auto_pad is SAME_UPPER, and strides are longer than windows"
        ),
        "convolution over three axes": "it convolves a volume of fewer than 64 channels",
        "reshape to a computed shape": "the shape is computed at run time",
        "integers": "int64 operands stay as they are: rules are over the reals",
        "unknown dimensions": "no operator describes it",
        "casts": "it cuts numbers off",
    }
