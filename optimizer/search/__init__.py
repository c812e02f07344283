"""Search for cheaper equivalent graphs, and replay of recorded traces."""

from superopt.optimizer.search.accuracy import error_of, more_accurate, with_smaller_errors
from superopt.optimizer.search.confirmation import differing
from superopt.optimizer.search.families import Families, Family
from superopt.optimizer.search.minimise import MAX_STEPS, Shortened, minimised
from superopt.optimizer.search.protocol import (
    CancelToken,
    Phase,
    Progress,
    ProgressCallback,
    Search,
    SearchLimits,
    SearchResult,
    StoppedBy,
    Watch,
)
from superopt.optimizer.search.rules import RuleSet
from superopt.optimizer.search.strategies import search_named, searches
from superopt.optimizer.search.strategies.backtracking import Backtracking
from superopt.optimizer.search.trace import (
    ReplayStep,
    TraceStep,
    recorded,
    replay,
    retraced,
    with_steps,
    without_rules,
    written,
)

__all__ = [
    "MAX_STEPS",
    "Backtracking",
    "CancelToken",
    "Families",
    "Family",
    "Phase",
    "Progress",
    "ProgressCallback",
    "ReplayStep",
    "RuleSet",
    "Search",
    "SearchLimits",
    "SearchResult",
    "Shortened",
    "StoppedBy",
    "TraceStep",
    "Watch",
    "differing",
    "error_of",
    "minimised",
    "more_accurate",
    "recorded",
    "replay",
    "retraced",
    "search_named",
    "searches",
    "with_smaller_errors",
    "with_steps",
    "without_rules",
    "written",
]
