"""Cut a graph into regions at narrow places; equal regions share one graph.

Units are the groups that are priced together, in depth-first order, so that a branch stays in one piece. A
cut is narrow where few tensors computed before it are read after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.ir.graph import Graph, GraphOperator, Input, Node, NodeId, Value, Weight
from superopt.ops.opaque import Opaque
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.traversal import postorder


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a graph as a separate graph: its operands became inputs, values read outside became outputs.
    ``values`` maps the whole graph's values to the region's, ``blocked`` are inputs in the runtime's layout
    for images, ``protected`` are nodes that must be kept. Regions of equal ``likeness`` are equal up to
    names."""

    graph: Graph
    values: Mapping[Value, Value]
    blocked: frozenset[NodeId]
    protected: frozenset[NodeId]
    likeness: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """The units of a graph in topological order, and the number of live tensors after each."""

    units: tuple[tuple[NodeId, ...], ...]
    live: tuple[int, ...]

    @staticmethod
    def of(cost: GraphCost) -> Row:
        """The units of a priced graph."""
        units = _units(cost)
        place = {node: index for index, unit in enumerate(units) for node in unit}
        change = [0] * (len(units) + 1)
        for index, unit in enumerate(units):
            for node in unit:
                ends = [place[user] for user in cost.graph.users(node) if user in place]
                if ends and max(ends) > index:
                    change[index] += 1
                    change[max(ends)] -= 1
        return Row(tuple(units), tuple(itertools.accumulate(change))[: len(units)])

    def cuts(self, least: int, most: int) -> list[int]:
        """Cut positions such that each region has ``least`` to ``most`` units: at the narrowest place, the
        first of several. Repeated blocks are cut alike."""
        found = [0]
        while len(self.units) - found[-1] > most:
            found.append(self._narrowest(found[-1] + least, found[-1] + most))
        return [*found, len(self.units)]

    def shifted(self, cuts: Sequence[int]) -> list[int]:
        """Alternative cuts, each in the middle half between two."""
        inner: list[int] = []
        for start, stop in itertools.pairwise(cuts):
            quarter = max(1, (stop - start) // 4)
            if stop - start > 2 * quarter:
                inner.append(self._narrowest(start + quarter, stop - quarter))
        return [0, *inner, len(self.units)]

    def regions(self, cuts: Sequence[int]) -> list[tuple[NodeId, ...]]:
        """The nodes between consecutive cuts."""
        return [
            tuple(itertools.chain(*self.units[start:stop]))
            for start, stop in itertools.pairwise(cuts)
            if stop > start
        ]

    def _narrowest(self, first: int, last: int) -> int:
        return min(range(first, last + 1), key=lambda cut: (self.live[cut - 1], cut))


def _units(cost: GraphCost) -> list[tuple[NodeId, ...]]:
    """Groups, and ungrouped nodes, in depth-first topological order."""
    graph, free = cost.graph, cost.free
    unit_of: dict[NodeId, tuple[NodeId, ...]] = {}

    def unit(node: NodeId) -> tuple[NodeId, ...]:
        found = unit_of.get(node)
        if found is None:
            priced = cost.owner.get(node)
            found = (node,) if priced is None else priced.group.members
            unit_of.update((member, found) for member in found)
        return found

    def runs(node: NodeId) -> bool:
        return node not in free and not isinstance(graph.nodes[node].operator, Input)

    def below(members: tuple[NodeId, ...]) -> Iterator[tuple[NodeId, ...]]:
        for node in (graph.nodes[member] for member in members):
            sources = (*(value.node for value in node.inputs), *node.after)
            yield from (unit(source) for source in sources if runs(source))

    ends = (*(value.node for value in graph.outputs), *sorted(graph.nodes, reverse=True))
    return list(postorder((unit(end) for end in ends if runs(end)), below))


def region_of(cost: GraphCost, members: Iterable[NodeId], protected: Iterable[NodeId] = ()) -> Region:
    """The region of some nodes, with everything computed from weights for them. The order of ids is kept,
    because it breaks ties."""
    graph = cost.graph
    inside = {node for node in members if node in graph.nodes}
    weights = _weights_of(cost, inside)
    read = {
        value
        for node in inside
        for value in graph.nodes[node].inputs
        if value.node not in inside and value.node not in weights
    }
    names: dict[Value, Value] = {}
    nodes: dict[NodeId, Node] = {}
    sources = sorted((*read, *(Value(node, -1) for node in (*inside, *weights))))
    for number, source in enumerate(sources):
        ports = (source.port,) if source.port >= 0 else range(len(graph.nodes[source.node].types))
        for port in ports:
            names[Value(source.node, port)] = Value(NodeId(number), 0 if source.port >= 0 else port)
    for number, source in enumerate(sources):
        node = graph.nodes[source.node]
        own = NodeId(number)
        if source.port >= 0:
            type_ = node.types[source.port]
            nodes[own] = Node(own, Input(f"x{number}", type_), (), (type_,))
        else:
            inputs = tuple(names[value] for value in node.inputs)
            after = tuple(names[Value(n)].node for n in node.after if n in inside)
            nodes[own] = Node(own, node.operator, inputs, node.types, None, after)
    returned = frozenset(graph.outputs)
    outputs = tuple(
        names[value]
        for node in sorted(inside)
        for value in graph.nodes[node].values
        if value in returned
        or any(value in graph.nodes[user].inputs for user in graph.users(node) if user not in inside)
    )
    inputs = tuple(names[value].node for value in sorted(read))
    region = Graph(nodes, inputs, outputs, NodeId(len(sources)))
    blocked = frozenset(names[value].node for value in read if value.node in cost.blocked)
    kept = frozenset(names[Value(node)].node for node in protected if node in inside or node in weights)
    likeness = (
        tuple((_alike(node.operator), node.inputs, node.types, node.after) for node in nodes.values()),
        outputs,
        blocked,
        kept,
    )
    return Region(region, {own: value for value, own in names.items()}, blocked, kept, likeness)


def _weights_of(cost: GraphCost, inside: Iterable[NodeId]) -> set[NodeId]:
    def sources(node: NodeId) -> list[NodeId]:
        return [value.node for value in cost.graph.nodes[node].inputs if value.node in cost.free]

    return set(postorder(itertools.chain.from_iterable(map(sources, inside)), sources))


def _alike(operator: GraphOperator) -> GraphOperator | tuple[str, str]:
    """The operator without attributes that are mere names."""
    if isinstance(operator, Weight):
        return Weight("", operator.type, operator.number)
    return (operator.domain, operator.op_type) if isinstance(operator, Opaque) else operator
