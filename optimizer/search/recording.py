"""A recorded sequence of rewrites, and its replay with some steps left out; the others are relocated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from superopt.ir.graph import Graph, Node, NodeId, Value
from superopt.ir.terms import Term
from superopt.optimizer.cost.graph_cost import GraphCost, Update
from superopt.rewriting import Match, Rewrite, Substitution, apply_match, find_matches


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A recorded rewrite: the match, the nodes added, and the values replaced. ``rewired`` are existing nodes
    whose operands changed."""

    match: Match
    added: tuple[Node, ...]
    replaced: Mapping[Value, Value]
    rewired: frozenset[NodeId]

    @staticmethod
    def of(match: Match, rewrite: Rewrite) -> Recorded:
        """The record of a rewrite."""
        graph = rewrite.graph
        added = frozenset(rewrite.added)
        users = {user for value in rewrite.replaced.values() for user in graph.users(value.node)}
        return Recorded(
            match=match,
            added=tuple(graph.nodes[node] for node in rewrite.added),
            replaced=rewrite.replaced,
            rewired=frozenset(users - added),
        )

    @property
    def made(self) -> frozenset[NodeId]:
        """Nodes created or changed by this rewrite."""
        return self.rewired.union(node.id for node in self.added)


class Relocation:
    """Applies recorded rewrites to a graph with other node ids, or without some earlier rewrites. ``values``
    maps recorded values to the graph's; missing ones map to themselves."""

    def __init__(self, graph: Graph, values: Mapping[Value, Value] | None = None) -> None:
        self.graph = graph
        self._values = dict(values or {})

    def value(self, recorded: Value) -> Value:
        """The value in this graph that corresponds to a recorded one."""
        return self._values.get(recorded, recorded)

    def apply(self, recorded: Recorded) -> tuple[Match, Rewrite] | None:
        """Applies one rewrite and keeps the result; None, without any change, where it does not apply."""
        match = self._match(recorded.match)
        rewrite = None if match is None else apply_match(self.graph, match)
        if match is None or rewrite is None:
            self.leave_out(recorded)
            return None
        self._follow(recorded, rewrite.graph)
        self.graph = rewrite.graph
        return match, rewrite

    def leave_out(self, recorded: Recorded) -> None:
        """Maps the results of a rewrite that is left out to the values that it would have replaced."""
        for old, new in recorded.replaced.items():
            if new.node in {node.id for node in recorded.added}:
                self._values[new] = self.value(old)

    def _match(self, recorded: Match) -> Match | None:
        graph, substitution = self.graph, recorded.substitution
        terms = {term: self.value(value) for term, value in recorded.terms.items()}
        if any(value.node not in graph.nodes for value in terms.values()):
            return None
        root = terms[substitution.source[0]].node
        alike = [m for m in find_matches(graph, substitution, (root,)) if _same(m, recorded, terms)]
        values = {name: self._binding(recorded, name) for name in recorded.values}
        return next((m for m in alike if m.values == values), alike[0] if alike else None)

    def _binding(self, recorded: Match, name: str) -> object:
        binding = recorded.values[name]
        if isinstance(binding, Value):
            return self.value(binding)
        return type(binding)(binding.axis, tuple(self.value(value) for value in binding.values))

    def _follow(self, recorded: Recorded, graph: Graph) -> None:
        """Maps each node added by the recorded rewrite to the one added here."""
        newest: list[NodeId] = []
        for node in recorded.added:
            found = self._counterpart(node, graph, newest)
            if found is not None:
                newest.append(found)
                for port in range(len(node.types)):
                    self._values[Value(node.id, port)] = Value(found, port)

    def _counterpart(self, node: Node, graph: Graph, taken: list[NodeId]) -> NodeId | None:
        inputs = tuple(self.value(value) for value in node.inputs)
        if inputs and inputs[0].node in graph.nodes:
            possible: Iterable[NodeId] = reversed(graph.users(inputs[0].node))
        elif inputs:
            return None
        else:
            possible = reversed(graph.with_operator(node.operator.name))
        for other in possible:
            there = graph.nodes[other]
            if there.inputs == inputs and there.operator == node.operator and other not in taken:
                return other
        return None


class StepRelocation:
    """Like ``Relocation``, with the ``cost`` of the graph."""

    def __init__(self, cost: GraphCost, values: Mapping[Value, Value] | None = None) -> None:
        self.cost = cost
        self._steps = Relocation(cost.graph, values)

    def apply(self, recorded: Recorded) -> tuple[Match, GraphCost] | None:
        """Applies one rewrite and keeps the result; None, without any change, where it does not apply."""
        applied = self._steps.apply(recorded)
        if applied is None:
            return None
        match, rewrite = applied
        update = self.cost.after(rewrite)
        assert update is not None, "without a limit there is always a cost"
        self.cost = update.build()
        return match, self.cost

    def leave_out(self, recorded: Recorded) -> None:
        """Maps the results of a rewrite that is left out to the values that it would have replaced."""
        self._steps.leave_out(recorded)


def applied_steps(
    graph: Graph, records: Sequence[Recorded], wanted: Sequence[int]
) -> Mapping[int, tuple[Match, Rewrite]]:
    """Applies the steps of these indices, in order, to the graph before the first; those that do not apply
    are missing from the result."""
    relocation, chosen = Relocation(graph), frozenset(wanted)
    applied: dict[int, tuple[Match, Rewrite]] = {}
    for index in range(min(wanted, default=0), max(wanted, default=-1) + 1):
        if index not in chosen:
            relocation.leave_out(records[index])
            continue
        step = relocation.apply(records[index])
        if step is not None:
            applied[index] = step
    return applied


def cost_with(
    start: GraphCost, records: Sequence[Recorded], wanted: Sequence[int]
) -> tuple[float, tuple[int, ...]]:
    """The cost after applying some of the steps, priced once as a whole, and which of them applied."""
    update, applied = _applied_at_once(start, records, wanted)
    return (start if update is None else update).total, applied


def graph_with(
    start: GraphCost, records: Sequence[Recorded], wanted: Sequence[int]
) -> tuple[GraphCost, tuple[int, ...]]:
    """The graph after applying some of the steps, priced once as a whole, and which of them applied."""
    update, applied = _applied_at_once(start, records, wanted)
    return start if update is None else update.build(), applied


def _applied_at_once(
    start: GraphCost, records: Sequence[Recorded], wanted: Sequence[int]
) -> tuple[Update | None, tuple[int, ...]]:
    applied = applied_steps(start.graph, records, wanted)
    if not applied:
        return None, ()
    update = start.after(composed([rewrite for _, rewrite in applied.values()]))
    assert update is not None, "without a limit there is always a cost"
    return update, tuple(applied)


def composed(rewrites: Sequence[Rewrite]) -> Rewrite:
    """Consecutive rewrites as one, from the graph before the first to the graph after the last."""
    graph = rewrites[-1].graph
    added = tuple(node for one in rewrites for node in one.added)
    made = frozenset(added)
    replaced: dict[Value, Value] = {}
    for one in rewrites:
        replaced.update(one.replaced)
    ends = [(old, _last(new, replaced)) for old, new in replaced.items()]
    return Rewrite(
        graph,
        tuple(node for node in added if node in graph.nodes),
        tuple(node for one in rewrites for node in one.removed if node not in made),
        {old: last for old, last in ends if old.node not in made and last.node in graph.nodes},
    )


def _last(value: Value, replaced: Mapping[Value, Value]) -> Value:
    """The value that replaces a value in the end."""
    seen = {value}
    while value in replaced and replaced[value] not in seen:
        value = replaced[value]
        seen.add(value)
    return value


def matches_at(graph: Graph, substitution: Substitution, site: tuple[NodeId, ...]) -> list[Match]:
    """The matches at exactly these nodes, in deterministic order."""
    if not site or any(node not in graph.nodes for node in site):
        return []
    return [m for m in find_matches(graph, substitution, site[:1]) if m.sites == tuple(site)]


def _same(match: Match, recorded: Match, terms: Mapping[Term, Value]) -> bool:
    return match.terms == terms and match.window == recorded.window
