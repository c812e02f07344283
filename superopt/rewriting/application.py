"""Applying a substitution at a match: the target is typed, built, and takes the place of the source.

Nothing happens (None) where the target is ill-typed, where a condition fails, where the graph would become
cyclic (dissertation, Fig. 2.6), or where the target is what is already there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Graph, GraphEditor, Input, NodeId, Value
from superopt.ir.terms import Application, Term, Variable, applications, variables
from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.shape import Concat, Half, Split
from superopt.rewriting.conditions import holds
from superopt.rewriting.matching import Bundle, Match
from superopt.rewriting.typing import Typing, infer_terms


@dataclass(frozen=True)
class Rewrite:
    """A graph after one substitution, and what changed."""

    graph: Graph
    added: tuple[NodeId, ...]
    removed: tuple[NodeId, ...]
    replaced: Mapping[Value, Value]


def apply_match(graph: Graph, match: Match) -> Rewrite | None:
    """The rewritten graph; None where the substitution does not apply at this match."""
    types = _variable_types(graph, match)
    if types is None or not all(holds(c, types, match.attributes) for c in match.substitution.conditions):
        return None
    typing = _target_typing(graph, match, types)
    if typing is None:
        return None
    if len(match.substitution.source) > 1 and _would_be_cyclic(graph, match):
        return None
    builder = _Builder(graph, match, typing)
    results = [builder.value(term) for term in match.substitution.target]
    replaced = {old: new for old, new in zip(match.outputs, results, strict=True) if old != new}
    if not replaced:
        return None
    editor = builder.editor
    users = {user for old in replaced for user in graph.users(old.node)}
    if not users.isdisjoint(value.node for value in replaced.values()):
        return None
    editor.redirect(replaced, users.difference(builder.added))
    removed = _remove_unused(graph, editor, [old.node for old in replaced], builder)
    return Rewrite(
        editor.build(), tuple(node for node in builder.added if node in editor), tuple(removed), replaced
    )


def _variable_types(graph: Graph, match: Match) -> dict[str, TensorType] | None:
    """Types of the variables; None unless all are floating point tensors, which rules over the reals need."""
    types: dict[str, TensorType] = {}
    for name, binding in match.values.items():
        parts = binding.values if isinstance(binding, Bundle) else (binding,)
        part_types = [graph.type_of(part) for part in parts]
        if not all(isinstance(t, TensorType) and t.element.is_float for t in part_types):
            return None
        known = [t for t in part_types if isinstance(t, TensorType)]
        types[name] = Concat(binding.axis).infer(*known)[0] if isinstance(binding, Bundle) else known[0]
    return types


def _target_typing(graph: Graph, match: Match, types: Mapping[str, TensorType]) -> Typing | None:
    required: list[tuple[Term, TensorType]] = []
    for term, output in zip(match.substitution.target, match.outputs, strict=True):
        type_ = graph.type_of(output)
        if not isinstance(type_, TensorType):
            return None
        required.append((term, type_))
    fixed = frozenset[str]().union(*(t.symbols for t in types.values()))
    used = variables(*match.substitution.target)
    try:
        typing = infer_terms(
            match.substitution.target,
            {name: types[name] for name in used},
            match.attributes,
            equal=required,
            fixed=fixed,
        )
    except IllTypedError:
        return None
    return None if typing.unresolved else typing


def _would_be_cyclic(graph: Graph, match: Match) -> bool:
    """Whether an operand of the target depends on an output of the source."""
    outputs = {value.node for value in match.outputs}
    position = {node: index for index, node in enumerate(graph.order)}
    earliest = min(position[node] for node in outputs)
    stack = [value.node for name in variables(*match.substitution.target) for value in _parts(match, name)]
    seen: set[NodeId] = set()
    while stack:
        node = stack.pop()
        if node in outputs:
            return True
        if node in seen or position[node] < earliest:
            continue
        seen.add(node)
        stack.extend(value.node for value in graph.nodes[node].inputs)
        stack.extend(graph.nodes[node].after)
    return False


def _parts(match: Match, name: str) -> tuple[Value, ...]:
    binding = match.values[name]
    return binding.values if isinstance(binding, Bundle) else (binding,)


class _Builder:
    """Adds the target's operators to an edit of the graph; what the source has already is used again."""

    def __init__(self, graph: Graph, match: Match, typing: Typing) -> None:
        self.editor = graph.edit()
        self.added: list[NodeId] = []
        self._graph = graph
        self._match = match
        self._typing = typing
        self._values: dict[Term, Value] = {}
        outputs = set(match.outputs)
        for term in applications(*match.substitution.source):
            value = match.terms.get(term)
            if value is not None and value not in outputs:
                self._values[term] = value

    def value(self, term: Term) -> Value:
        """The value of a target term, its operators added where needed."""
        found = self._values.get(term)
        if found is None:
            found = self._binding(term) if isinstance(term, Variable) else self._application(term)
            self._values[term] = found
        return found

    def _binding(self, term: Variable) -> Value:
        binding = self._match.values[term.name]
        if isinstance(binding, Bundle):
            return self._add(Concat(binding.axis), binding.values, 0)
        return binding

    def _application(self, term: Application) -> Value:
        inputs = tuple(self.value(child) for child in term.inputs)
        operator = self._typing.operators[term]
        if isinstance(operator, Half):
            whole = self._typing.types[term.inputs[0]]
            axis = operator.axis % whole.rank
            sizes: tuple[Dimension, ...] = (operator.size, whole.shape[axis] - operator.size)
            return self._add(Split(operator.axis, sizes), inputs, operator.port)
        return self._add(operator, inputs, 0)

    def _add(self, operator: Operator, inputs: tuple[Value, ...], port: int) -> Value:
        same = self._existing(operator, inputs)
        if same is None:
            same = self.editor.add(operator, inputs).id
            self.added.append(same)
        return Value(same, port)

    def _existing(self, operator: Operator, inputs: tuple[Value, ...]) -> NodeId | None:
        if not inputs:
            return None
        old = self._graph.users(inputs[0].node) if inputs[0].node in self._graph.nodes else ()
        for node_id in (*self.added, *old):
            node = self.editor[node_id]
            if node.inputs == inputs and node.operator == operator:
                return node_id
        return None


def _remove_unused(
    graph: Graph, editor: GraphEditor, roots: Iterable[NodeId], builder: _Builder
) -> list[NodeId]:
    """Removes replaced nodes, and what only they used, unless it is an input or has no known meaning."""
    returned = {value.node for value in editor.outputs}
    removed: list[NodeId] = []
    stack = list(roots)
    while stack:
        node_id = stack.pop()
        if node_id not in editor or node_id in returned:
            continue
        node = editor[node_id]
        if isinstance(node.operator, Input) or not getattr(node.operator, "foldable", True):
            continue
        users = (*graph.users(node_id), *builder.added)
        if any(user in editor and any(v.node == node_id for v in editor[user].inputs) for user in users):
            continue
        editor.remove((node_id,))
        removed.append(node_id)
        stack.extend(value.node for value in node.inputs)
    return removed
