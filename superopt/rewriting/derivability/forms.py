"""Normal forms of graphs, to compare the sides of rules up to equivalent notation.

These have one normal form: any order of commutative operands, nested concats, nested slices, positive and
negative axes, named and explicit padding.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import cast

from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Graph, Input, Node, NodeId, Value
from superopt.ir.terms import Application, Term, Variable, subterms
from superopt.ir.types import TensorType
from superopt.ops.base import Operator, attributes_of
from superopt.ops.images.windows import Padding
from superopt.ops.shape import Cutting, Half, Joining
from superopt.rewriting.typing import Typing

Form = tuple[int, ...]
"""One number per output, given by ``Forms``; equal numbers mean equal computations."""


def graph_of(terms: Sequence[Term], typing: Typing, types: Mapping[str, TensorType]) -> Graph:
    """The graph that computes the terms from inputs of these types; equal terms are one node.

    Nested concats along one axis become one concat, so that rules can group the parts in any way. Raises
    IllTypedError if an operator does not accept its inputs.
    """
    editor = Graph.empty().edit()
    values: dict[Term, Value] = {
        Variable(name): editor.add(Input(name, type_)).value for name, type_ in types.items()
    }
    splits: dict[tuple[Value, Cutting], NodeId] = {}
    inner = _inner_concats(terms, typing)
    for term in subterms(*terms):
        if not isinstance(term, Application) or term in inner:
            continue
        operator = typing.operators[term]
        inputs = [values[child] for child in _joined(term, inner)]
        if isinstance(operator, Half):
            whole = typing.types[term.inputs[0]]
            split = operator.cut(whole.shape[operator.axis % whole.rank])
            key = (inputs[0], split)
            if key not in splits:
                splits[key] = editor.add(split, inputs).id
            values[term] = Value(splits[key], operator.port)
        else:
            values[term] = editor.add(operator, inputs).value
    editor.set_outputs(values[term] for term in terms)
    return editor.build()


def _inner_concats(terms: Sequence[Term], typing: Typing) -> frozenset[Term]:
    """The concats used only by concats along the same axis."""
    axes: dict[Term, int] = {
        term: operator.axis % typing.types[term].rank
        for term, operator in typing.operators.items()
        if isinstance(operator, Joining)
    }
    users = [term for term in subterms(*terms) if isinstance(term, Application)]
    otherwise = {child for term in users for child in term.inputs if axes.get(term) != axes.get(child)}
    return frozenset(term for term in axes if term not in terms and term not in otherwise)


def _joined(term: Term, inner: frozenset[Term]) -> Iterator[Term]:
    """The inputs of a term, with inner concats replaced by their inputs."""
    for child in term.inputs if isinstance(term, Application) else ():
        if child in inner:
            yield from _joined(child, inner)
        else:
            yield child


class Forms:
    """Numbering of computations, shared by all graphs over inputs of the same names."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._parts: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._pieces: dict[int, tuple[int, int, Dimension]] = {}
        self._fresh = itertools.count()

    def of(self, graph: Graph) -> Form:
        """The form of a graph."""
        known: dict[Value, int] = {}
        for node_id in graph.order:
            node = graph[node_id]
            inputs = [known[value] for value in node.inputs]
            types = [cast("TensorType", graph.type_of(value)) for value in node.inputs]
            for value, number in zip(node.values, self._outputs(node, inputs, types), strict=True):
                known[value] = number
        return tuple(known[value] for value in graph.outputs)

    def _outputs(self, node: Node, inputs: list[int], types: list[TensorType]) -> Iterator[int]:
        operator = node.operator
        if isinstance(operator, Input):
            yield self._number((operator.label,))
        elif isinstance(operator, Joining):
            yield self._concat(operator.axis % types[0].rank, inputs)
        elif isinstance(operator, Cutting):
            yield from self._split(operator, inputs[0], types[0])
        else:
            named = cast("Operator", operator)
            operands = tuple(sorted(inputs) if named.commutative else inputs)
            yield self._number((named.name, *_attributes(named, types), operands))

    def _concat(self, axis: int, inputs: Sequence[int]) -> int:
        own = ((number,) for number in inputs)
        parts = [self._parts[n[0]][1] if self._parts.get(n[0], (-1,))[0] == axis else n for n in own]
        joined = tuple(itertools.chain.from_iterable(parts))
        number = self._number(("joined", axis, joined))
        self._parts[number] = (axis, joined)
        return number

    def _split(self, operator: Cutting, whole: int, type_: TensorType) -> Iterator[int]:
        axis = operator.axis % type_.rank
        base = whole
        start: Dimension = 0
        outer = self._pieces.get(whole)
        if outer is not None and outer[0] == axis:
            _, base, start = outer
        for size in operator.sizes:
            number = self._number(("piece", axis, base, start, size))
            self._pieces.setdefault(number, (axis, base, start))
            yield number
            start = start + size

    def _number(self, key: Hashable) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = next(self._fresh)
        return number


def _attributes(operator: Operator, types: Sequence[TensorType]) -> Iterator[Hashable]:
    for name, value in attributes_of(operator).items():
        if name == "axis" and isinstance(value, int) and types:
            yield value % types[0].rank if types[0].rank else value
        elif name == "perm":
            yield operator.permutation(types[0].rank)
        elif name == "padding":
            yield _padding(operator, types)
        else:
            yield cast("Hashable", value)


def _padding(operator: Operator, types: Sequence[TensorType]) -> Padding:
    """The explicit margins if they are the same for all sizes, else the named padding."""
    window = operator.window(*types)
    if window is None:
        return cast("Padding", attributes_of(operator)["padding"])
    spellings = window.spellings()
    return next((spelling for spelling in spellings if isinstance(spelling, tuple)), spellings[0])
