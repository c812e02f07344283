"""Rewritten regions: the changed parts of the graph before and after, with equal ones counted together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import cast

from superopt.equations import abbreviated, format_attribute
from superopt.ir.graph import Graph, Node, NodeId, Value, Weight
from superopt.ir.terms import AttributeValue
from superopt.onnx_io import LiftedModel
from superopt.ops.base import Operator, attribute_defaults
from superopt.ops.traits import traits
from superopt.optimizer.cost import GraphCost, PricedGroup
from superopt.optimizer.explanation.kernels import onnx_node, operator_name

_MOST_NODES = 40
"""Maximum nodes of one side of a drawn region."""

_MOST_WRITTEN = 400
"""Maximum operators of a side written out as terms, where shared subterms are repeated."""

_MOST_REGIONS = 40
_NAMES_SHOWN = 12
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a drawing: an operator with attributes and inputs, or an external tensor. ``name`` is the
    operator's, or the tensor's symbol; ``attributes`` are written ``name=value``, and None for a tensor."""

    name: str
    attributes: tuple[str, ...] | None
    inputs: tuple[int, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The node as JSON values."""
        if self.attributes is None:
            return {"tensor": self.name}
        return {"operator": self.name, "attributes": list(self.attributes), "inputs": list(self.inputs)}


@dataclass(frozen=True, slots=True)
class Drawing:
    """One side of a region: nodes in topological order, and its outputs."""

    nodes: tuple[DrawnNode, ...]
    results: tuple[int, ...]

    def to_json(self) -> dict[str, object]:
        """The drawing as JSON values."""
        return {"nodes": [node.to_json() for node in self.nodes], "results": list(self.results)}


@dataclass(frozen=True, slots=True)
class Symbol:
    """The tensor that a symbol stands for, at the first occurrence."""

    symbol: str
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Region:
    """A rewritten part that occurs ``count`` times; drawings and symbols are those of the first occurrence.
    ``before`` and ``after`` are None where the part is too large to draw; costs are totals."""

    count: int
    rules: tuple[str, ...]
    operators_before: Mapping[str, int]
    operators_after: Mapping[str, int]
    before: Drawing | None
    after: Drawing | None
    symbols: tuple[Symbol, ...]
    cost_before: float
    cost_after: float
    nodes: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The region as JSON values."""
        return {
            "count": self.count,
            "rules": list(self.rules),
            "operators_before": dict(self.operators_before),
            "operators_after": dict(self.operators_after),
            "before": None if self.before is None else self.before.to_json(),
            "after": None if self.after is None else self.after.to_json(),
            "symbols": [{"symbol": s.symbol, "name": s.name, "type": s.type} for s in self.symbols],
            "cost_before": self.cost_before,
            "cost_after": self.cost_after,
            "nodes": list(self.nodes),
        }


@dataclass
class _Part:
    """A connected component of the changes."""

    removed: list[NodeId] = field(default_factory=list[NodeId])
    added: list[NodeId] = field(default_factory=list[NodeId])
    results: dict[tuple[Value, Value], None] = field(default_factory=dict[tuple[Value, Value], None])
    readers: set[NodeId] = field(default_factory=set[NodeId])


def rewritten_regions(
    before: GraphCost, after: GraphCost, lifted: LiftedModel, rules_of: Mapping[NodeId, Sequence[str]]
) -> tuple[Region, ...]:
    """The parts that differ between two graphs, by decreasing gain. ``rules_of`` gives the rules applied at a
    node."""
    grouped: dict[object, list[Region]] = {}
    for part in _parts(before, after):
        region = _region(part, before, after, lifted, rules_of)
        key = (
            (region.before, region.after)
            if region.before is not None
            else (tuple(region.operators_before.items()), tuple(region.operators_after.items()))
        )
        grouped.setdefault(key, []).append(region)
    merged = [_merged(equal) for equal in grouped.values()]
    return tuple(sorted(merged, key=lambda r: r.cost_after - r.cost_before)[:_MOST_REGIONS])


def _parts(before: GraphCost, after: GraphCost) -> Iterable[_Part]:
    """Components connected by edges before, by edges after, and by replacement."""
    old, new = before.graph, after.graph
    removed = [n for n in old.order if n not in new.nodes and n not in before.free]
    added = [n for n in new.order if n not in old.nodes and n not in after.free]
    links = _Links()
    for side, graph, members in (("-", old, frozenset(removed)), ("+", new, frozenset(added))):
        for node in members:
            links.find((side, node))
            for value in graph.nodes[node].inputs:
                if value.node in members:
                    links.join((side, node), (side, value.node))
    gone, fresh = frozenset(removed), frozenset(added)
    results: list[tuple[Value, Value, NodeId | None]] = []
    for node_id in new.order:
        if node_id in old.nodes and node_id not in after.free:
            slots = zip(old.nodes[node_id].inputs, new.nodes[node_id].inputs, strict=False)
            results.extend((a, b, node_id) for a, b in slots if a != b)
    results.extend((a, b, None) for a, b in zip(old.outputs, new.outputs, strict=True) if a != b)
    for a, b, _ in results:
        if a.node in gone and b.node in fresh:
            links.join(("-", a.node), ("+", b.node))
    parts: dict[tuple[str, int], _Part] = {}
    for side, members in (("-", removed), ("+", added)):
        for node in members:
            part = parts.setdefault(links.find((side, node)), _Part())
            (part.removed if side == "-" else part.added).append(node)
    for a, b, reader in results:
        end = ("-", a.node) if a.node in gone else ("+", b.node)
        part = parts.get(links.find(end)) if a.node in gone or b.node in fresh else None
        if part is not None:
            part.results[a, b] = None
            part.readers.update(() if reader is None else (reader,))
    return [part for part in parts.values() if part.results]


class _Links:
    """Union-find over the nodes of both graphs."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, int], tuple[str, int]] = {}

    def find(self, node: tuple[str, int]) -> tuple[str, int]:
        """Representative of the node's set."""
        path: list[tuple[str, int]] = []
        while (above := self._above.setdefault(node, node)) != node:
            path.append(node)
            node = above
        self._above.update(dict.fromkeys(path, node))
        return node

    def join(self, first: tuple[str, int], second: tuple[str, int]) -> None:
        """Merges two sets."""
        self._above[self.find(first)] = self.find(second)


def _region(
    part: _Part,
    before: GraphCost,
    after: GraphCost,
    lifted: LiftedModel,
    rules_of: Mapping[NodeId, Sequence[str]],
) -> Region:
    old, new = before.graph, after.graph
    symbols = _Symbols(lifted)
    small = max(len(part.removed), len(part.added)) <= _MOST_NODES
    sides: list[Drawing | None] = [None, None]
    if small:
        sides = [
            _Sketch(old, frozenset(part.removed), before.free, symbols).of([a for a, _ in part.results]),
            _Sketch(new, frozenset(part.added), after.free, symbols).of([b for _, b in part.results]),
        ]
    if None in sides:
        sides = [None, None]
    names = [onnx_node(old.nodes[node], lifted).name for node in part.removed]
    rules = dict.fromkeys(r for node in (*part.removed, *part.added) for r in rules_of.get(node, ()))
    return Region(
        count=1,
        rules=tuple(rules),
        operators_before=_counts(old, part.removed),
        operators_after=_counts(new, part.added),
        before=sides[0],
        after=sides[1],
        symbols=symbols.found() if small else (),
        cost_before=_cost(before, (*part.removed, *part.readers)),
        cost_after=_cost(after, (*part.added, *part.readers)),
        nodes=tuple(dict.fromkeys(name for name in names if name)),
    )


def _merged(equal: list[Region]) -> Region:
    first = equal[0]
    return Region(
        count=len(equal),
        rules=tuple(dict.fromkeys(rule for region in equal for rule in region.rules)),
        operators_before=first.operators_before,
        operators_after=first.operators_after,
        before=first.before,
        after=first.after,
        symbols=first.symbols,
        cost_before=sum(region.cost_before for region in equal),
        cost_after=sum(region.cost_after for region in equal),
        nodes=tuple(dict.fromkeys(name for region in equal for name in region.nodes))[:_NAMES_SHOWN],
    )


def _counts(graph: Graph, nodes: Iterable[NodeId]) -> Mapping[str, int]:
    return dict(sorted(Counter(operator_name(graph.nodes[node]) for node in nodes).items()))


def _cost(cost: GraphCost, nodes: Iterable[NodeId]) -> float:
    """Cost of the kernels that contain the nodes, each counted once."""
    kernels: dict[int, PricedGroup] = {}
    for node in nodes:
        priced = cost.owner.get(node)
        if priced is not None:
            kernels[id(priced)] = priced
    return sum(priced.price.cost for priced in kernels.values())


class _Symbols:
    """Names for external tensors: x1, x2 if computed, w1, w2 if weights."""

    def __init__(self, lifted: LiftedModel) -> None:
        self._lifted = lifted
        self._symbols: dict[tuple[Value, bool], Symbol] = {}

    def symbol(self, graph: Graph, value: Value, *, is_weight: bool) -> str:
        """The symbol of a value."""
        key = (value, is_weight)
        if key not in self._symbols:
            letter = "w" if is_weight else "x"
            number = 1 + sum(known == is_weight for _, known in self._symbols)
            name = _folded(graph, value, self._lifted) if is_weight else self._name(graph, value)
            self._symbols[key] = Symbol(f"{letter}{number}", name, str(graph.type_of(value)))
        return self._symbols[key].symbol

    def found(self) -> tuple[Symbol, ...]:
        """All symbols, in order of use."""
        return tuple(self._symbols.values())

    def _name(self, graph: Graph, value: Value) -> str:
        node = graph.nodes[value.node]
        return self._lifted.names.get(value) or onnx_node(node, self._lifted).name or operator_name(node)


def _folded(graph: Graph, value: Value, lifted: LiftedModel) -> str:
    """A weight by its name; one that is folded on writing, as its term."""
    budget = [_MOST_WRITTEN // 40]

    def written(current: Value) -> str:
        node = graph.nodes[current.node]
        budget[0] -= 1
        if isinstance(node.operator, Weight):
            return node.operator.label
        if not node.inputs or budget[0] < 0:
            return lifted.names.get(current) or node.operator.name
        return f"{operator_name(node)}({', '.join(written(v) for v in node.inputs)})"

    return written(value)


class _Sketch:
    """Draws one side of a region."""

    def __init__(
        self, graph: Graph, members: frozenset[NodeId], free: Iterable[NodeId], symbols: _Symbols
    ) -> None:
        self._graph = graph
        self._members = members
        self._free = free if isinstance(free, set) else frozenset(free)
        self._symbols = symbols
        self._nodes: dict[Value, int] = {}
        self._drawn: list[DrawnNode] = []
        self._written: list[int] = []

    def of(self, results: Iterable[Value]) -> Drawing | None:
        """The drawing; None if it would be too large."""
        numbers = tuple(self._number(value) for value in dict.fromkeys(results))
        if sum(self._written[number] for number in numbers) > _MOST_WRITTEN:
            return None
        return Drawing(tuple(self._drawn), numbers)

    def _number(self, value: Value) -> int:
        found = self._nodes.get(value)
        if found is not None:
            return found
        node = self._graph.nodes[value.node]
        if value.node not in self._members:
            is_weight = value.node in self._free
            symbol = self._symbols.symbol(self._graph, value, is_weight=is_weight)
            return self._add(value, DrawnNode(symbol, None))
        if traits(node.operator.name).repeats:
            number = self._number(node.inputs[0])
            self._nodes[value] = number
            return number
        inputs = tuple(self._number(v) for v in node.inputs)
        attributes = tuple(_attributes(node, value))
        return self._add(value, DrawnNode(operator_name(node), attributes, inputs))

    def _add(self, value: Value, node: DrawnNode) -> int:
        number = self._nodes[value] = len(self._drawn)
        self._drawn.append(node)
        self._written.append(1 + sum(self._written[child] for child in node.inputs))
        return number


def _attributes(node: Node, value: Value) -> Iterator[str]:
    """Non-default attributes, and the output index."""
    operator = node.operator
    if isinstance(operator, Operator) and operator.name != "opaque":
        defaults = attribute_defaults(operator.name)
        for attribute in fields(operator):  # pyright: ignore[reportArgumentType]
            held: object = getattr(operator, attribute.name)
            if attribute.name not in operator.implicit and defaults.get(attribute.name, ...) != held:
                yield _attribute(attribute.name, held)
    if len(node.types) > 1:
        yield f"output={value.port}"


def _attribute(name: str, value: object) -> str:
    if isinstance(value, tuple):
        parts = cast("tuple[object, ...]", value)
        if any(isinstance(part, tuple) for part in parts):
            return abbreviated(format_attribute(name, cast("AttributeValue", parts)))
        if len(parts) > _MOST_PARTS and len(set(parts)) == 1:
            return f"{name}={len(parts)}×{parts[0]}"
        if len(parts) > _MOST_PARTS:
            return f"{name}=({', '.join(map(str, parts[:_MOST_PARTS]))}, …)"
        if all(isinstance(part, int) for part in parts):
            return format_attribute(name, cast("tuple[int, ...]", parts))
        return f"{name}=({', '.join(map(str, parts))})"
    return format_attribute(name, value if isinstance(value, int | float | Fraction) else str(value))


__all__ = ["Drawing", "DrawnNode", "Region", "Symbol", "rewritten_regions"]
