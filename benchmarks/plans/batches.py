"""Larger batches by recomputation: RAF's experiment (Yu et al. 2023, section 5.1, figure 8).

    python -m benchmarks batches [NETWORK@TOKENS ...] [--memory 16] [--seconds 120]

For each network the largest batch whose training step (AdamW) fits into so many GiB in our best order, and
multiples of it that need recomputation: the nodes that run again, the time that this adds, and the samples
per second relative to those of the batch that fits. RAF's rule and Chen's segments have the same limit.
Times of nodes are those of a V100's roofline, as in ``benchmarks remat``; nothing is run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.plans.remat import added, segments_of, step_program
from superopt.optimizer.memory.baselines import raf_recompute
from superopt.optimizer.memory.fit import fit_order
from superopt.optimizer.memory.liveness import Program, Schedule, liveness
from superopt.optimizer.memory.nodes import NodeProgram
from superopt.optimizer.memory.order import search_order

NETWORKS = ("bert-base@512", "bert-large@512", "gpt2@512")
FACTORS = (1.5, 2.0, 3.0)
COLUMNS = (
    *("network", "batch", "GB as it is", "RAF adds", "Chen adds", "ours adds", "nodes again"),
    *("samples/s", "of those of the batch that fits", "s"),
)
GIGA = 1e9
MICRO = 1e6


def main() -> None:
    """Prints the table, row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks batches", description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--memory", type=float, default=16.0, help="GiB of the device")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each search")
    given = parser.parse_args()
    sys.stdout.write(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n")
    limit = int(given.memory * 2**30)
    for network in given.networks:
        for row in network_rows(network, limit, given.seconds):
            sys.stdout.write(row + "\n")
            sys.stdout.flush()


def network_rows(named: str, limit: int, seconds: float) -> Iterator[str]:
    """The row of the largest batch that fits, then those of its multiples, until one does not fit at all."""
    fitting = largest_batch(named, limit, seconds)
    rate = fitting.rate(fitting.program.cost(fitting.order))
    yield f"| {named} | {fitting.batch} | {fitting.peak / GIGA:.1f} | | | | 0 | {rate:.1f} | 100% | |"
    for factor in FACTORS:
        larger = Batch.of(named, int(fitting.batch * factor), seconds)
        if larger.batch == fitting.batch:
            continue
        program, order = larger.program, larger.order
        started = time.monotonic()
        fit = fit_order(program, order, limit, started + seconds)
        took = time.monotonic() - started
        within = [one for one in segments_of(larger.nodes, order) if one.peak <= limit]
        kept = larger.rate(fit.found.cost)
        cells = (
            f"| {named} | {larger.batch} | {larger.peak / GIGA:.1f}",
            added(program, order, raf_recompute(program, order, limit), limit),
            added(program, order, min(within, key=lambda one: one.cost, default=None), limit),
            added(program, order, fit.found, limit),
            str(len(fit.found.schedule) - len(order)) if fit.fits else "–",
            f"{kept:.1f} | {kept / rate:.1%}" if fit.fits else "– | –",
            f"{took:.0f} |",
        )
        yield " | ".join(cells)
        if not fit.fits:
            return


@dataclass(frozen=True)
class Batch:
    """A training step for so many samples, and our order of its nodes."""

    batch: int
    nodes: NodeProgram
    order: Schedule

    @staticmethod
    def of(named: str, batch: int, seconds: float) -> Batch:
        """The step of a network; the order is searched for so many seconds at most."""
        nodes = step_program(f"{named}:{batch}")
        return Batch(batch, nodes, search_order(nodes.program, seconds))

    @property
    def program(self) -> Program:
        """The operations of the step."""
        return self.nodes.program

    @property
    def peak(self) -> int:
        """Bytes at once."""
        return liveness(self.program, self.order).peak

    def rate(self, cost: float) -> float:
        """Samples per second if a step takes so many microseconds."""
        return self.batch * MICRO / cost


def largest_batch(named: str, limit: int, seconds: float) -> Batch:
    """The largest batch that fits without recomputation. Peaks grow about in proportion to the batch."""
    first, second = (Batch.of(named, batch, seconds) for batch in (1, 2))
    if first.peak > limit:
        raise SystemExit(f"{named}: one sample needs {first.peak:,} bytes, and there are {limit:,}")
    guess = max(1, 1 + (limit - first.peak) // max(1, second.peak - first.peak))
    found = Batch.of(named, guess, seconds)
    while found.peak > limit:
        found = Batch.of(named, found.batch - 1, seconds)
    while (larger := Batch.of(named, found.batch + 1, seconds)).peak <= limit:
        found = larger
    return found


if __name__ == "__main__":
    main()
