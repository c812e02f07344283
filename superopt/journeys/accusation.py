"""What is said of a rule that changed the outputs of a model, by the process that found it: JSON values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from superopt.optimizer.pipeline.blame import Suspect


def accusation(
    suspect: Suspect, *, dims: Mapping[str, int], keep: Sequence[str], apart: Collection[str]
) -> dict[str, object]:
    """The rule, the difference, and as much of a report as doing the steps again takes."""
    report: dict[str, object] = {
        "schema": 1,
        "options": {"dims": dict(dims), "keep": list(keep)},
        "sizes": {"apart": sorted(apart)},
        "trace": [step.to_json() for step in suspect.steps],
        "returned": "optimized",
    }
    return {**suspect.summary(), "report": report}
