"""Gradients of many random models by training steps, against differences of an evaluation in float64.

``python -m tests.optimizer.training.random_graphs --count 10000`` prints what is wrong, and how often which
operator was refused. A seed makes one model, so ``--count 1 --seed N`` repeats one.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

from tests.optimizer.training.gradient_check import checked, grown
from tests.optimizer.training.graph_growth import UnfitError


def main() -> int:
    """Runs the command; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Check gradients of random models.")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="an existing directory for models that are wrong")
    given = parser.parse_args()
    start, gradients, unfit, wrong = time.monotonic(), 0, 0, 0
    refused = Counter[str]()
    for seed in range(given.seed, given.seed + given.count):
        try:
            outcome = checked(seed)
        except UnfitError:
            unfit += 1
            continue
        gradients += outcome.gradients
        if outcome.refused:
            refused[_kind(outcome.refused)] += 1
        if outcome.wrong:
            wrong += 1
            sys.stdout.write(f"seed {seed}, operator set {outcome.opset}: {outcome.wrong}\n")
            if given.save:
                (given.save / f"{seed}.onnx").write_bytes(grown(seed).model.SerializeToString())
    sys.stdout.writelines(f"{count:6} refused: {kind}\n" for kind, count in refused.most_common())
    seconds = time.monotonic() - start
    sys.stdout.write(
        f"{given.count - unfit} models, {gradients} gradients, {wrong} wrong, {refused.total()} refused, "
        f"{seconds:.0f} s\n"
    )
    return 1 if wrong else 0


def _kind(sentence: str) -> str:
    """The reason for a refusal, without names and numbers of the model."""
    reason = re.sub(r" has no gradient: it lies .* stays as it is|; freeze the parameters.*", "", sentence)
    return re.sub(r"node '.*?' |\[[^]]*\]|\b[wc]?\d+\b,? ?", "", reason)


if __name__ == "__main__":
    sys.exit(main())
