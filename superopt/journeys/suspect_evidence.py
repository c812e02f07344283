"""Reports of rules that changed a model's outputs, as JSON values between processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from superopt.optimizer.pipeline.bisection import Suspect


def suspect_evidence(
    suspect: Suspect,
    *,
    dims: Mapping[str, int],
    keep: Sequence[str],
    apart: Collection[str],
    frozen: Mapping[str, int],
    bodies: Sequence[Mapping[str, object]] = (),
    body: str | None = None,
) -> dict[str, object]:
    """The rule, the difference, and the parts of a report needed to replay the steps. ``bodies`` is what was
    done to bodies by then, and ``body`` the path of the body whose outputs changed, None for the model."""
    report: dict[str, object] = {
        "schema": 1,
        "model": {"frozen": dict(frozen)},
        "options": {"dims": dict(dims), "keep": list(keep)},
        "sizes": {"apart": sorted(apart)},
        "trace": [step.to_json() for step in suspect.steps],
        "returned": "optimized",
        "bodies": list(bodies),
    }
    if body is not None:
        report["body"] = body
    return {**suspect.summary(), "report": report}
