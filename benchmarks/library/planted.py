"""Plants wrong rules by the thousand and prints, for each kind, how many were refuted, unproved or verified.

    python -m benchmarks planted [--count 20000] [--seed 1] [--jobs 2]

Changes that brute force has not seen through are judged too: one that is verified is searched once more, with
sixty times the effort. Exit code 1 if a wrong rule was verified.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.verifier.changes import KINDS
from tests.verifier.planting import Tally, judge_all_changes

PER_TASK = 50


def main() -> int:
    """Judges kind by kind, 50 rules at a time."""
    parser = argparse.ArgumentParser(prog="benchmarks planted", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    rounds = -(-arguments.count // (PER_TASK * len(KINDS)))
    seeds = range(arguments.seed, arguments.seed + rounds)
    total = Tally()
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        tasks = {
            kind: [pool.submit(judge_all_changes, kind, PER_TASK, seed) for seed in seeds] for kind in KINDS
        }
        for kind, futures in tasks.items():
            tally = sum((future.result() for future in futures), Tally())
            total += tally
            _print(kind, tally)
    _print("all", total)
    return 1 if total.accepted else 0


def _print(kind: str, tally: Tally) -> None:
    wrong = f"{tally.planted:6} wrong: {tally.refuted:6} refuted {tally.unproved:5} unproved"
    other = f"{tally.harmless:6} not seen to fail: {tally.proved:6} proved"
    sys.stdout.write(f"{kind:32} {wrong} {len(tally.accepted):4} verified; {other}\n")
    sys.stdout.writelines(f"    {text}\n" for text in tally.accepted)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
