"""Choose the nodes that run in low precision: the least predicted time within an error budget."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from superopt.ir.graph import Graph, NodeId
from superopt.optimizer.training.precision.casts import Edge, Rounding
from superopt.optimizer.training.precision.errors import PointError, PredictedErrors
from superopt.optimizer.training.precision.formats import NumberFormat
from superopt.optimizer.training.precision.prices import Prices

_HEADROOM = 4.0
"""Numbers in low precision stay below the largest one by this factor, since they change in training."""

_NEVER_FREE, _LEAST_ERROR = 1e-9, 1e-30
"""Microseconds and squared error that any change of precision counts at least."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted errors: of the loss and of the gradients, as expected shares of the loss and of their norm,
    and the largest possible share of the loss to first order."""

    loss: float
    gradients: float
    bound: float

    @property
    def largest(self) -> float:
        """What an error budget limits."""
        return max(self.loss, self.gradients)


class ErrorSum:
    """Squared errors of sets of nodes in low precision."""

    def __init__(self, graph: Graph, errors: PredictedErrors) -> None:
        self._graph = graph
        self._errors = errors
        rounding = Rounding(graph)
        nodes = {value.node for value in errors.results} | {node for node, _ in errors.operands}
        self._results: dict[NodeId, PointError] = {
            node: _added(errors.results[value] for value in graph[node].values if value in errors.results)
            for node in nodes
        }
        self._read: Mapping[NodeId, tuple[Edge, ...]] = {
            node: tuple((node, value) for value in rounding.operands(graph[node])) for node in nodes
        }

    def of_node(self, node: NodeId, low: set[NodeId]) -> PointError:
        """The error of one node in low precision: of its results and of operands that are in float32."""
        edges = (self._errors.operands[edge] for edge in self._read[node] if edge[1].node not in low)
        return _added((self._results[node], *edges))

    def change(self, node: NodeId, low: set[NodeId]) -> PointError:
        """What the squares lose by a node's return to float32: readers then round what they read."""
        before = self.of_node(node, low)
        gained = _added(
            self._errors.operands[edge]
            for user in self._graph.users(node)
            if user in low and user != node
            for edge in self._read[user]
            if edge[1].node == node
        )
        return PointError(before.loss - gained.loss, before.gradients - gained.gradients)

    def total(self, low: set[NodeId]) -> Prediction:
        """The prediction for a set of nodes."""
        total = _added(self.of_node(node, low) for node in sorted(low))
        return Prediction(math.sqrt(total.loss), math.sqrt(total.gradients), total.bound)


def choose(
    candidates: Iterable[NodeId], errors: ErrorSum, prices: Prices, budget: float
) -> frozenset[NodeId]:
    """The candidates that run in low precision within the budget. All do at first; those whose return to
    float32 removes most error per time return one by one, then those that are no faster in low precision, and
    at last nodes come back for the most time per error as long as the budget holds."""
    search = _Search(frozenset(candidates), errors, prices, budget)
    search.promote_for_error()
    search.promote_for_time()
    search.demote()
    search.promote_for_time()
    return search.best()


def fitting(
    candidates: Iterable[NodeId],
    errors: PredictedErrors,
    number_format: NumberFormat,
    loss_scale: float,
) -> frozenset[NodeId]:
    """The candidates whose numbers are within the range of the format, with room to grow."""
    limit = number_format.largest / _HEADROOM

    def fits(point: PointError) -> bool:
        return point.largest * (loss_scale if point.is_scaled else 1.0) < limit

    wide = {value.node for value, point in errors.results.items() if not fits(point)}
    wide |= {edge[0] for edge, point in errors.operands.items() if not fits(point)}
    return frozenset(node for node in candidates if node not in wide)


class _Search:
    def __init__(
        self, candidates: frozenset[NodeId], errors: ErrorSum, prices: Prices, budget: float
    ) -> None:
        self._candidates = candidates
        self._errors = errors
        self._prices = prices
        self._budget = budget
        self._low = set(candidates)
        total = errors.total(self._low)
        self._loss, self._gradients = total.loss**2, total.gradients**2

    def best(self) -> frozenset[NodeId]:
        """The present set, or none where that is no faster than float32."""
        low = frozenset(self._low)
        return low if self._prices.total(low) < self._prices.total(frozenset[NodeId]()) else frozenset()

    def promote_for_error(self) -> None:
        """Nodes return to float32 until the budget holds."""
        heap = [(self._error_key(node), node) for node in sorted(self._low)]
        heapq.heapify(heap)
        while heap and not self._holds(PointError()):
            key, node = heapq.heappop(heap)
            if node not in self._low:
                continue
            present = self._error_key(node)
            if heap and present > max(key, heap[0][0]):
                heapq.heappush(heap, (present, node))
                continue
            self._promote(node)
            for other in sorted(self._prices.around(node) & self._low):
                heapq.heappush(heap, (self._error_key(other), other))

    def promote_for_time(self) -> None:
        """Nodes return to float32 where that is faster, until none is."""
        waiting = sorted(self._low, reverse=True)
        while waiting:
            node = waiting.pop()
            if node not in self._low or self._time_lost(node) >= 0:
                continue
            if self._holds(self._errors.change(node, self._low)):
                self._promote(node)
                waiting.extend(sorted(self._prices.around(node) & self._low))

    def demote(self) -> None:
        """Nodes run in low precision again, those first that save most time per error."""
        ranked = sorted((self._demotion_key(node), node) for node in self._candidates - self._low)
        for key, node in ranked:
            if key >= 0:
                return
            self._low.add(node)
            change = self._errors.change(node, self._low)
            added = PointError(-change.loss, -change.gradients)
            if self._time_lost(node) > 0 and self._holds(added):
                self._loss += change.loss
                self._gradients += change.gradients
            else:
                self._low.discard(node)

    def _promote(self, node: NodeId) -> None:
        change = self._errors.change(node, self._low)
        self._loss -= change.loss
        self._gradients -= change.gradients
        self._low.discard(node)

    def _holds(self, removed: PointError) -> bool:
        """Whether the errors less these are within the budget."""
        largest = max(self._loss - removed.loss, self._gradients - removed.gradients)
        return math.sqrt(max(largest, 0.0)) <= self._budget

    def _error_key(self, node: NodeId) -> float:
        """The smaller, the sooner a node returns to float32."""
        change = self._errors.change(node, self._low)
        return -(change.loss + change.gradients) / max(self._time_lost(node), _NEVER_FREE)

    def _demotion_key(self, node: NodeId) -> float:
        self._low.add(node)
        saved, change = self._time_lost(node), self._errors.change(node, self._low)
        self._low.discard(node)
        return -saved / max(change.loss + change.gradients, _LEAST_ERROR)

    def _time_lost(self, node: NodeId) -> float:
        """Microseconds that a node's return to float32 costs."""
        around = sorted(self._prices.around(node))
        low = self._prices.of(around, self._low)
        self._low.discard(node)
        high = self._prices.of(around, self._low)
        self._low.add(node)
        return high - low


def _added(points: Iterable[PointError]) -> PointError:
    loss = gradients = bound = 0.0
    for point in points:
        loss += point.loss
        gradients += point.gradients
        bound += point.bound
    return PointError(loss, gradients, bound)


__all__ = ["ErrorSum", "Prediction", "choose", "fitting"]
