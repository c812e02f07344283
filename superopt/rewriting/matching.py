"""Finding where a substitution's source occurs in a graph.

Operands of commutative operators match in both orders. A concat of many tensors matches the binary concat of
a rule at every cut; the halves of a rule match the first and the last output of a split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias, cast

from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Graph, NodeId, Value
from superopt.ir.terms import Application, AttributeVariable, Term, Variable
from superopt.ir.types import TensorType
from superopt.ops.base import OPERATORS, Operator, attribute_defaults, attributes_of, normalise_attribute
from superopt.ops.matrix import Transpose
from superopt.ops.shape import Concat, Split
from superopt.rewriting.substitution import Substitution


@dataclass(frozen=True, slots=True)
class Bundle:
    """A concat of some neighbouring operands of a larger concat; it exists only if a rewrite needs it."""

    axis: int
    values: tuple[Value, ...]


Binding: TypeAlias = "Value | Bundle"


@dataclass(frozen=True)
class Match:
    """A place where the source occurs: what its variables, attribute variables and cuts stand for."""

    substitution: Substitution
    values: Mapping[str, Binding]
    attributes: Mapping[str, object]
    terms: Mapping[Term, Value]
    cuts: Mapping[tuple[Term, int], Dimension]

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that the source's terms matched."""
        return tuple(self.terms[root] for root in self.substitution.source)

    @property
    def sites(self) -> tuple[NodeId, ...]:
        """The matched nodes, roots first."""
        roots = [value.node for value in self.outputs]
        return tuple(dict.fromkeys((*roots, *sorted(value.node for value in self.terms.values()))))


def find_matches(
    graph: Graph, substitution: Substitution, roots: Iterable[NodeId] | None = None
) -> Iterator[Match]:
    """All matches, in the order of node ids; with ``roots``, those whose first root is one of these nodes."""
    first, *others = substitution.roots
    candidates = graph.nodes if roots is None else sorted(set(roots))
    names = _graph_names(first.operator)
    for node_id in candidates:
        node = graph.nodes.get(node_id)
        if node is None or node.operator.name not in names:
            continue
        for value in node.values:
            for state in _match(graph, first, value, _State({}, {}, {}, {})):
                yield from _match_others(graph, substitution, others, state, (value,))


@dataclass(frozen=True, slots=True)
class _State:
    values: Mapping[str, Binding]
    attributes: Mapping[str, object]
    terms: Mapping[Term, Value]
    cuts: Mapping[tuple[Term, int], Dimension]


def _match_others(
    graph: Graph,
    substitution: Substitution,
    others: list[Application],
    state: _State,
    found: tuple[Value, ...],
) -> Iterator[Match]:
    if not others:
        yield Match(substitution, state.values, state.attributes, state.terms, state.cuts)
        return
    root, *rest = others
    for node_id in _candidates(graph, root, state):
        for value in graph.nodes[node_id].values:
            if value in found or (substitution.has_symmetric_roots and value < found[-1]):
                continue
            for extended in _match(graph, root, value, state):
                yield from _match_others(graph, substitution, rest, extended, (*found, value))


def _candidates(graph: Graph, root: Application, state: _State) -> list[NodeId]:
    """Nodes that could match the root: reached upwards from something that is bound, else all of its kind."""
    names = _graph_names(root.operator)
    anchor = _nearest_bound(root, state)
    if anchor is None:
        return [node.id for node in graph if node.operator.name in names]
    value, distance = anchor
    frontier = {value.node}
    for _ in range(distance):
        frontier = {user for node in frontier for user in graph.users(node)}
    return sorted(node for node in frontier if graph.nodes[node].operator.name in names)


def _nearest_bound(root: Application, state: _State) -> tuple[Value, int] | None:
    """A bound value below the root and how many operators up the root is from it."""
    level: list[Term] = [root]
    distance = 0
    while level:
        for term in level:
            bound = state.values.get(term.name) if isinstance(term, Variable) else state.terms.get(term)
            if isinstance(bound, Value):
                return bound, distance
        level = [child for term in level if isinstance(term, Application) for child in term.inputs]
        distance += 1
    return None


def _match(graph: Graph, term: Term, binding: Binding, state: _State) -> Iterator[_State]:
    if isinstance(term, Variable):
        bound = state.values.get(term.name)
        if bound is None:
            yield replace(state, values={**state.values, term.name: binding})
        elif bound == binding:
            yield state
        return
    if isinstance(binding, Bundle):
        yield from _match_bundle(graph, term, binding, state)
        return
    known = state.terms.get(term)
    if known is not None:
        if known == binding:
            yield state
        return
    node = graph.nodes[binding.node]
    if node.operator.name not in _graph_names(term.operator):
        return
    operator = node.operator
    matched: _State | None = replace(state, terms={**state.terms, term: binding})
    if isinstance(operator, Split):
        matched = _match_half(graph, term, binding, operator, matched)
        operands = [node.inputs]
    elif isinstance(operator, Operator):
        matched = _match_attributes(graph, term, operator, node.inputs, matched)
        operands = _operand_choices(term, operator, node.inputs)
    else:
        return
    if matched is None:
        return
    for choice in operands:
        if len(choice) == len(term.inputs):
            yield from _match_all(graph, term.inputs, choice, matched)


def _match_all(
    graph: Graph, terms: tuple[Term, ...], bindings: tuple[Binding, ...], state: _State
) -> Iterator[_State]:
    if not terms:
        yield state
        return
    for extended in _match(graph, terms[0], bindings[0], state):
        yield from _match_all(graph, terms[1:], bindings[1:], extended)


def _match_bundle(graph: Graph, term: Application, bundle: Bundle, state: _State) -> Iterator[_State]:
    """A nested binary concat of a rule against a part of a larger concat."""
    if term.operator != "concat":
        return
    matched = _bind_axis(graph, term, bundle.axis, bundle.values[0], state)
    if matched is None:
        return
    for operands in _cuts(bundle.axis, bundle.values):
        yield from _match_all(graph, term.inputs, operands, matched)


def _operand_choices(
    term: Application, operator: Operator, inputs: tuple[Value, ...]
) -> list[tuple[Binding, ...]]:
    if isinstance(operator, Concat) and len(inputs) > len(term.inputs) == 2:
        return _cuts(operator.axis, inputs)
    if operator.commutative and len(inputs) == 2 and inputs[0] != inputs[1]:
        return [inputs, (inputs[1], inputs[0])]
    return [inputs]


def _cuts(axis: int, values: tuple[Value, ...]) -> list[tuple[Binding, ...]]:
    def part(some: tuple[Value, ...]) -> Binding:
        return some[0] if len(some) == 1 else Bundle(axis, some)

    return [(part(values[:cut]), part(values[cut:])) for cut in range(1, len(values))]


def _match_half(graph: Graph, term: Application, value: Value, split: Split, state: _State) -> _State | None:
    is_first = term.operator == "split0"
    if value.port != (0 if is_first else len(split.sizes) - 1) or len(split.sizes) < 2:
        return None
    whole = graph.nodes[value.node].inputs[0]
    matched = _bind_axis(graph, term, split.axis, whole, state)
    if matched is None:
        return None
    cut: Dimension = split.sizes[0]
    if not is_first:
        for size in split.sizes[1:-1]:
            cut = cut + size
    rank = cast("TensorType", graph.type_of(whole)).rank
    key = (term.inputs[0], split.axis % rank)
    if matched.cuts.get(key, cut) != cut:
        return None
    return replace(matched, cuts={**matched.cuts, key: cut})


def _bind_axis(graph: Graph, term: Application, axis: int, operand: Value, state: _State) -> _State | None:
    type_ = graph.type_of(operand)
    if not isinstance(type_, TensorType):
        return None
    return _bind(state, "axis", term.attribute("axis"), axis, type_.rank)


def _match_attributes(
    graph: Graph, term: Application, operator: Operator, inputs: tuple[Value, ...], state: _State
) -> _State | None:
    rank = -1
    if inputs:
        type_ = graph.type_of(inputs[0])
        rank = type_.rank if isinstance(type_, TensorType) else -1
    values = attributes_of(operator)
    wanted = dict(term.attributes)
    matched: _State | None = state
    for name, value in values.items():
        pattern = wanted.get(name)
        if pattern is None:
            if name in operator.implicit:
                continue
            pattern = cast("str | int", _defaults(term.operator)[name])
        if isinstance(operator, Transpose):
            value = operator.permutation(rank)  # noqa: PLW2901
            pattern = (
                pattern
                if isinstance(pattern, AttributeVariable)
                else Transpose(cast("tuple[int, ...]", pattern)).permutation(rank)
                if len(cast("tuple[int, ...]", pattern)) in (0, rank)
                else pattern
            )
        matched = _bind(matched, name, pattern, value, rank)
        if matched is None:
            return None
    return matched


def _bind(state: _State, name: str, pattern: object, value: object, rank: int) -> _State | None:
    if isinstance(pattern, AttributeVariable):
        bound = state.attributes.get(pattern.name)
        if bound is None:
            return replace(state, attributes={**state.attributes, pattern.name: value})
        return state if _equal(name, bound, value, rank) else None
    return state if _equal(name, pattern, value, rank) else None


def _equal(name: str, left: object, right: object, rank: int) -> bool:
    if name == "axis" and isinstance(left, int) and isinstance(right, int) and rank > 0:
        return -rank <= left < rank and left % rank == right % rank
    return left == right or normalise_attribute(name, left) == normalise_attribute(name, right)


@lru_cache(maxsize=256)
def _defaults(operator: str) -> dict[str, object]:
    return attribute_defaults(operator)


def _graph_names(operator: str) -> tuple[str, ...]:
    """Names of graph operators that a rule's operator can match."""
    return ("split",) if OPERATORS[operator].name in ("split0", "split1") else (operator,)
