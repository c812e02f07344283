"""Measure again what decided a search so far: its graphs were priced at different times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.objective import Confirming


def confirmed(
    start: GraphCost, best: GraphCost, may_go_on: Callable[[], bool] = lambda: True
) -> tuple[GraphCost, GraphCost]:
    """Two graphs at their present prices, after the kernels in which they differ were measured again; the
    same ones where that changed no price."""
    objective = start.objective
    if not isinstance(objective, Confirming):
        return start, best
    if not objective.confirm(differing(start, best), may_go_on):
        return start, best
    return start.refreshed(), best.refreshed()


def differing(first: GraphCost, second: GraphCost) -> set[Kernel]:
    """The kernels of which one graph has more than the other."""
    return {*surplus(first, second), *surplus(second, first)}


def surplus(first: GraphCost, second: GraphCost) -> Counter[Kernel]:
    """The kernels of which the first graph has more than the second, and how many more."""
    ours, theirs = (Counter(group.kernel for group in cost.groups) for cost in (first, second))
    return ours - theirs
