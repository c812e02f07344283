"""Text output of equivalence checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from superopt.optimizer.pipeline.reporting.report import EquivalenceSummary


_MOST_BRANCHES = 3


def branches_missed(equivalence: EquivalenceSummary) -> str:
    """The branches that ran on none of the samples, as an enumeration; empty if there are none."""
    missed = list(equivalence.branches_missed)
    if len(missed) > _MOST_BRANCHES:
        missed[_MOST_BRANCHES:] = [f"{len(missed) - _MOST_BRANCHES} more (all with --json)"]
    return " and ".join(part for part in (", ".join(missed[:-1]), *missed[-1:]) if part)


def errors_against(equivalence: EquivalenceSummary) -> str:
    """The errors of both models against the reference, as part of a sentence; empty if unknown."""
    error, own, reference = equivalence.error, equivalence.own_error, equivalence.reference
    if error is None or own is None or reference is None or error.rms is None or own.rms is None:
        return ""
    if reference.kind == "double precision":
        what = f"error {error.rms:.1e} (rms) against {reference.kind}, the original's {own.rms:.1e}"
    else:
        what = f"{error.rms:.1e} (rms) off the original, which rounding moves by {own.rms:.1e}"
    return f"; {reference.output}: {what}"
