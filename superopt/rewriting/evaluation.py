"""Evaluate terms and graphs over any number domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from superopt.domains import Domain
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, NodeId, Value
from superopt.ir.terms import Term, Variable, subterms
from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.opaque import Opaque
from superopt.rewriting.typing import Typing

A = TypeVar("A")


def evaluate_terms(
    terms: Sequence[Term], typing: Typing, domain: Domain[A], arrays: Mapping[str, A]
) -> tuple[A, ...]:
    """The values of the terms for stacked arrays of the variables; ``typing`` contains every resolved
    operator. Sizes in the typing must be numbers, not symbols."""
    values: dict[Term, A] = {}
    for term in subterms(*terms):
        if isinstance(term, Variable):
            values[term] = arrays[term.name]
        else:
            operator = typing.operators[term]
            types = tuple([typing.types[child] for child in term.inputs])
            (values[term],) = operator.evaluate_typed(types, domain, tuple([values[i] for i in term.inputs]))
    return tuple(values[term] for term in terms)


def evaluate_graph(graph: Graph, domain: Domain[A], arrays: Mapping[NodeId, A]) -> tuple[A, ...]:
    """The graph outputs for stacked arrays of its inputs and weights, by node. Raises UnsupportedError where
    a value depends on an opaque node or on an input or weight without an array."""
    values: dict[Value, A] = {Value(node): array for node, array in arrays.items()}
    for node_id in graph.order:
        node = graph[node_id]
        if node_id in arrays or not isinstance(node.operator, Operator) or isinstance(node.operator, Opaque):
            continue
        if all(value in values for value in node.inputs):
            types = tuple(cast("TensorType", graph.type_of(value)) for value in node.inputs)
            inputs = tuple(values[value] for value in node.inputs)
            results = node.operator.evaluate_typed(types, domain, inputs)
            values.update(zip(node.values, results, strict=True))
    missing = [value.node for value in graph.outputs if value not in values]
    if missing:
        raise UnsupportedError(f"the value of node {missing[0]} is not known")
    return tuple(values[value] for value in graph.outputs)
