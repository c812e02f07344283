"""Every model of ONNX's backend suite through the main job.

    python -m tests.conformance [--budget 5] [--every 1] [--first 0]

Prints each case that ONNX Runtime passes by itself and that fails with what the optimizer returns, and every
internal error, also on models that the runtime does not load; exit code 1 if there is any.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from itertools import islice

from superopt.journeys.in_process import verified_substitutions
from superopt.optimizer.cost import MemoryCostStore
from superopt.substitution_db import open_database
from tests.conformance.backend import Suite
from tests.conformance.whole import Whole


def main() -> int:
    """Prints what is wrong; 1 where something is."""
    parser = argparse.ArgumentParser(prog="tests.conformance", description=__doc__)
    parser.add_argument("--budget", type=float, default=5.0, help="seconds for each model")
    parser.add_argument("--every", type=int, default=1, help="one case in so many")
    parser.add_argument("--first", type=int, default=0, help="skip so many cases")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["ONNX_MODELS"] = directory
        suite = Suite()
        names = tuple(islice(suite.names, arguments.first, None, arguments.every))
        passed = {outcome.case for outcome in suite.run(names, bytes) if outcome.passed}
        with open_database(f"sqlite:///{directory}/rules.db") as database:
            whole = Whole(verified_substitutions(database), MemoryCostStore(), arguments.budget)
            wrong = 0
            for outcome in suite.run(names, whole):
                if outcome.case in passed and not outcome.passed:
                    wrong += 1
                    _print(f"{outcome.case}: {outcome.message.strip().splitlines()[-1]}")
                while whole.failures:
                    wrong += 1
                    _print(f"{outcome.case}: {whole.failures.pop()}")
    _print(f"{len(names)} models, {len(passed)} pass by themselves, {whole.refused} refused, "
           f"{whole.optimised} optimised, {wrong} wrong")  # fmt: skip
    return 1 if wrong else 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
