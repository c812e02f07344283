"""What may be asked of an optimization."""

from __future__ import annotations

import pytest

from superopt.errors import InvalidOptionError
from superopt.optimizer import Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "beauty"}, "objective: expected one of latency, throughput, flops, .*, got 'beauty'"),
        (
            {"search": "none"},
            "search: expected one of auto, backtracking, regions, beam .none only with a cluster., got",
        ),
        (
            {"objective": "memory", "cluster": "dgx-h100"},
            "objective: expected one of latency, throughput, training .memory only without a cluster., got",
        ),
        (
            {"search": "beam", "cluster": "dgx-h100"},
            "search: expected one of auto, none .beam only without a cluster., got 'beam'",
        ),
        ({"budget": 0.0}, "budget: expected a number of seconds, above 0, got 0.0"),
        ({"alpha": 0.9}, "alpha: expected a number, at least 1, got 0.9"),
        ({"threads": 0}, "threads: expected a whole number, at least 1 and at most [0-9]+, got 0"),
        ({"threads": 1_000_000}, "threads: expected a whole number, at least 1 and at most .*, got 1000000"),
        ({"seed": -1}, "seed: expected a whole number, at least 0 and at most [0-9]+, got -1"),
        ({"search": "oracle"}, "search: expected one of auto, backtracking, regions, beam, got 'oracle'"),
        ({"max_candidates": -1}, "max_candidates: expected a whole number, at least 0, got -1"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        Options(**options)  # type: ignore[arg-type]
