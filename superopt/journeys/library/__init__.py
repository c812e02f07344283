"""Library journeys: discovery, verification, selection, comparison, coverage, gallery."""

from superopt.journeys.library.comparison import Changed, Comparison, compare
from superopt.journeys.library.selection import Selected, select

__all__ = ["Changed", "Comparison", "Selected", "compare", "select"]
