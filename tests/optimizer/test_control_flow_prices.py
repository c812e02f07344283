"""Prices of control flow have their bodies in them."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.optimizer.cost import GraphCost, Latency, MemoryCostStore, Origin, Sizes
from tests.optimizer.models import lifted_text


def test_a_branch_is_measured_with_what_it_reads_from_outside() -> None:
    lifted = lifted_text(
        f"(bool c, float[64,64] x) => (float[64,64] y) <float[64,64] w = {{{', '.join(['1'] * 4096)}}}>"
        "{ y = If (c) <then_branch = a () => (float[64,64] p) { q = MatMul(x, w) p = MatMul(q, w) },"
        "  else_branch = b () => (float[64,64] r) { r = Identity(x) }> }"
    )
    objective = Latency(MemoryCostStore(), threads=1)
    cost = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    assert objective.measured == len(cost.groups) == 1


def test_a_branch_may_read_what_kernels_would_call_their_own() -> None:
    weights = ", ".join(f"float[2,2] {name} = {{1, 2, 3, 4}}" for name in ("w0", "w1", "w2", "w3"))
    lifted = lifted_text(
        f"(bool c, float[2,2] x0) => (float[2,2] y) <{weights}> {{ x1 = MatMul(x0, w0) y = If (c)"
        " <then_branch = a () => (float[2,2] p) { q = MatMul(x1, w3) p = MatMul(q, w1) },"
        "  else_branch = b () => (float[2,2] r) { r = MatMul(x1, w2) }> }"
    )
    objective = Latency(MemoryCostStore(), threads=1)
    cost = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    assert objective.measured == len(cost.groups) == 2


def test_a_branch_is_measured_whatever_the_sizes_mean_for_the_other() -> None:
    """At the sizes of the run the branch that is not taken would be refused."""
    lifted = lifted_text(
        f"(bool c, float[N,8] x) => (float[M,8] y) <float[8,8] w = {{{', '.join(['1'] * 64)}}},"
        f" float[8,4] v = {{{', '.join(['1'] * 32)}}}> {{ y = If (c)"
        " <then_branch = a () => (float[K,8] p) { p = MatMul(x, w) },"
        "  else_branch = b () => (float[L,8] r) { q = MatMul(v, x) r = MatMul(q, w) }> }"
    )
    objective = Latency(MemoryCostStore(), threads=1)
    GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {"N": 2}, Origin(lifted)))
    assert objective.measured == 1


@pytest.mark.parametrize(("count", "measured"), [("n", 1), ("k", 1), ("", 0)])
def test_a_loop_is_measured_where_its_runs_are_counted(count: str, measured: int) -> None:
    lifted = lifted_text(
        "(bool c, int64 k, float[4] x) => (float[N] y) <int64 n = {7}> {"
        f"  y = Loop ({count}, c, x) <body = b (int64 i, bool on, float[M] v) => (bool still, float[M] u)"
        "  { still = Identity(on) u = Add(v, x) }> }"
    )
    objective = Latency(MemoryCostStore(), threads=1)
    cost = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    assert objective.measured == measured
    if count == "n":
        assert cost.groups[0].kernel.sources[0].content == np.array(7, np.int64).tobytes()


def test_the_price_of_what_is_not_measured_has_its_body_in_it() -> None:
    def total(numbers: int) -> float:
        held = f"float[{numbers}] w = {{{', '.join(['1'] * numbers)}}}"
        lifted = lifted_text(
            "(bool c, float[4] x) => (float[N] y) {"
            "  y = Loop (, c, x) <body = b (int64 i, bool on, float[M] v) => (bool still, float[M] u)"
            f"  <{held}> {{ still = Identity(on) s = ReduceSum(w) u = Add(v, s) }}> }}"
        )
        objective = Latency(MemoryCostStore(), threads=1, deadline=0.0)
        return GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted))).total

    assert total(50_000) > total(5) + 10
