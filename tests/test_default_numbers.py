"""docs/defaults.md gives the numbers of the code."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from superopt.journeys import optimize_job, supervision
from superopt.journeys.bodies import optimizing
from superopt.journeys.changes import conversions
from superopt.optimizer.check import distance, error_baseline, guesses, interval, latency
from superopt.optimizer.pipeline import measured, original, schedule, simulated
from superopt.optimizer.search import strategies
from superopt.optimizer.search.strategies import normalise
from superopt.options import DEFAULTS

TEXT = (Path(__file__).parent.parent / "docs" / "defaults.md").read_text(encoding="utf-8")
PROSE = " ".join(TEXT.split())


def numbers(cell: str) -> tuple[int, ...]:
    return tuple(map(int, cell.split(", ")))


@pytest.mark.parametrize("kind", list(guesses.Kind), ids=lambda kind: kind.name.lower())
def test_guessed_sizes(kind: guesses.Kind) -> None:
    row = re.search(rf"^\| {kind.name.lower()} \| (.*?) \| (.*?) \| (.*?) \|$", TEXT, re.MULTILINE)
    assert row is not None
    first, others, varied = map(numbers, row.groups())
    assert first + others == guesses._CHOICES[kind]
    assert varied == guesses._VARIED[kind]


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


@pytest.mark.parametrize(
    "statement",
    [
        f"wall time of everything, {DEFAULTS.budget:.0f} s by default",
        f"{percent(schedule.EXPLANATION_SHARE)} of the budget are reserved",
        f"{schedule._WRITING_SECONDS_PER_BYTE * 1e9:.0f} ns for each byte of weights are reserved, at most",
        f"reserved, at most {percent(schedule._WRITING_SHARE)} of the budget",
        f"trying sizes ends after {percent(measured._SETTLING_SHARE)} of the time",
        f"at most until {percent(measured._PRICING_SHARE)} of the budget",
        f"normalisation at most {percent(normalise._SHARE)}",
        f"a descent from the original at most {percent(strategies._SHARE_ANEW)} of what is left",
        f"pairs of steps at most {percent(strategies._SHARE_OF_PAIRS)} of what is left then",
        f"the last {percent(measured._SECOND_LOOK_SHARE)} are for measuring again",
        "between {} and {} of the remaining time".format(*map(percent, schedule._SHARES)),
        f"one check and {schedule._WANTED_ROUNDS} rounds need, or up to {schedule._MOST_ROUNDS} rounds",
        f"where the search has found a speed-up below {math.exp(schedule._LARGE_GAIN):.2f} and",
        f"more if {schedule._LEAST_ROUNDS} rounds take",
        f"less than {percent(schedule._LEAST_SEARCH_SHARE)} is left for the search",
        f"at most {percent(optimizing._MOST)} of the budget, in proportion to their nodes",
        f"| {percent(conversions._SHARE)} of the budget for each kind |",
        f"within `--alpha` ({DEFAULTS.alpha})",
        f"after {DEFAULTS.patience} candidates without a better one",
        f"{supervision._OVERRUN} times the budget plus {supervision._OVERRUN_SECONDS:.0f} seconds",
        f"unchanged until {percent(simulated._FIRST_PLAN_SHARE)} of the budget",
        f"rewritten until {percent(simulated._REWRITING_SHARE)}, and planned",
        f"planned again until {percent(simulated._PLANNING_SHARE)}",
        f"planning has {percent(simulated._UNCHECKED_SHARE)}",
        f"| samples of inputs | {DEFAULTS.samples},",
        f"{distance.floor_of('float32', None):.0e}".replace("e-0", "e-") + " of each output's scale",
        "looked at after {}, {}, {} and {}, at most {}".format(*latency._LOOKS, latency._MAX_ROUNDS),
        f"| {percent(interval.DOUBT)} in all |",
        f"at most {measured._SECOND_OPINIONS} more searches",
        f"files with {optimize_job._LARGE >> 20} MiB of weights or more are split",
        f"one at a time from {original._LARGE >> 20} MiB of weights on",
        f"models with more than {simulated._CHECKED_BYTES >> 30} GiB of weights are planned without",
        f"for files up to {error_baseline.PROBED_BYTES >> 20} MiB",
        f"fixed height up to {guesses._TEXT_LINE}",
    ],
)
def test_the_page_says(statement: str) -> None:
    assert statement in PROSE
