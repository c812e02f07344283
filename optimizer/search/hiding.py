"""Rewrites that hide a product: another operator takes its place, about which there are few rules.

Such a step is taken only if it gains a substantial share of the product's price. Taken for less, it would be
in the way of what else the product could become, and every search that goes on from it would have to undo it.
"""

from __future__ import annotations

from functools import lru_cache

from superopt.ir.terms import Application, applications
from superopt.ops.traits import traits
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.rewriting import Match, Substitution

_SUBSTANTIAL = 0.2
"""Share of the price of a product that another operator in its place must gain."""


def least_gain(cost: GraphCost, match: Match) -> float:
    """What a rewrite must gain: nothing, but for one that hides a product."""
    if not _hides_product(match.substitution):
        return 0.0
    return _SUBSTANTIAL * cost.price_of(match.sites)


def is_worth_it(cost: GraphCost, match: Match, after: float) -> bool:
    """Whether a rewrite that leads to that cost gains enough for what it hides; all do that hide nothing."""
    least = least_gain(cost, match)
    return not least or cost.total - after > least


@lru_cache(maxsize=4096)
def _hides_product(substitution: Substitution) -> bool:
    """Whether a rule replaces a single product by operators of which none is one."""
    match substitution.source, substitution.target:
        case (Application() as source,), (Application() as target,):
            is_product = len(substitution.source_applications) == 1 and traits(source.operator).product
            return bool(is_product) and not any(traits(t.operator).product for t in applications(target))
        case _:
            return False


__all__ = ["is_worth_it", "least_gain"]
