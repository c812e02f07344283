"""Dynamic programming over a graph: minimises the sum of costs of nodes and of edges between them.

Sequence and parallel splits (Unity, section 5.2) in the form of node and edge elimination (OptCNN): a node
between two others becomes a cost table between these; tables between the same nodes are added. A block
between two cuts (nodes on every path) is solved once for all placements at both cuts; blocks with equal
tables are solved once. In a block that is not series-parallel, a node with many neighbours is fixed and
revisited afterwards.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from superopt.optimizer.parallel.search.tables import Choices, Table, Tables

_HUB = 12
"""Number of neighbours above which a node is fixed, because it connects all blocks."""

_SWEEPS = 3
"""Number of times that fixed nodes are chosen again."""


@dataclass
class Problem:
    """Nodes 0, 1, ... in topological order; ``own`` holds the cost of each node's choices, ``between`` those
    of pairs (earlier, later) as [choice of the earlier, choice of the later]."""

    own: list[Table]
    between: dict[tuple[int, int], Table]

    def total(self, chosen: Sequence[int]) -> float:
        """The total cost of an assignment."""
        nodes = sum(float(table.costs[chosen[node]]) for node, table in enumerate(self.own))
        return nodes + sum(float(t.costs[chosen[a], chosen[b]]) for (a, b), t in self.between.items())


@dataclass(frozen=True, slots=True)
class _Leaf:
    node: int
    neighbour: int
    best: Choices


@dataclass(frozen=True, slots=True)
class _Inner:
    node: int
    left: int
    right: int
    best: Choices


@dataclass(frozen=True, slots=True)
class _Fixed:
    node: int
    choice: int


def solve(problem: Problem, tables: Tables) -> list[int]:
    """The best choice for every node; exact if no node had to be fixed."""
    hubs = _hubs(problem)
    fixed = {hub: _guess(problem, hub) for hub in hubs}
    chosen = _solve_fixed(problem, tables, fixed)
    for _ in range(_SWEEPS):
        if not fixed:
            break
        anew = {node: _best_between(problem, node, chosen) for node in fixed}
        if anew == fixed:
            break
        changed = _solve_fixed(problem, tables, anew)
        if problem.total(changed) >= problem.total(chosen):
            break
        fixed, chosen = anew, changed
    return chosen


def cuts(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """The nodes (in topological order) on every path from the first node to the last."""
    reach = np.zeros(count + 1, np.int64)
    for first, last in edges:
        if last - first > 1:
            reach[first + 1] += 1
            reach[last] -= 1
    return [node for node, over in enumerate(np.cumsum(reach)[:count]) if not over]


@dataclass
class _Work:
    """State of an elimination: the remaining problem, and how to recover eliminated nodes' choices."""

    tables: Tables
    own: list[Table]
    near: list[dict[int, Table]]
    trace: list[_Leaf | _Inner | _Fixed] = field(default_factory=list["_Leaf | _Inner | _Fixed"])

    def leaf(self, node: int) -> None:
        """Eliminates a node with at most one neighbour."""
        if not self.near[node]:
            self.trace.append(_Fixed(node, int(self.own[node].costs.argmin())))
            return
        ((other, table),) = self.near[node].items()
        total = self.tables.turned(table).costs + self.own[node].costs
        best = total.argmin(axis=1).astype(np.int32)
        self.trace.append(_Leaf(node, other, best))
        self._add_own(other, total.min(axis=1))
        self._forget(node)

    def inner(self, node: int) -> None:
        """Eliminates a node between two others."""
        (left, before), (right, after) = sorted(self.near[node].items())
        product = self.tables.product(self.tables.turned(before), self.own[node], after)
        self.trace.append(_Inner(node, left, right, product.best))
        self._forget(node)
        self._join(left, right, product.table)

    def fix(self, node: int, choice: int) -> None:
        """Fixes the choice of a node."""
        for other, table in self.near[node].items():
            self._add_own(other, table.costs[choice])
        self.trace.append(_Fixed(node, choice))
        self._forget(node)

    def chosen(self, count: int) -> list[int]:
        """The choices, in reverse order of elimination."""
        found = [0] * count
        for step in reversed(self.trace):
            match step:
                case _Fixed(node, choice):
                    found[node] = choice
                case _Leaf(node, neighbour, best):
                    found[node] = int(best[found[neighbour]])
                case _Inner(node, left, right, best):
                    found[node] = int(best[found[left], found[right]])
        return found

    def _add_own(self, node: int, costs: np.typing.NDArray[np.float64]) -> None:
        self.own[node] = self.tables.added(self.own[node], self.tables.table(costs))

    def _join(self, left: int, right: int, table: Table) -> None:
        there = self.near[left].get(right)
        joined = table if there is None else self.tables.added(there, table)
        self.near[left][right] = joined
        self.near[right][left] = self.tables.turned(joined)

    def _forget(self, node: int) -> None:
        for other in self.near[node]:
            del self.near[other][node]
        self.near[node] = {}


def _solve_fixed(problem: Problem, tables: Tables, fixed: Mapping[int, int]) -> list[int]:
    count = len(problem.own)
    work = _Work(tables, list(problem.own), [{} for _ in range(count)])
    for (first, last), table in problem.between.items():
        work.near[first][last] = table
        work.near[last][first] = tables.turned(table)
    for node, choice in fixed.items():
        work.fix(node, choice)
    left = [edge for edge in problem.between if edge[0] not in fixed and edge[1] not in fixed]
    anchors = {node for node in cuts(count, left) if node not in fixed}
    _eliminate(work, [node for node in range(count) if node not in anchors and node not in fixed], anchors)
    for node in sorted(anchors):
        work.leaf(node)
    return work.chosen(count)


def _eliminate(work: _Work, nodes: Collection[int], anchors: Collection[int]) -> None:
    """Eliminates all nodes, those with fewest neighbours first; ties in order."""
    waiting = set(nodes)
    queue = [(len(work.near[node]), node) for node in waiting]
    heapq.heapify(queue)
    while waiting:
        degree, node = heapq.heappop(queue)
        if node not in waiting:
            continue
        now = len(work.near[node])
        if now != degree:
            heapq.heappush(queue, (now, node))
            continue
        if now > 2:
            heapq.heappush(queue, (now, node))
            node = max(waiting, key=lambda other: (len(work.near[other]), -other))
        touched = [other for other in work.near[node] if other not in anchors]
        if now <= 1:
            work.leaf(node)
        elif now == 2:
            work.inner(node)
        else:
            work.fix(node, _guess_left(work, node))
        waiting.discard(node)
        for other in touched:
            heapq.heappush(queue, (len(work.near[other]), other))


def _hubs(problem: Problem) -> list[int]:
    degrees = np.zeros(len(problem.own), np.int64)
    for first, last in problem.between:
        degrees[first] += 1
        degrees[last] += 1
    return [int(node) for node in np.flatnonzero(degrees > _HUB)]


def _guess(problem: Problem, node: int) -> int:
    total = problem.own[node].costs.copy()
    for (first, last), table in problem.between.items():
        if node == first:
            total += (table.costs + problem.own[last].costs).min(axis=1)
        elif node == last:
            total += (table.costs + problem.own[first].costs[:, None]).min(axis=0)
    return int(total.argmin())


def _guess_left(work: _Work, node: int) -> int:
    total = work.own[node].costs.copy()
    for other, table in work.near[node].items():
        total += (table.costs + work.own[other].costs).min(axis=1)
    return int(total.argmin())


def _best_between(problem: Problem, node: int, chosen: Sequence[int]) -> int:
    total = problem.own[node].costs.copy()
    for (first, last), table in problem.between.items():
        if node == first:
            total += table.costs[:, chosen[last]]
        elif node == last:
            total += table.costs[chosen[first]]
    return int(total.argmin())
