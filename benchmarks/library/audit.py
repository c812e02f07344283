"""Audits pruning: a seeded sample of what discovery dropped is derived again, in another way.

    python -m benchmarks audit PRESET [--max-ops N] [--sample 200] [--seed 0]

Every dropped equation, but for those that are false or have no type in general, has to follow from what was
kept by typed rewriting of graphs. Prints counts by reason, and the equations that do not follow.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import replace

from superopt.equations import format_equation
from superopt.errors import InvalidOptionError
from superopt.generator import load_preset
from superopt.generator.prune.audit import Audit, Dropped
from superopt.generator.prune.pruning import Selection
from superopt.generator.run.stages import Found, stage_tasks, surveyed
from superopt.ir.terms import Direction
from superopt.journeys.library.peers.derivation import questions
from superopt.rewriting.derivability import Bounds, Theory

UNFOUNDED = (
    "false in general",
    "found before",
    "ill-typed in general",
    "only at equal sizes",
    "unusable",
)
"""Reasons to drop what need not follow: it is not true, or another spelling of it is counted elsewhere."""

BOUNDS = Bounds(steps=4, graphs=200)
TYPINGS = 2


def dropped(preset: str, max_ops: int, sample: int, seed: int) -> tuple[Selection, tuple[Dropped, ...]]:
    """What was kept, and a sample of what was not; raises InvalidOptionError where a stage has many parts."""
    chosen = load_preset(preset)
    found: list[Found] = []
    for task in stage_tasks(chosen, max_ops):
        stage = surveyed(task)
        if not isinstance(stage, Found):
            raise InvalidOptionError(f"{preset} at {max_ops} operators is too large to be audited")
        found.append(stage)
    audit = Audit(sample, seed)
    selection = Selection(preset, audit)
    selection.take([stage.single for stage in found])
    selection.take([stage.merges for stage in found if stage.merges is not None])
    return selection, audit.sample


def underivable(
    selection: Selection, sample: tuple[Dropped, ...], bounds: Bounds = BOUNDS
) -> tuple[Dropped, ...]:
    """Those of the sample that do not follow from what was kept, though they ought to."""
    kept = Theory(
        replace(candidate.generalizations[0], direction=Direction.BOTH) for candidate in selection.candidates
    )
    return tuple(
        one
        for one in sample
        if one.reason not in UNFOUNDED
        and kept.derive(questions(replace(one.equation, direction=Direction.BOTH), TYPINGS), bounds) is None
    )


def main() -> None:
    """Prints the counts."""
    parser = argparse.ArgumentParser(prog="benchmarks audit", description=__doc__)
    parser.add_argument("preset")
    parser.add_argument("--max-ops", type=int, default=2)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    selection, sample = dropped(arguments.preset, arguments.max_ops, arguments.sample, arguments.seed)
    lost = underivable(selection, sample)
    looked_at, missing = Counter(one.reason for one in sample), Counter(one.reason for one in lost)
    sys.stdout.write(f"{len(selection.candidates)} kept, {sum(selection.dropped.values())} dropped\n")
    for reason, count in sorted(looked_at.items()):
        checked = "not to be derived" if reason in UNFOUNDED else f"{missing[reason]} not derived"
        sys.stdout.write(f"{reason}: {count} of {selection.dropped[reason]} looked at, {checked}\n")
    for one in lost:
        sys.stdout.write(f"  {one.reason}: {format_equation(one.equation)}\n")


if __name__ == "__main__":
    main()
