"""Random valid models through the optimizer, by the thousand.

    python -m tests.fuzz [--count 2000] [--seed 0] [--jobs 2] [--whole] [--budget 4] [--database URL]

Each seed is one model. By default the search runs under random prices, so that many rules are applied, and
the outcome is checked and run beside the original; ``--whole`` runs the main job instead, measuring and
timing included. Prints every seed with something wrong, and a summary; a nightly run is ``--count 20000``,
once with ``--whole``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.fuzz.journey import tried


def main() -> int:
    """Prints what is wrong; 1 where something is."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--whole", action="store_true", help="the main job, with costs of this machine")
    parser.add_argument("--budget", type=float, default=4.0, help="seconds for each, with --whole")
    parser.add_argument("--database")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    task = partial(tried, budget=arguments.budget if arguments.whole else None, database=arguments.database)
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as workers:
        for seed, finding in zip(seeds, workers.map(task, seeds, chunksize=8), strict=True):
            counts["models"] += finding is not None
            if finding is not None:
                counts["rewritten"] += finding.steps > 0
                counts["steps"] += finding.steps
                counts["wrong"] += bool(finding.wrong)
                if finding.wrong:
                    sys.stdout.write(f"seed {seed}: {finding.wrong}\n")
                    sys.stdout.flush()
    sys.stdout.write(
        ", ".join(f"{counts[kind]} {kind}" for kind in ("models", "rewritten", "steps", "wrong")) + "\n"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
