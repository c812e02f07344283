"""Whether a model is faster is decided from noisy times: how often that is wrong, by recorded noise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from superopt.ir.graph import Graph, NodeId
from superopt.onnx_io import Executed
from superopt.optimizer.check import Comparison, compare_latency, compared
from superopt.optimizer.check.interval import DOUBT, signed_rank_quantile, student_quantile
from superopt.optimizer.check.latency import ModelPair, Pairs
from superopt.optimizer.cost.runtime.session import Array, RunTime
from superopt.optimizer.explanation.gains import rule_gains
from superopt.optimizer.pipeline.decision import executed_difference, rejection_reason
from superopt.optimizer.pipeline.verdict import Ablation, Variant, Verdict, most_promising
from superopt.optimizer.search import TraceStep

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


@pytest.mark.parametrize("rounds", [1, 2, 4, 12, 24])
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


@pytest.mark.parametrize(("gain", "rounds"), [(1.5, 3), (1.15, 8), (1.05, 24)])
@pytest.mark.parametrize("name", RECORDED)
def test_a_gain_is_found(name: str, gain: float, rounds: int) -> None:
    random = np.random.default_rng(2)
    found = 0
    for _ in range(100):
        times = null_races(name, rounds, random)
        times[..., 0] *= gain
        found += compared(times).low > 1
    assert found >= 0.7 * 100


Noise: TypeAlias = "Callable[[np.random.Generator, int], Array]"
"""Logarithms of the times of a round, [pairs, 2], of two equal models."""


def calm(random: np.random.Generator, pairs: int) -> Array:
    """A quiet machine: where sessions lie is worth a per cent, single runs another."""
    return random.normal(0, 0.01, (1, 2)) + random.normal(0, 0.01, (pairs, 2))


def drifting(random: np.random.Generator, pairs: int) -> Array:
    """A machine that becomes slower by up to half in the course of a round."""
    slope = random.uniform(0, 0.5)
    return calm(random, pairs) + np.linspace(0, slope, 2 * pairs).reshape(pairs, 2)


def bursts(random: np.random.Generator, pairs: int) -> Array:
    """Others come for several runs at a time and make them up to three times as slow."""
    others = np.repeat(random.random(pairs) < 0.4, 2)[:pairs]
    return calm(random, pairs) + random.uniform(0, 1, (pairs, 2)) * others[:, None]


def heavy(random: np.random.Generator, pairs: int) -> Array:
    """Runs that are now and then slower by any factor, and sessions that differ by more than usual."""
    return 0.02 * np.abs(random.standard_t(1.5, (pairs, 2))) + 0.01 * random.standard_t(3, (1, 2))


def unlucky(random: np.random.Generator, pairs: int) -> Array:
    """Sessions of which one in five is a twentieth slower for life."""
    return calm(random, pairs) + 0.05 * (random.random((1, 2)) < 0.2)


NOISES: tuple[Noise, ...] = (calm, drifting, bursts, heavy, unlucky)


def race(noise: Noise, gain: float, seed: int, *, seconds: float, longest: float = 0.0) -> Comparison:
    """A whole race in drawn noise, with every look at the answer: without time, three rounds."""
    random = np.random.default_rng(seed)

    def round_of(models: ModelPair, order: Sequence[int], pairs: int | None, seconds: float) -> Pairs:  # noqa: ARG001
        times = 1000 * np.exp(noise(random, pairs or 6))
        exchanged = random.random(len(times)) < 0.5 if noise is drifting else random.random() < 0.5
        times[exchanged] = times[exchanged][..., ::-1]
        return [(RunTime(gain * a, gain * a), RunTime(b, b)) for a, b in times]

    return compare_latency(
        b"", b"", {}, threads=1, seconds=seconds, longest=longest, seed=seed, round_of=round_of
    )


@pytest.mark.parametrize(("seconds", "longest"), [(0.0, 0.0), (1e6, 0.0), (0.0, 1e6), (1e6, 1e6)])
@pytest.mark.parametrize("noise", NOISES)
def test_looking_at_the_answer_again_and_again_is_not_more_often_wrong(
    noise: Noise, seconds: float, longest: float
) -> None:
    trials = 80 if seconds else 300
    found = [race(noise, 1.0, seed, seconds=seconds, longest=longest) for seed in range(trials)]
    assert sum(one.is_faster for one in found) <= 0.02 * trials
    assert sum(one.high < 1 for one in found) <= 0.02 * trials


@pytest.mark.parametrize(("gain", "seconds"), [(1.6, 0.0), (1.2, 1e6)])
@pytest.mark.parametrize("noise", [calm, drifting, bursts, heavy])
def test_a_gain_is_found_in_any_noise(noise: Noise, gain: float, seconds: float) -> None:
    found = [race(noise, gain, seed, seconds=seconds, longest=seconds) for seed in range(30)]
    assert sum(one.is_faster for one in found) >= 27


def test_what_is_clear_ends_early_and_what_is_undecided_late() -> None:
    assert race(calm, 2.0, 0, seconds=1e6).rounds == 3
    undecided = race(heavy_pairs, 1.0, 0, seconds=0.0, longest=1e6)
    assert undecided.rounds > 3


def heavy_pairs(random: np.random.Generator, pairs: int) -> Array:
    """Runs that nothing can be said about."""
    return random.normal(0, 0.5, (pairs, 2))


def test_threads_that_wait_for_each_other_are_no_gain() -> None:
    """Half the processor time, but no less time by the clock on the wall."""

    def round_of(models: ModelPair, order: Sequence[int], pairs: int | None, seconds: float) -> Pairs:  # noqa: ARG001
        return [(RunTime(1000.0, 1000.0), RunTime(1010.0, 500.0))] * 6

    several = compare_latency(b"", b"", {}, threads=2, seconds=0.0, round_of=round_of)
    assert several.ratio == pytest.approx(2.0)
    assert not several.is_faster
    assert compare_latency(b"", b"", {}, threads=1, seconds=0.0, round_of=round_of).is_faster


@pytest.mark.parametrize(
    ("count", "doubt", "left_out"),
    [(10, 0.01, 5), (12, 0.01, 9), (20, 0.01, 43), (7, 0.01, 0), (6, 0.01, None), (9, 0.01 / 6, None)],
)
def test_signed_ranks(count: int, doubt: float, left_out: int | None) -> None:
    """As in the tables of Wilcoxon's test, one-sided; None where so few rounds prove nothing."""
    assert signed_rank_quantile(count, doubt) == left_out


def test_a_loaded_machine_is_given_as_the_reason() -> None:
    found = Comparison(1000.0, 950.0, 1.05, 0.8, 1.4, runs=6, rounds=2, share=0.21)
    assert re.fullmatch(
        r"but undecided: the machine is too loaded \(runs had a core for 21% of their time; load average "
        r"[0-9.]+ on \d+ cores\): measured 1\.050 \(0\.800 to 1\.400\) times as fast in 2 rounds",
        rejection_reason(found),
    )
    assert rejection_reason(replace(found, share=1.0)) == (
        "but undecided: measured 1.050 (0.800 to 1.400) times as fast in 2 rounds; "
        "a longer budget allows for more"
    )
    assert rejection_reason(replace(found, low=0.98, high=1.02)).startswith(
        "but not certainly faster: measured"
    )
    assert rejection_reason(replace(found, low=0.98, high=1.02), 0.99).startswith(
        "but perhaps slower by more than the 1% that are allowed: measured"
    )


@pytest.mark.parametrize(
    ("ratios", "chosen"),
    [
        ((0.97, 0.9, None), 0),
        ((0.9, 0.97, None), 1),
        ((None, 0.9, None), 1),
        ((None, 0.9, 0.9), 1),
        ((None, None), 0),
    ],
)
def test_a_report_describes_the_best_measurement_else_the_first_verdict(
    ratios: Sequence[float | None], chosen: int
) -> None:
    variant = Variant(Graph.empty(), (), ())
    measured = [None if ratio is None else Comparison(1.0, 1.0, ratio, 0.8, 1.1, runs=3) for ratio in ratios]
    verdicts = [Verdict(variant, False, "", comparison=comparison) for comparison in measured]  # noqa: FBT003
    assert most_promising(verdicts) is verdicts[chosen]


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


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"Relu": 2}, {"Relu": 2}, ""),
        (
            {"Conv": 2, "Relu": 1},
            {"com.microsoft.nchwc.Conv": 2, "Relu": 1},
            "ONNX Runtime executes 0 Conv for 2, 2 nchwc.Conv for 0",
        ),
        (
            dict.fromkeys("ABCDEFG", 1) | {"G": 9},
            {},
            (
                "ONNX Runtime executes 0 G for 9, 0 A for 1, 0 B for 1, 0 C for 1, 0 D for 1, "
                "and 2 more kinds of kernel in other numbers"
            ),
        ),
    ],
)
def test_the_largest_differences_in_kernels_are_named(
    before: dict[str, int], after: dict[str, int], text: str
) -> None:
    assert executed_difference(Executed(before, "a"), Executed(after, "b")) == text
    assert executed_difference(None, Executed(after, "b")) == ""
