"""Whether a model is faster is decided from noisy times: how often that is wrong, by recorded noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from optimizer.check import Comparison, compared
from optimizer.check.interval import DOUBT, student_quantile
from optimizer.cost.runtime import Array
from optimizer.decision import Ablation
from optimizer.explanation.gains import rule_gains
from optimizer.search import TraceStep
from superopt.ir.graph import NodeId

RECORDED = json.loads(Path(__file__).with_name("noise.json").read_text())
"""Microseconds, [rounds, pairs, 2]: networks raced against themselves, each round in two fresh sessions, on a
machine with four times as much to do as it has cores."""

TRIALS = 800


def null_races(name: str, rounds: int, random: np.random.Generator) -> Array:
    """Rounds drawn anew, with sides exchanged at random, so that neither side is faster."""
    recorded = np.asarray(RECORDED[name])
    drawn = recorded[random.integers(0, len(recorded), rounds)]
    exchanged = random.random(rounds) < 0.5
    drawn[exchanged] = drawn[exchanged][..., ::-1]
    return drawn


@pytest.mark.parametrize("rounds", [1, 2, 4, 12])
@pytest.mark.parametrize("name", RECORDED)
def test_a_model_is_rarely_found_faster_than_itself(name: str, rounds: int) -> None:
    random = np.random.default_rng(0)
    accepted = sum(compared(null_races(name, rounds, random)).low > 1 for _ in range(TRIALS))
    assert accepted <= 0.02 * TRIALS


@pytest.mark.parametrize("name", RECORDED)
def test_many_judgements_are_not_more_often_wrong(name: str) -> None:
    """Eight judgements of one court, each asked for twice the certainty of the one before."""
    random = np.random.default_rng(1)
    trials = TRIALS // 4
    accepted = sum(
        any(compared(null_races(name, 6, random), DOUBT / 2**look).low > 1 for look in range(8))
        for _ in range(trials)
    )
    assert accepted <= 0.03 * trials


@pytest.mark.parametrize(("gain", "rounds"), [(1.3, 3), (1.15, 8), (1.05, 24)])
@pytest.mark.parametrize("name", RECORDED)
def test_a_gain_is_found(name: str, gain: float, rounds: int) -> None:
    random = np.random.default_rng(2)
    found = 0
    for _ in range(100):
        times = null_races(name, rounds, random)
        times[..., 0] *= gain
        found += compared(times).low > 1
    assert found >= 0.7 * 100


def test_what_leaving_a_rule_out_costs_is_its_measured_gain() -> None:
    """Both races are against the original, at other times: their ratios tell, not their microseconds."""
    whole = Comparison(before=1000.0, after=500.0, ratio=2.0, low=1.9, high=2.1, runs=30)
    without = Comparison(before=1500.0, after=1200.0, ratio=1.25, low=1.2, high=1.3, runs=30)
    steps = [
        TraceStep(rule, f"{rule} => x", False, (NodeId(1),), 0, before, after)  # noqa: FBT003
        for rule, before, after in (("a", 1000.0, 900.0), ("b", 900.0, 620.0), ("a", 620.0, 480.0))
    ]
    found = rule_gains(steps, [Ablation("b", whole, without)])
    assert [(gain.rule, gain.times, gain.predicted) for gain in found] == [("b", 1, 280.0), ("a", 2, 240.0)]
    assert [gain.measured and gain.measured.gain for gain in found] == [1000 / 1.25 - 1000 / 2, None]


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [(0.99, 1, 31.821), (0.99, 2, 6.965), (0.99, 3, 4.541), (0.99, 8, 2.896), (0.995, 3, 5.841)],
)
def test_students_quantiles(probability: float, freedom: int, quantile: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(quantile, abs=1e-3)
