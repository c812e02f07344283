"""Instantiate symbolic typings with numbers; every operator checks the concrete typing again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension, SymbolicDimension, symbols_of
from superopt.ir.terms import Application, Term, Variable
from superopt.ir.types import TensorType
from superopt.ops.attributes import substituted
from superopt.ops.base import Operator, attributes_of, operator_from_attributes
from superopt.rewriting.typing import Typing


def with_numbers(
    typing: Typing,
    ordered: Sequence[Application],
    types: Mapping[str, TensorType],
    numbers: Mapping[str, Dimension],
) -> Typing:
    """The typing with numbers for symbols, inferred again for every operator; raises IllTypedError.
    ``ordered`` lists the applications in topological order. Symbols missing in ``numbers`` are kept."""
    found: dict[Term, TensorType] = {
        Variable(name): type_.substitute(numbers) for name, type_ in types.items()
    }
    operators: dict[Application, Operator] = {}
    for term in ordered:
        operator = sized_operator(typing.operators[term], numbers)
        (found[term],) = operator.infer(*(found[child] for child in term.inputs))
        operators[term] = operator
    return Typing(found, operators, {})


def sized_operator(operator: Operator, numbers: Mapping[str, Dimension]) -> Operator:
    """The operator with numbers for symbols in its attributes; symbols without a number are kept."""
    if not operator_symbols(operator):
        return operator
    values = {name: substituted(value, numbers) for name, value in attributes_of(operator).items()}
    return operator_from_attributes(operator.name, values)


def operator_symbols(operator: Operator) -> frozenset[str]:
    """All symbols in the attributes of an operator."""
    return frozenset[str]().union(*(_symbols(value) for value in attributes_of(operator).values()))


def _symbols(value: object) -> frozenset[str]:
    if isinstance(value, tuple):
        return frozenset[str]().union(*(_symbols(part) for part in cast("tuple[object, ...]", value)))
    return symbols_of(value) if isinstance(value, SymbolicDimension) else frozenset()


def require_sizes(type_: TensorType) -> None:
    """Raises IllTypedError unless every size is a positive number."""
    if not type_.is_sized:
        raise IllTypedError(f"expected positive sizes, got {type_}")
