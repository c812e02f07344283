"""Searching for a cheaper equal graph, and replaying what was found."""

from optimizer.search.backtracking import Backtracking
from optimizer.search.minimise import Shortened, minimised
from optimizer.search.protocol import (
    CancelToken,
    Limits,
    Phase,
    Progress,
    ProgressCallback,
    Search,
    SearchResult,
    StoppedBy,
    Watch,
)
from optimizer.search.rules import RuleSet
from optimizer.search.strategies import search_named, searches
from optimizer.search.trace import ReplayStep, TraceStep, replay, retraced, without_rules, written

__all__ = [
    "Backtracking",
    "CancelToken",
    "Limits",
    "Phase",
    "Progress",
    "ProgressCallback",
    "ReplayStep",
    "RuleSet",
    "Search",
    "SearchResult",
    "Shortened",
    "StoppedBy",
    "TraceStep",
    "Watch",
    "minimised",
    "replay",
    "retraced",
    "search_named",
    "searches",
    "without_rules",
    "written",
]
