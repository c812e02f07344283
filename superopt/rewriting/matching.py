"""Find matches of a substitution's source in a graph.

Operands of commutative operators match in both orders. A concat of many tensors matches the binary concat of
a rule at every cut, and as a window of adjacent operands; the halves of a rule match the first and the last
output of a split. Equivalent padding attributes match. Constants of a rule match every tensor known to repeat
their value, and weights of one element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, cast

import numpy as np

from superopt.ir.dimensions import Dimension, sum_of
from superopt.ir.graph import Graph, GraphEditor, NodeId, Value, Weight
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, AttributeTerm, Term, Variable
from superopt.ir.types import TensorType
from superopt.ops.base import Operator, attributes_of
from superopt.ops.filled import Filled
from superopt.ops.images.windows import Padding
from superopt.ops.shape import Cutting, Joining
from superopt.ops.traits import graph_name, traits
from superopt.rewriting.binding import (
    NOTHING,
    Binding,
    Bundle,
    State,
    as_permutation,
    bind,
    is_free,
    patterns,
)
from superopt.rewriting.substitution import Substitution


class Window(NamedTuple):
    """Adjacent operands, ``start`` to ``stop``, of a longer concat."""

    start: int
    stop: int


@dataclass(frozen=True)
class Match:
    """An occurrence of the source: bindings of its variables, attribute variables and cuts. ``window`` gives
    the operands of the root, a concat, that the source covers; None for the whole root."""

    substitution: Substitution
    values: Mapping[str, Binding]
    attributes: Mapping[str, object]
    terms: Mapping[Term, Value]
    cuts: Mapping[tuple[Term, int], Dimension]
    window: Window | None = None

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values matched by the source's terms."""
        return tuple(self.terms[root] for root in self.substitution.source)

    @property
    def sites(self) -> tuple[NodeId, ...]:
        """The matched nodes, roots first."""
        roots = [value.node for value in self.outputs]
        return tuple(dict.fromkeys((*roots, *sorted(value.node for value in self.terms.values()))))


def find_matches(
    graph: Graph,
    substitution: Substitution,
    roots: Iterable[NodeId] | None = None,
    *,
    through_numbers: bool = True,
) -> Iterator[Match]:
    """All matches, in the order of node ids; with ``roots``, only those whose first root is one of these
    nodes. Without ``through_numbers``, not those of several roots that only a number connects: any two
    operators that read the same number are one, of which a training step has thousands."""
    found = _all_matches(_Finder(graph, substitution, through_numbers=through_numbers), roots)
    return _first_spellings(found) if substitution.compares_paddings else found


def _all_matches(finder: _Finder, roots: Iterable[NodeId] | None) -> Iterator[Match]:
    graph, substitution = finder.graph, finder.substitution
    first = substitution.roots[0]
    name = graph_name(first.operator)
    for node_id in graph.with_operator(name) if roots is None else sorted(set(roots)):
        node = graph.nodes.get(node_id)
        if node is None or node.operator.name != name:
            continue
        for value in node.values:
            for state in finder.match(first, value, NOTHING):
                yield from finder.match_others(1, state, (value,))
        if traits(first.operator).joins and len(substitution.source) == 1:
            yield from finder.match_windows(first, node.value)


def _first_spellings(matches: Iterable[Match]) -> Iterator[Match]:
    """Removes matches that differ only in equivalent paddings."""
    seen: set[tuple[object, ...]] = set()
    for match in matches:
        key = (*match.values.values(), *match.terms.values(), match.window)
        if key not in seen:
            seen.add(key)
            yield match


class _Finder:
    """Matches of one substitution in one graph."""

    def __init__(self, graph: Graph, substitution: Substitution, *, through_numbers: bool) -> None:
        self.graph = graph
        self.substitution = substitution
        self._nodes = graph.nodes
        self._through_numbers = through_numbers

    def match_others(self, index: int, state: State, found: tuple[Value, ...]) -> Iterator[Match]:
        """Extends a match of the first root to all roots."""
        roots = self.substitution.roots
        if index == len(roots):
            if self._halves_fit(state):
                yield Match(self.substitution, *state)
            return
        root = roots[index]
        for node_id in self._candidates(root, state):
            for value in self._nodes[node_id].values:
                if value in found or (self.substitution.has_symmetric_roots and value < found[-1]):
                    continue
                for extended in self.match(root, value, state):
                    yield from self.match_others(index + 1, extended, (*found, value))

    def match_windows(self, root: Application, value: Value) -> Iterator[Match]:
        """Adjacent operands of a longer concat, one for every operand of the rule's concat."""
        node = self._nodes[value.node]
        length = _leaves(root)
        if not isinstance(node.operator, Joining) or len(root.inputs) != 2 or length >= len(node.inputs):
            return
        seen: set[tuple[Value, ...]] = set()
        for start in range(len(node.inputs) - length + 1):
            operands = node.inputs[start : start + length]
            if operands in seen:
                continue
            seen.add(operands)
            for state in self._match_bundle(root, Bundle(node.operator.axis, operands), NOTHING):
                if self._halves_fit(state):
                    found = state.with_term(root, value)
                    yield Match(self.substitution, *found, Window(start, start + length))

    def match(self, term: Term, binding: Binding, state: State) -> Iterator[State]:
        """All extensions of the state in which the term matches the value."""
        if isinstance(term, Variable):
            bound = state.values.get(term.name)
            if bound is None:
                yield state.with_value(term.name, binding)
            elif bound == binding:
                yield state
            return
        if isinstance(binding, Bundle):
            yield from self._match_bundle(term, binding, state)
            return
        known = state.terms.get(term)
        if known is not None:
            if known == binding:
                yield state
            return
        if traits(term.operator).fills:
            numbered = self._match_number(term, binding, state)
            if numbered is not None:
                yield numbered
            return
        node = self._nodes[binding.node]
        operator = node.operator
        if operator.name != graph_name(term.operator) or not isinstance(operator, Operator) or node.after:
            return
        state = state.with_term(term, binding)
        if isinstance(operator, Cutting):
            halved = self._match_half(term, binding, operator, state)
            states = [] if halved is None else [halved]
            choices: list[tuple[Binding, ...]] = [node.inputs]
        else:
            states = self._match_attributes(term, operator, node.inputs, state)
            choices = _operand_choices(term, operator, node.inputs)
        for matched in states:
            for operands in choices:
                if len(operands) == len(term.inputs):
                    yield from self._match_all(term.inputs, operands, matched)

    def _match_all(
        self, terms: tuple[Term, ...], bindings: tuple[Binding, ...], state: State
    ) -> Iterable[State]:
        """All extensions of the state in which all terms match their values."""
        states = [state]
        for term, binding in zip(terms, bindings, strict=True):
            if isinstance(term, Variable):
                states = [known for known in states if is_free(term.name, binding, known)]
                states = [known.with_value(term.name, binding) for known in states]
            else:
                states = [found for known in states for found in self.match(term, binding, known)]
            if not states:
                break
        return states

    def _match_bundle(self, term: Application, bundle: Bundle, state: State) -> Iterator[State]:
        """Matches a binary concat of a rule with a part of a larger concat."""
        if not traits(term.operator).joins or len(term.inputs) != 2:
            return
        matched = self._bind_axis(term, bundle.axis, bundle.values[0], state)
        if matched is None:
            return
        for operands in _cuts(bundle.axis, bundle.values):
            yield from self._match_all(term.inputs, operands, matched)

    def _match_number(self, term: Application, value: Value, state: State) -> State | None:
        """Matches a constant of a rule with a tensor known to repeat that number, as float32."""
        number, type_ = repeated_number(self.graph, value), self.graph.type_of(value)
        if number is None or not isinstance(type_, TensorType):
            return None
        shape = term.attribute("shape")
        if shape is not None:
            bound = bind(state, "shape", shape, type_.shape, -1)
            if bound is None:
                return None
            state = bound
        wanted = Filled.number_in(term)
        if isinstance(wanted, int | Fraction) and np.float32(float(wanted)) == np.float32(float(number)):
            return state.with_term(term, value)
        numbered = bind(state, "value", wanted, number, -1)
        return None if numbered is None else numbered.with_term(term, value)

    def _match_half(self, term: Application, value: Value, split: Cutting, state: State) -> State | None:
        is_first = traits(term.operator).half == 0
        if value.port != (0 if is_first else len(split.sizes) - 1) or len(split.sizes) < 2:
            return None
        whole = self._nodes[value.node].inputs[0]
        matched = self._bind_axis(term, split.axis, whole, state)
        if matched is None:
            return None
        cut = split.sizes[0] if is_first else sum_of(split.sizes[:-1])
        size = term.attribute("size")
        if size is not None:
            matched = bind(matched, "size", size, cut, -1)
        if matched is None:
            return None
        key = (term.inputs[0], split.axis % self._rank(whole))
        if matched.cuts.get(key, cut) != cut:
            return None
        return matched.with_cut(key, cut)

    def _halves_fit(self, state: State) -> bool:
        """Whether halves of a concat along its own axis are cut between its operands."""
        for half in self.substitution.halved_concats:
            concat = cast("Application", half.inputs[0])
            value = state.terms[concat]
            axis = cast("Joining", self._nodes[value.node].operator).axis % self._rank(value)
            cut = state.cuts.get((concat, axis))
            if cut is not None and self._size(concat.inputs[0], axis, state) != cut:
                return False
        return True

    def _size(self, term: Term, axis: int, state: State) -> Dimension:
        """The size of an operand of a concat along the concat's axis."""
        known = state.values[term.name] if isinstance(term, Variable) else state.terms.get(term)
        if known is None:
            return sum_of(self._size(child, axis, state) for child in cast("Application", term).inputs)
        values = known.values if isinstance(known, Bundle) else (known,)
        return sum_of(cast("TensorType", self.graph.type_of(value)).shape[axis] for value in values)

    def _bind_axis(self, term: Application, axis: int, operand: Value, state: State) -> State | None:
        return bind(state, "axis", term.attribute("axis"), axis, self._rank(operand))

    def _match_attributes(
        self, term: Application, operator: Operator, inputs: tuple[Value, ...], state: State
    ) -> list[State]:
        states = [state]
        for name, pattern in patterns(term):
            values: tuple[object, ...] = (getattr(operator, name),)
            rank = self._rank(inputs[0]) if inputs and name in ("axis", "perm") else -1
            if name == "padding":
                values = self._spellings(pattern, operator, inputs, state)
            elif name == "perm":
                values = (operator.permutation(rank),)
                pattern = as_permutation(pattern, rank)  # noqa: PLW2901
            bound = [bind(known, name, pattern, value, rank) for known in states for value in values]
            states = [known for known in bound if known is not None]
            if not states:
                break
        return states

    def _spellings(
        self, pattern: AttributeTerm, operator: Operator, inputs: tuple[Value, ...], state: State
    ) -> tuple[Padding, ...]:
        """Equivalent paddings of the node; only the original one if the rule compares paddings, or if the
        node has no windows."""
        own = operator.window(*(cast("TensorType", self.graph.type_of(value)) for value in inputs))
        if own is None:
            return (cast("Padding", attributes_of(operator)["padding"]),)
        is_unbound = isinstance(pattern, AttributeVariable) and pattern.name not in state.attributes
        if isinstance(pattern, AttributeVariable) and is_unbound:
            if pattern.name not in self.substitution.repeated_attributes:
                return (own.padding,)
        elif pattern == own.padding:
            return (own.padding,)
        spellings = own.spellings()
        if not is_unbound or "same" not in spellings:
            return spellings
        return tuple(s for s in spellings if s == own.padding or s not in ("same_upper", "same_lower"))

    def _is_number(self, value: Value) -> bool:
        return self._rank(value) == 0 or repeated_number(self.graph, value) is not None

    def _rank(self, value: Value) -> int:
        type_ = self.graph.type_of(value)
        return type_.rank if isinstance(type_, TensorType) else -1

    def _candidates(self, root: Application, state: State) -> Iterable[NodeId]:
        """Candidate nodes for the root: reached upwards from a bound value, else all with that operator."""
        name = graph_name(root.operator)
        anchors = list(_bound_below(root, state))
        if not anchors:
            return self.graph.with_operator(name)
        if not self._through_numbers:
            anchors = [anchor for anchor in anchors if not self._is_number(anchor[0])]
        if not anchors:
            return ()
        value, distance = anchors[0]
        frontier = {value.node}
        for _ in range(distance):
            frontier = {user for node in frontier for user in self.graph.users(node)}
        return sorted(node for node in frontier if self._nodes[node].operator.name == name)


def repeated_number(graph: Graph | GraphEditor, value: Value) -> Fraction | int | None:
    """The number that a tensor is known to repeat, without reading its content."""
    operator = graph[value.node].operator
    while isinstance(operator, Operator) and (operator.renames or operator.repeats):
        value = graph[value.node].inputs[0]
        operator = graph[value.node].operator
    match operator:
        case Filled() | Weight():
            return operator.number
        case _:
            return None


def _bound_below(root: Application, state: State) -> Iterator[tuple[Value, int]]:
    """The bound values below the root, the nearest first, with the number of operators up to the root."""
    level: list[Term] = [root]
    distance = 0
    while level:
        for term in level:
            bound = state.values.get(term.name) if isinstance(term, Variable) else state.terms.get(term)
            if isinstance(bound, Value):
                yield bound, distance
        level = [child for term in level if isinstance(term, Application) for child in term.inputs]
        distance += 1


def _operand_choices(
    term: Application, operator: Operator, inputs: tuple[Value, ...]
) -> list[tuple[Binding, ...]]:
    if isinstance(operator, Joining) and len(inputs) > len(term.inputs) == 2:
        return _cuts(operator.axis, inputs)
    if operator.commutative and len(inputs) == 2 and inputs[0] != inputs[1]:
        return [inputs, (inputs[1], inputs[0])]
    return [inputs]


def _cuts(axis: int, values: tuple[Value, ...]) -> list[tuple[Binding, ...]]:
    def part(some: tuple[Value, ...]) -> Binding:
        return some[0] if len(some) == 1 else Bundle(axis, some)

    return [(part(values[:cut]), part(values[cut:])) for cut in range(1, len(values))]


def _leaves(term: Term) -> int:
    """The operands of a tree of concats."""
    if isinstance(term, Application) and traits(term.operator).joins:
        return sum(_leaves(child) for child in term.inputs)
    return 1
