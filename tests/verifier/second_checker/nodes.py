"""Complete terms: every operator with all of its attributes, so that equal nodes have equal values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.types import TensorType
from superopt.ops import Operator, attributes_of
from superopt.ops.attributes import substituted


@dataclass(frozen=True)
class Leaf:
    """A variable of the rule."""

    name: str


@dataclass(frozen=True)
class Node:
    """An operator applied to complete terms."""

    operator: Operator
    inputs: tuple[Complete, ...]


Complete: TypeAlias = "Leaf | Node"
Types: TypeAlias = "Mapping[str, TensorType]"


@lru_cache(maxsize=65536)
def inferred(operator: Operator, types: tuple[TensorType, ...]) -> TensorType:
    """The type of the only output; raises IllTypedError."""
    outputs = operator.infer(*types)
    if len(outputs) != 1:
        raise IllTypedError(f"{operator.name}: expected one output, got {len(outputs)}")
    return outputs[0]


def type_of(term: Complete, types: Types) -> TensorType:
    """The type of a complete term; raises IllTypedError."""
    if isinstance(term, Leaf):
        return types[term.name]
    return inferred(term.operator, tuple(type_of(child, types) for child in term.inputs))


def nodes_of(term: Complete) -> Iterator[Complete]:
    """Every node, inputs first; equal ones as often as they occur."""
    if isinstance(term, Node):
        for child in term.inputs:
            yield from nodes_of(child)
    yield term


def at(term: Complete, path: tuple[int, ...]) -> Complete:
    """The part of a term at a place."""
    for index in path:
        if not isinstance(term, Node) or index >= len(term.inputs):
            raise IllTypedError("no such place")
        term = term.inputs[index]
    return term


def put(term: Complete, path: tuple[int, ...], part: Complete) -> Complete:
    """The term with another part at a place."""
    if not path:
        return part
    if not isinstance(term, Node):
        raise IllTypedError("no such place")
    first, *rest = path
    inputs = list(term.inputs)
    inputs[first] = put(inputs[first], tuple(rest), part)
    return Node(term.operator, tuple(inputs))


def with_sizes(term: Complete, assignment: Mapping[str, Dimension]) -> Complete:
    """The term with sizes for symbols in attributes."""
    if isinstance(term, Leaf) or not assignment:
        return term
    inputs = tuple(with_sizes(child, assignment) for child in term.inputs)
    return Node(operator_with_sizes(term.operator, assignment), inputs)


def operator_with_sizes(operator: Operator, assignment: Mapping[str, Dimension]) -> Operator:
    """The operator with sizes for symbols in attributes."""
    changed = {
        name: new
        for name, old in attributes_of(operator).items()
        if (new := substituted(old, assignment)) != old
    }
    if not changed:
        return operator
    return cast("Operator", dataclasses.replace(operator, **changed))  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType, reportUnknownArgumentType, reportUnknownVariableType, reportCallIssue]


__all__ = [
    "Complete",
    "Leaf",
    "Node",
    "Types",
    "at",
    "inferred",
    "nodes_of",
    "operator_with_sizes",
    "put",
    "type_of",
    "with_sizes",
]
