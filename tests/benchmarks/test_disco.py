"""``python -m benchmarks disco`` on a small network."""

from __future__ import annotations

from benchmarks.plans.disco import HEADER, Case, ablation, row
from superopt.optimizer.fusion.joint.published import METHODS

CASE = Case("light-mlp", "momentum", 4)
CLUSTER = "disco-a:1"


def test_a_row_compares_searches_with_the_rules_and_with_full_overlap() -> None:
    found = row(CASE, CLUSTER, 0.5, 0)
    assert found.batch == 8
    assert found.overlapped <= found.bound <= found.ours <= min(found.rules.values())
    assert found.gain(found.overlapped) >= found.gain(found.bound) >= found.gain(found.ours) >= 0
    assert str(found).count("|") == HEADER.splitlines()[0].count("|")


def test_the_ablation_leaves_out_each_method() -> None:
    names = [name for name, _ in ablation(CASE, CLUSTER, 0.1, 0)]
    methods = [f"DisCo's without {method.__name__}" for method in METHODS]
    assert names[: 1 + len(METHODS)] == ["DisCo's", *methods]
    assert [name.split()[0] for name in names[1 + len(METHODS) :]] == ["ours"] * 4
