"""``python -m benchmarks batches`` on a small network."""

from __future__ import annotations

from benchmarks.plans.batches import COLUMNS, largest_batch, network_rows
from superopt.optimizer.memory.liveness import liveness

NETWORK, LIMIT = "light-gpt2", 8_000_000
SECONDS = 120.0
"""What no search takes: results depend on no clock."""


def test_the_largest_batch_that_fits_is_found() -> None:
    found = largest_batch(NETWORK, LIMIT, SECONDS)
    assert liveness(found.program, found.order).peak == found.peak <= LIMIT
    assert largest_batch(NETWORK, found.peak, SECONDS).batch == found.batch
    assert largest_batch(NETWORK, found.peak - 1, SECONDS).batch == found.batch - 1


def test_larger_batches_run_with_recomputation() -> None:
    first, second, *_ = (
        [cell.strip() for cell in row.strip("|").split("|")] for row in network_rows(NETWORK, LIMIT, SECONDS)
    )
    assert len(first) == len(second) == len(COLUMNS)
    assert int(second[1]) == int(int(first[1]) * 1.5)
    assert int(second[6]) > 0
    assert float(second[7]) > 0
