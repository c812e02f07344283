"""Divide a trace into families of equal rewrites, to find those whose gain is least certain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.search.minimise import Shortened, components
from superopt.optimizer.search.recording import Recorded
from superopt.optimizer.search.trace import TraceStep, recorded, with_steps
from superopt.rewriting import Substitution

_MISPRICED = 0.3
"""Share of the price of kernels by which it may differ from their time within a model: ONNX Runtime also
fuses across kernels, and reorders what is in its blocked layout."""


@dataclass(frozen=True, slots=True)
class Family:
    """Independent parts of a trace with equal rules and gains: the indices of their steps, their predicted
    gain, and the price of the kernels that compute what they made, in the unit of the objective."""

    steps: tuple[int, ...]
    gain: float
    price: float

    @property
    def risk(self) -> float:
        """By how much the model could be slower with these steps than without them."""
        return _MISPRICED * self.price - self.gain


class Families:
    """The families of a trace that leads from ``start`` to the result of a search."""

    def __init__(self, start: GraphCost, found: Shortened, rules: Iterable[Substitution]) -> None:
        self._start = start
        self._found = found
        self._records = recorded(start.graph, found.trace, rules)

    def doubtful(self) -> list[Family]:
        """Those that may be slower than what they replace, the largest risk first; none if all steps are one
        family."""
        families = [self._family(parts) for parts in self._alike()]
        at_risk = [family for family in families if family.risk > 0]
        return sorted(at_risk, key=lambda family: -family.risk) if len(families) > 1 else []

    def without(self, steps: frozenset[int]) -> Shortened:
        """What is left without some steps and those that depend on them."""
        kept = (index for index in range(len(self._records)) if index not in steps)
        return Shortened(*with_steps(self._start, self._records, kept))

    def _alike(self) -> list[list[int]]:
        found: dict[tuple[tuple[str, bool, str], ...], list[int]] = defaultdict(list)
        for component in components(self._records):
            steps = (self._found.trace[index] for index in component)
            likeness = tuple((step.rule, step.backwards, f"{_gain_of(step):.2g}") for step in steps)
            found[likeness].extend(component)
        return list(found.values())

    def _family(self, steps: Sequence[int]) -> Family:
        gain = sum(_gain_of(self._found.trace[index]) for index in steps)
        return Family(tuple(steps), gain, self._price(self._records[index] for index in steps))

    def _price(self, records: Iterable[Recorded]) -> float:
        owner = self._found.cost.owner
        made = (node for record in records for node in record.made)
        groups = {id(owner[node]): owner[node] for node in made if node in owner}
        return sum(group.price.cost for group in groups.values())


def _gain_of(step: TraceStep) -> float:
    return step.cost_before - step.cost_after


__all__ = ["Families", "Family"]
