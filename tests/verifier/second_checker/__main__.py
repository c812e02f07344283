"""``python -m tests.verifier.second_checker``: both checkers on stored and altered certificates."""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from superopt.axioms import load_axioms
from tests.verifier.second_checker.alterations import Proof, altered
from tests.verifier.second_checker.comparison import compared, shipped_proofs

EVERY = 20
SOME, MANY = 300, 5000


def main(arguments: Sequence[str]) -> int:
    """Prints disagreements and what the second checker does not know; 1 where the checkers disagree."""
    parser = argparse.ArgumentParser(prog="python -m tests.verifier.second_checker", description=__doc__)
    parser.add_argument("--all", action="store_true", help=f"every certificate and {MANY} altered ones")
    parser.add_argument("--altered", type=int, metavar="N", help="so many altered certificates")
    parser.add_argument("--seed", type=int, default=0, help="of the alterations")
    parser.add_argument("--slow", type=float, default=60, metavar="SECONDS", help="name what takes longer")
    options = parser.parse_args(arguments)
    proofs = tuple(shipped_proofs())
    number = options.altered if options.altered is not None else MANY if options.all else SOME
    axioms = load_axioms().by_name
    counts: Counter[str] = Counter()
    for change, proof in _work(proofs, number, options.seed, every=1 if options.all else EVERY):
        start = time.process_time()
        result = compared(change, proof, axioms)
        seconds = time.process_time() - start
        counts[f"{'agree' if result.agree else 'DISAGREE'}: {result.ours.answer}"] += 1
        if not result.agree or (result.ours.answer == "accepted") == bool(result.theirs):
            print(f"{'' if result.agree else 'DISAGREE '}{result}\n", flush=True)
        if seconds > options.slow:
            print(f"{seconds:.0f} s: {result}\n", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return int(any(what.startswith("DISAGREE") for what in counts))


def _work(proofs: Sequence[Proof], number: int, seed: int, every: int) -> Iterator[tuple[str, Proof]]:
    yield from (("stored", proof) for proof in proofs[::every])
    yield from altered(proofs, load_axioms().by_name, number, seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
