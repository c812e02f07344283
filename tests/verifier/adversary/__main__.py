"""Draws equations, asks the oracle and the verifier, and prints holes and a table of the families.

    python -m tests.verifier.adversary --minutes 10 [--seed S] [--count N] [--family F] [--share N]
                                       [--state FILE]

Of equations that the oracle does not see to be false, which take most of the time, the verifier judges one
of ``--share``. With ``--state`` an interrupted run goes on where it was. Exit code 1 if a false equation was
verified.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.verifier.adversary.judging import FAMILIES, SHARE, Judged, Outcome, all_judged

SHOWN = (Outcome.HOLE, Outcome.WRONG_REFUTATION, Outcome.UNSEEN, Outcome.TOO_LONG)
LISTED = 12
"""How many true equations that were not proved are listed for each family."""


def main() -> int:
    """Runs for the time or the number asked for."""
    parser = argparse.ArgumentParser(prog="tests.verifier.adversary", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--share", type=int, default=SHARE, metavar="N")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.minutes * 60
    every: list[Judged] = []
    chosen = arguments.family or list(FAMILIES)
    for each in all_judged(arguments.count, arguments.seed, until, chosen, arguments.state, arguments.share):
        every.append(each)
        if each.outcome in SHOWN and not arguments.json:
            _write(described(each))
    if arguments.json:
        _write(json.dumps(_summary(every), ensure_ascii=False, indent=1))
    else:
        _write("\n".join([*_unproved(every), "", *table(every)]))
    return 1 if any(each.outcome is Outcome.HOLE for each in every) else 0


def described(each: Judged) -> str:
    """An equation with its instance and its chain."""
    lines = [f"{each.outcome.upper()} ({each.family} {each.number}): {each.equation}"]
    if each.false:
        lines.append(f"  fails at {each.false}")
    if each.said:
        lines.append(f"  the verifier says: {each.said}")
    return "\n".join([*lines, *(f"  {line}" for line in each.chain.splitlines())])


def table(every: Sequence[Judged]) -> list[str]:
    """A line for each family."""
    counts = {family: Counter(each.outcome for each in every if each.family == family) for family in FAMILIES}
    counts["all"] = Counter(each.outcome for each in every)
    heads = (
        "tried",
        "false",
        "refuted",
        "verified",
        "holes",
        "unseen",
        "wrong ref.",
        "no answer",
        "true unproved",
    )
    lines = [f"{'family':20}" + "".join(f"{head:>14}" for head in heads)]
    for family, own in counts.items():
        if not own.total():
            continue
        false = own[Outcome.CAUGHT] + own[Outcome.UNPROVED_FALSE] + own[Outcome.HOLE]
        verified = own[Outcome.RIGHT] + own[Outcome.HOLE] + own[Outcome.UNSEEN]
        numbers = (
            own.total(),
            false,
            own[Outcome.CAUGHT],
            verified,
            own[Outcome.HOLE],
            own[Outcome.UNSEEN],
            own[Outcome.WRONG_REFUTATION],
            own[Outcome.TOO_LONG],
            own[Outcome.UNPROVED_TRUE],
        )
        lines.append(f"{family:20}" + "".join(f"{number:>14,}" for number in numbers))
    return lines


def _unproved(every: Sequence[Judged]) -> list[str]:
    lines: list[str] = []
    for family in FAMILIES:
        own = [each for each in every if each.family == family and each.outcome is Outcome.UNPROVED_TRUE]
        if own:
            lines += ["", f"{family}: {len(own)} not seen to fail and not proved"]
            lines += [f"  {each.equation}  # {each.said}" for each in own[:LISTED]]
    return lines


def _summary(every: Sequence[Judged]) -> dict[str, object]:
    return {
        "tried": len(every),
        "outcomes": Counter(each.outcome for each in every),
        "families": {
            family: Counter(each.outcome for each in every if each.family == family) for family in FAMILIES
        },
        "shown": [asdict(each) for each in every if each.outcome in SHOWN],
    }


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
