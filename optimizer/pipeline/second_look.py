"""Measure the prices that decided a search again, and remove steps that gain nothing at the new prices.

A search compares hundreds of kernels, most measured once, and prefers the graph next to one whose measurement
another process disturbed. Only the kernels that the steps of its result removed or made are measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from superopt.optimizer.cost import GraphCost, Kernel, Latency, Price
from superopt.optimizer.search import MAX_STEPS, Shortened, differing, minimised, recorded, with_steps
from superopt.rewriting import Substitution


class _Asked:
    """An objective that remembers which kernels were priced."""

    def __init__(self, objective: Latency) -> None:
        self._objective = objective
        self.unit = objective.unit
        self.source = objective.source
        self.kernels: set[Kernel] = set()

    def known(self, kernel: Kernel) -> Price | None:
        """The price, if available at no cost."""
        return self._objective.known(kernel)

    def bound(self, kernel: Kernel) -> float:
        """Cheap lower bound on the price."""
        return self._objective.bound(kernel)

    def price(self, kernel: Kernel) -> Price:
        """The price, measured if necessary."""
        self.kernels.add(kernel)
        return self._objective.price(kernel)


def at_second_look(
    start: GraphCost,
    found: Shortened,
    rules: Iterable[Substitution],
    may_go_on: Callable[[], bool] = lambda: True,
) -> tuple[GraphCost, Shortened]:
    """The initial graph and the result of a search at present prices, without steps that gain nothing. A
    trace longer than ``MAX_STEPS`` stays as it is. ``may_go_on`` is checked between measurements, and between
    attempts to remove a step."""
    objective = start.objective
    if not isinstance(objective, Latency):
        return start, found
    if not 0 < len(found.trace) <= MAX_STEPS:
        return start.refreshed(), Shortened(found.cost.refreshed(), found.trace)
    known = tuple(rules)
    records = recorded(start.graph, found.trace, known)
    asked = _Asked(objective)
    with_steps(replace(start, objective=asked), records, range(len(records)))
    objective.confirm(asked.kernels | differing(start, found.cost), may_go_on)
    again = start.refreshed()
    repriced = Shortened(*with_steps(again, records, range(len(records))))
    if (again.total, repriced.trace) == (start.total, found.trace):
        return start, found
    return again, minimised(again, repriced, known, may_go_on)
