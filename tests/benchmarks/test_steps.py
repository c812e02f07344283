"""``python -m benchmarks steps`` on a small network."""

from __future__ import annotations

import pytest

from benchmarks.plans.graphs import machine, planned_step
from benchmarks.plans.steps import rows
from superopt.errors import InvalidOptionError


def test_ours_is_not_slower_than_any_baseline() -> None:
    found = list(
        rows("light-mlp, 8", planned_step("light-mlp:8:cross-entropy"), machine("dgx-a100", 2), 10.0)
    )
    *baselines, waiting, late, apart, ours, limited = found
    data_parallel = {"one device", "ddp", "zero1", "zero2", "zero3", "ps"}
    assert {row.plan for row in baselines} == {*data_parallel, "Megatron 2-way"}
    gathered, reduced = (next(row for row in baselines if row.plan == name) for name in ("zero3", "ddp"))
    assert waiting.plan == "ddp, issued by the longest path"
    assert reduced.microseconds <= waiting.microseconds
    assert gathered.microseconds <= min(late.microseconds, apart.microseconds)
    assert gathered.sent == late.sent == apart.sent
    assert ours.microseconds <= min(row.microseconds for row in baselines)
    assert limited.plan.startswith("ours within")
    assert limited.microseconds >= ours.microseconds
    assert str(ours).startswith("| light-mlp, 8 | 2 | ours |")


@pytest.mark.parametrize("text", ["light-mlp", "light-mlp:8", "light-mlp:x:mse"])
def test_a_step_has_a_batch_and_a_loss(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="expected NETWORK:BATCH:LOSS"):
        planned_step(text)
