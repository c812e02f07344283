"""Searching for a cheaper equal graph, and replaying what was found."""

from optimizer.search.backtracking import Backtracking
from optimizer.search.protocol import (
    CancelToken,
    Limits,
    Progress,
    ProgressCallback,
    Search,
    SearchResult,
    StoppedBy,
    Watch,
)
from optimizer.search.rules import RuleSet
from optimizer.search.trace import ReplayStep, TraceStep, apply_step, replay, written

__all__ = [
    "Backtracking",
    "CancelToken",
    "Limits",
    "Progress",
    "ProgressCallback",
    "ReplayStep",
    "RuleSet",
    "Search",
    "SearchResult",
    "StoppedBy",
    "TraceStep",
    "Watch",
    "apply_step",
    "replay",
    "written",
]
