"""From verified rules to those that ship: what a search gains with them, what derives them, what changed."""

from superopt.journeys.library.comparison import Changed, Comparison, compare
from superopt.journeys.library.selection import Selected, select

__all__ = ["Changed", "Comparison", "Selected", "compare", "select"]
