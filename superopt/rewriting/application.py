"""Apply a substitution at a match: the target is typed, built, and replaces the source.

Returns None where the target is ill-typed, where a condition fails, where the graph would become cyclic
(dissertation, Fig. 2.6), or where the target is already in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension, SymbolicDimension
from superopt.ir.graph import Graph, GraphEditor, GraphOperator, Input, NodeId, Value
from superopt.ir.terms import Application, Condition, Term, Variable
from superopt.ir.types import TensorType, ValueType
from superopt.ops.shape import Half, Joining, joined_along
from superopt.ops.traits import traits
from superopt.rewriting.binding import Bundle
from superopt.rewriting.claims import MOST_RANK, speaks_of
from superopt.rewriting.conditions import as_declared, holds
from superopt.rewriting.matching import Match
from superopt.rewriting.typing import Typing, infer_terms


class _Asked(NamedTuple):
    """Arguments of ``infer_terms``, used as a cache key."""

    terms: tuple[Term, ...]
    types: tuple[tuple[str, TensorType], ...]
    attributes: tuple[tuple[str, object], ...]
    equal: tuple[tuple[Term, TensorType], ...]
    fixed: frozenset[str]
    cuts: tuple[tuple[tuple[Term, int], Dimension], ...]


@dataclass(frozen=True)
class Rewrite:
    """A graph after one substitution, and the nodes that changed."""

    graph: Graph
    added: tuple[NodeId, ...]
    removed: tuple[NodeId, ...]
    replaced: Mapping[Value, Value]


def apply_match(graph: Graph, match: Match) -> Rewrite | None:
    """The rewritten graph; None where the substitution does not apply at this match."""
    substitution = match.substitution
    types = _variable_types(graph, match)
    if (
        types is None
        or not as_declared(substitution.equation.types, types)
        or not speaks_of(substitution.equation, types, match.attributes)
        or not all(holds(condition, types, match.attributes) for condition in substitution.conditions)
        or not _implicit_sizes_fit(graph, match, types)
    ):
        return None
    typing = _target_typing(graph, match, types)
    if typing is None or (len(substitution.source) > 1 and _would_be_cyclic(graph, match)):
        return None
    builder = _Builder(graph, match, typing)
    results = builder.results()
    replaced = {old: new for old, new in zip(match.outputs, results, strict=True) if old != new}
    users = {user for old in replaced for user in graph.users(old.node)}
    if not replaced or not users.isdisjoint(builder.reused):
        return None
    editor = builder.editor
    editor.redirect(replaced, users.difference(builder.added))
    readers = (*builder.added, *users)
    removed = _remove_unused(graph, editor, [old.node for old in replaced], readers)
    added = tuple(node for node in builder.added if node in editor)
    return Rewrite(editor.build(), added, tuple(removed), replaced)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a substitution does not apply at a match: a failing clause, or the ``reason``."""

    reason: str
    condition: Condition | None = None


def obstacle(graph: Graph, match: Match) -> Obstacle | None:
    """What prevents ``apply_match`` from rewriting at this match; None where it rewrites."""
    substitution = match.substitution
    types = _variable_types(graph, match)
    if types is None:
        return Obstacle("rules are about floating point tensors, and an operand is none")
    if not as_declared(substitution.equation.types, types):
        return Obstacle("an operand has not the type that the rule declares")
    if not speaks_of(substitution.equation, types, match.attributes):
        return Obstacle(f"the rule speaks of tensors of rank {MOST_RANK} at most")
    for condition in substitution.conditions:
        if not holds(condition, types, match.attributes):
            return Obstacle("a condition of the rule does not hold", condition)
    if not _implicit_sizes_fit(graph, match, types):
        return Obstacle("a constant of the rule would need another size")
    try:
        _typed_target(graph, match, types)
    except IllTypedError as error:
        return Obstacle(f"the target is ill-typed: {error}")
    if len(substitution.source) > 1 and _would_be_cyclic(graph, match):
        return Obstacle("the graph would become cyclic")
    return None if apply_match(graph, match) is not None else Obstacle("the target is what is there already")


def _variable_types(graph: Graph, match: Match) -> dict[str, TensorType] | None:
    """Types of the variables; None unless all are floating-point tensors, since rules hold over the reals, or
    conditions."""
    types: dict[str, TensorType] = {}
    conditions = match.substitution.conditional_variables
    for name, binding in match.values.items():
        parts = binding.values if isinstance(binding, Bundle) else (binding,)
        part_types = [graph.type_of(part) for part in parts]
        if not all(
            isinstance(t, TensorType)
            and (t.element.is_float or (name in conditions and t.element.is_movable))
            for t in part_types
        ):
            return None
        known = [t for t in part_types if isinstance(t, TensorType)]
        types[name] = joined_along(binding.axis).infer(*known)[0] if isinstance(binding, Bundle) else known[0]
    return types


def _implicit_sizes_fit(graph: Graph, match: Match, types: Mapping[str, TensorType]) -> bool:
    """Whether constants and broadcasts in the source have the sizes that its types determine. For example, an
    identity kernel of two channels can be applied to four channels in two groups; the equation means the
    kernel of four."""
    sized_by_types = match.substitution.source_sized_by_types
    if not sized_by_types:
        return True
    found = [(term, graph.type_of(match.terms[term])) for term in sized_by_types]
    try:
        asked = _Asked(
            terms=match.substitution.source,
            types=tuple(types.items()),
            attributes=tuple(match.attributes.items()),
            equal=tuple((term, type_) for term, type_ in found if isinstance(type_, TensorType)),
            fixed=_symbols(match, (*types.values(), *(t for _, t in found if isinstance(t, TensorType)))),
            cuts=tuple(match.cuts.items()),
        )
        _inferred(asked)
    except IllTypedError:
        return False
    return True


def _symbols(match: Match, types: Iterable[TensorType]) -> frozenset[str]:
    """Return the symbols in the sizes of a match, none of which may be solved for."""
    sizes: list[object] = [*match.cuts.values()]
    for value in match.attributes.values():
        sizes.extend(cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,))
    own = (name for size in sizes if isinstance(size, SymbolicDimension) for name in size.symbols)
    return frozenset((*own, *(name for type_ in types for name in type_.symbols)))


def _target_typing(graph: Graph, match: Match, types: Mapping[str, TensorType]) -> Typing | None:
    """A typing of the target in which each output has the type of what it replaces; None if there is none."""
    try:
        return _typed_target(graph, match, types)
    except IllTypedError:
        return None


def _typed_target(graph: Graph, match: Match, types: Mapping[str, TensorType]) -> Typing:
    """Like ``_target_typing``, but raises IllTypedError."""
    target = match.substitution.target
    required: list[tuple[Term, TensorType]] = []
    for term, output in zip(target, match.outputs, strict=True):
        type_ = _type_of_output(graph, match, output)
        if not isinstance(type_, TensorType):
            raise IllTypedError("the type of what would be replaced is not known")
        required.append((term, type_))
    for term in match.substitution.shared_open_terms:
        type_ = graph.type_of(match.terms[term])
        if not isinstance(type_, TensorType):
            raise IllTypedError("the type of a shared term is not known")
        required.append((term, type_))
    fixed = _symbols(match, (*types.values(), *(type_ for _, type_ in required)))
    asked = _Asked(
        terms=target,
        types=tuple((name, types[name]) for name in match.substitution.target_variables),
        attributes=tuple(match.attributes.items()),
        equal=tuple(required),
        fixed=fixed,
        cuts=tuple(match.cuts.items()),
    )
    typing = _inferred(asked)
    if typing.unresolved - fixed:
        raise IllTypedError("a size of the target stays open")
    for term in typing.operators:
        if not (term.inputs or term in match.terms or _is_writable(term.operator, typing.types[term])):
            raise IllTypedError(f"a constant of the target would be {typing.types[term]}, of open size")
    return typing


def _is_writable(operator: str, type_: TensorType) -> bool:
    """Whether a constant can be written: its content, or the one number that it repeats."""
    return traits(operator).fills or type_.is_sized


def _inferred(asked: _Asked) -> Typing:
    """``infer_terms``, cached: a search types the same terms at the same sizes in many graphs."""
    found = _typing_or_reason(asked)
    if isinstance(found, str):
        raise IllTypedError(found)
    return found


@lru_cache(maxsize=1 << 16)
def _typing_or_reason(asked: _Asked) -> Typing | str:
    terms, types, attributes, equal, fixed, cuts = asked
    try:
        return infer_terms(terms, dict(types), dict(attributes), equal=equal, fixed=fixed, cuts=dict(cuts))
    except IllTypedError as error:
        return str(error)


def _type_of_output(graph: Graph, match: Match, output: Value) -> ValueType:
    if match.window is None:
        return graph.type_of(output)
    root = graph.nodes[output.node]
    operands = root.inputs[slice(*match.window)]
    return root.operator.infer(*(graph.type_of(value) for value in operands))[0]


def _would_be_cyclic(graph: Graph, match: Match) -> bool:
    """Whether an operand of the target depends on an output of the source."""
    outputs = {value.node for value in match.outputs}
    position = graph.position
    earliest = min(position[node] for node in outputs)
    stack = [value.node for name in match.substitution.target_variables for value in _parts(match, name)]
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
    """Adds the target's operators to an edit of the graph, and reuses existing nodes."""

    def __init__(self, graph: Graph, match: Match, typing: Typing) -> None:
        self.editor = graph.edit()
        self.added: list[NodeId] = []
        self.reused: set[NodeId] = set()
        self._graph = graph
        self._match = match
        self._typing = typing
        self._values: dict[Term, Value] = {}
        outputs = set(match.outputs)
        for term in match.substitution.source_applications:
            value = match.terms.get(term)
            if value is not None and value not in outputs:
                self._values[term] = value

    def results(self) -> list[Value]:
        """The values that replace the match's outputs."""
        target = self._match.substitution.target
        if self._match.window is None:
            return [self._value(term) for term in target]
        (output,) = self._match.outputs
        root = self._graph.nodes[output.node]
        axis = cast("Joining", root.operator).axis
        start, stop = self._match.window
        middle = self._operands(target[0], axis)
        return [self._add(root.operator, (*root.inputs[:start], *middle, *root.inputs[stop:]), 0)]

    def _value(self, term: Term) -> Value:
        """The value of a target term; adds its operators where needed."""
        found = self._values.get(term)
        if found is None:
            found = self._binding(term) if isinstance(term, Variable) else self._application(term)
            self._values[term] = found
        elif isinstance(term, Application):
            self.reused.add(found.node)
        return found

    def _binding(self, term: Variable) -> Value:
        binding = self._match.values[term.name]
        if isinstance(binding, Bundle):
            return self._add(joined_along(binding.axis), binding.values, 0)
        return binding

    def _application(self, term: Application) -> Value:
        operator = self._typing.operators[term]
        if isinstance(operator, Joining):
            return self._add(operator, self._operands(term, operator.axis), 0)
        inputs = tuple(self._value(child) for child in term.inputs)
        if isinstance(operator, Half):
            whole = self._typing.types[term.inputs[0]]
            cut = operator.cut(whole.shape[operator.axis % whole.rank])
            return self._add(cut, inputs, operator.port)
        return self._add(operator, inputs, 0)

    def _operands(self, term: Term, axis: int) -> tuple[Value, ...]:
        """The operands of a concat that contains the term; nested concats that are yet to be built are
        flattened."""
        rank = self._typing.types[term].rank
        if isinstance(term, Variable):
            binding = self._match.values[term.name]
            if isinstance(binding, Bundle) and binding.axis % rank == axis % rank:
                return binding.values
        elif term not in self._values:
            operator = self._typing.operators[term]
            if isinstance(operator, Joining) and operator.axis % rank == axis % rank:
                return tuple(value for child in term.inputs for value in self._operands(child, axis))
        return (self._value(term),)

    def _add(self, operator: GraphOperator, inputs: tuple[Value, ...], port: int) -> Value:
        same = self._existing(operator, inputs)
        if same is None:
            same = self.editor.add(operator, inputs).id
            self.added.append(same)
        elif same not in self.added:
            self.reused.add(same)
        return Value(same, port)

    def _existing(self, operator: GraphOperator, inputs: tuple[Value, ...]) -> NodeId | None:
        if inputs:
            old = self._graph.users(inputs[0].node) if inputs[0].node in self._graph.nodes else ()
        else:
            old = self._graph.with_operator(operator.name)
        for node_id in (*self.added, *old):
            node = self.editor[node_id]
            if node.inputs == inputs and node.operator == operator and not node.after:
                return node_id
        return None


def _remove_unused(
    graph: Graph, editor: GraphEditor, roots: Iterable[NodeId], readers: Iterable[NodeId]
) -> list[NodeId]:
    """Removes replaced nodes, and nodes that only they used, except inputs and opaque nodes. ``readers`` are
    the nodes whose inputs the edit has changed or set."""
    returned = {value.node for value in editor.outputs}
    read = {value.node for reader in readers if reader in editor for value in editor[reader].inputs}
    removed: list[NodeId] = []
    stack = list(roots)
    while stack:
        node_id = stack.pop()
        if node_id not in editor or node_id in returned or node_id in graph.awaited:
            continue
        node = editor[node_id]
        if isinstance(node.operator, Input) or not getattr(node.operator, "foldable", True):
            continue
        if node_id in read or any(_reads(editor, user, node_id) for user in graph.users(node_id)):
            continue
        editor.remove((node_id,))
        removed.append(node_id)
        stack.extend(value.node for value in node.inputs)
    return removed


def _reads(editor: GraphEditor, user: NodeId, node: NodeId) -> bool:
    return user in editor and any(value.node == node for value in editor[user].inputs)
