"""What was done to the bodies of If, Loop and Scan, for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from superopt.optimizer.pipeline.reporting.report import Report

_SECTIONS = ("rules", "cost", "sizes", "measured", "equivalence", "search", "trace", "rejected")
"""Sections that the report of a body has in common with that of a model."""


@dataclass(frozen=True)
class BodySummary:
    """One body: its nodes, without those nested deeper, and the reason for what was returned. ``same_as`` is
    the path of the first of several equal bodies, which alone is optimised. ``report`` is that of the body as
    a model of its own, None if it was not judged. Its costs are those of one run of the body."""

    path: str
    nodes_before: int
    nodes_after: int
    returned: Literal["optimized", "original"]
    why: str
    same_as: str | None = None
    report: Report | None = None

    def to_json(self) -> dict[str, object]:
        """The summary as JSON values."""
        found: dict[str, object] = {
            "path": self.path,
            "nodes_before": self.nodes_before,
            "nodes_after": self.nodes_after,
            "returned": self.returned,
            "why": self.why,
            "same_as": self.same_as,
        }
        values: Mapping[str, object] = {} if self.report is None else self.report.to_json()
        return {**found, **{name: values[name] for name in _SECTIONS if name in values}}
