"""Bisection finds the first step that changes outputs, and rounding makes no rule suspect."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from superopt.ir import Graph
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.lifting.models import COMPUTES_SIZES
from superopt.ops import Opaque
from superopt.ops.elementwise.activation import Relu
from superopt.ops.elementwise.selection import Greater
from superopt.optimizer.check import Equivalence
from superopt.optimizer.check.judging import Evidence
from superopt.optimizer.pipeline import bisection
from superopt.optimizer.pipeline.bisection import (
    exceeds_rounding,
    find_suspect,
    first_difference,
    jumps,
)
from superopt.optimizer.search import TraceStep
from tests.optimizer.graphs import Builder

START = Graph.empty()


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 100])
def test_the_first_step_that_differs_is_found(steps: int) -> None:
    for wrong in range(1, steps + 1):
        asked: list[int] = []

        def is_equal(count: int, wrong: int = wrong, asked: list[int] = asked) -> bool:
            asked.append(count)
            return count < wrong

        assert first_difference(steps, is_equal) == wrong
        assert len(asked) <= 2 + math.ceil(math.log2(steps))


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({0: True, 4: True}, id="no difference after all steps"),
        pytest.param({0: False, 4: False}, id="a difference before the first"),
        pytest.param({0: True, 4: None}, id="the whole cannot be compared"),
        pytest.param({0: None, 4: False}, id="the start cannot be compared"),
        pytest.param({0: True, 2: None, 4: False}, id="a part cannot be compared"),
    ],
)
def test_nobody_is_to_blame_where_that_is_not_known(answers: dict[int, bool | None]) -> None:
    assert first_difference(4, answers.__getitem__) is None


@pytest.mark.parametrize(
    ("domain", "op_type", "made", "says_nothing"),
    [
        ("", "DynamicQuantizeLinear", ElementType.UINT8, True),
        ("", "Round", ElementType.FLOAT, True),
        ("", "Cast", ElementType.INT32, True),
        ("", "NonZero", ElementType.INT64, True),
        ("", "Loop", ElementType.FLOAT, True),
        ("ai.onnx.ml", "TreeEnsembleRegressor", ElementType.FLOAT, True),
        ("", "Asinh", ElementType.FLOAT, False),
        ("", "Softsign", ElementType.FLOAT, False),
    ],
)
def test_no_rule_is_to_blame_where_rounding_may_change_everything(
    domain: str, op_type: str, made: ElementType, *, says_nothing: bool
) -> None:
    b = Builder()
    type_ = TensorType(made, (2, 3))
    y = b.editor.add(Opaque(domain, op_type, 0, "test"), (b.input("x", 2, 3),), types=(type_,)).value
    graph = b.graph(y)
    assert jumps(graph) == says_nothing
    asked: list[Graph] = []
    assert find_suspect(graph, (), (), asked.append) is None
    assert bool(asked) != says_nothing


def test_comparing_numbers_jumps_and_reading_sizes_does_not() -> None:
    b = Builder()
    x, y = b.input("x", 2, 3), b.input("y", 2, 3)
    assert jumps(b.graph(b.add(Greater(), x, y)))
    b = Builder()
    x = b.input("x", 2, 3)
    size = b.editor.add(
        Opaque("", "Shape", 0, COMPUTES_SIZES), (x,), types=(TensorType(ElementType.INT64, (2,)),)
    )
    assert not jumps(b.graph(size.value, b.add(Relu(), x)))


EQUAL = Equivalence(passed=True, samples=1, max_abs_error=0.0, max_rel_error=0.0, tolerance=1e-4)
DIFFERENT = Equivalence(
    passed=False,
    samples=1,
    max_abs_error=1.0,
    max_rel_error=0.5,
    tolerance=1e-5,
    evidence=Evidence(excess=1e4),
)


@pytest.mark.parametrize(
    ("equivalence", "said"),
    [
        (DIFFERENT, True),
        (replace(DIFFERENT, max_rel_error=math.inf, evidence=Evidence()), True),
        (replace(DIFFERENT, max_rel_error=2e-3), True),
        (replace(DIFFERENT, tolerance=1e-2), True),
        (replace(DIFFERENT, passed=True), False),
        (replace(DIFFERENT, samples=0, max_rel_error=math.inf), False),
        (replace(DIFFERENT, max_rel_error=5e-4), False),
        (replace(DIFFERENT, max_rel_error=5e-4, tolerance=1e-12), False),
        (replace(DIFFERENT, max_rel_error=5e-2, tolerance=1e-2), False),
        (replace(DIFFERENT, evidence=Evidence(excess=3.0)), False),
        (replace(DIFFERENT, max_rel_error=math.inf, overflows=True), False),
    ],
)
def test_rounding_makes_no_rule_suspect(equivalence: Equivalence, said: bool) -> None:  # noqa: FBT001
    assert exceeds_rounding(equivalence) is said


@pytest.mark.parametrize("refused", [False, True])
def test_what_the_runtime_refuses_is_told_apart(monkeypatch: pytest.MonkeyPatch, *, refused: bool) -> None:
    """A rule is not made suspect by a form that the runtime does not run."""
    monkeypatch.setattr(bisection, "replay", lambda _, trace, __: Graph.empty() if trace else START)
    step = TraceStep("a rule", "x => x", backwards=False, site=(), choice=0, cost_before=2.0, cost_after=1.0)
    found = find_suspect(
        START,
        (step,),
        (),
        lambda graph: (
            EQUAL if graph is START else replace(DIFFERENT, max_rel_error=math.inf, refused=refused)
        ),
    )
    assert found is not None
    assert (found.rule, found.refused) == ("a rule", refused)
