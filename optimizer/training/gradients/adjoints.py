"""Instantiate adjoint statements of the axiom files at nodes of a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from superopt.equations.adjoints import Adjoint
from superopt.errors import IllTypedError, UnsupportedError
from superopt.instances.gradients import gradient_instance
from superopt.ir.graph import GraphEditor, GraphOperator, Node, Value
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, Term
from superopt.ir.types import ElementType, TensorType
from superopt.ops import Operator, attribute_defaults, attributes_of
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.elementwise.precision import Cast
from superopt.ops.filled import Full
from superopt.ops.shape import Half
from superopt.optimizer.training.gradients.simplification import Simplifier
from superopt.rewriting.typing import Typing


@dataclass(frozen=True, slots=True)
class _Site:
    """What decides how a statement is instantiated: the operator, the types of its operands, and the type of
    its result."""

    operator: Operator
    operands: tuple[TensorType, ...]
    result: TensorType


class AdjointTable:
    """Adjoint statements by operator and operand. ``used`` counts instances by the name of the statement."""

    def __init__(self, adjoints: Iterable[Adjoint]) -> None:
        self._by_operand: defaultdict[tuple[str, int], list[Adjoint]] = defaultdict(list)
        for adjoint in adjoints:
            self._by_operand[adjoint.operator, adjoint.input].append(adjoint)
        self.used: dict[str, int] = {}

    def find(self, site: _Site, slot: int) -> tuple[Adjoint, Typing]:
        """The first statement that is well-typed there. Raises UnsupportedError."""
        stated = self._by_operand.get((site.operator.name, slot), [])
        reasons: list[str] = []
        for adjoint in stated:
            found = _typing_or_reason(adjoint, site)
            if isinstance(found, Typing):
                self.used[adjoint.name] = self.used.get(adjoint.name, 0) + 1
                return adjoint, found
            reasons.append(f"{adjoint.name}: {found}")
        operands = ", ".join(map(str, site.operands))
        raise UnsupportedError(
            f"{site.operator.name}({operands}) has no gradient with respect to operand {slot}: "
            f"{'; '.join(reasons) or 'no adjoint statement is about it'}"
        )


class GradientBuilder:
    """Adds gradient terms to an edit of a graph, simplified; equal nodes that it adds are one."""

    def __init__(self, editor: GraphEditor, table: AdjointTable) -> None:
        self._editor = editor
        self._table = table
        self._simplifier = Simplifier(editor, self)
        self._known: dict[tuple[GraphOperator, tuple[Value, ...]], Value] = {}

    def apply(self, operator: Operator, *inputs: Value) -> Value:
        """The first output of the operator applied to the values, or a simpler value that it equals."""
        key = (operator, inputs)
        if key not in self._known:
            simpler = self._simplifier.simpler(operator, inputs)
            self._known[key] = self._editor.add(operator, inputs).value if simpler is None else simpler
        return self._known[key]

    def number(self, number: Fraction | int, element: ElementType) -> Value:
        """A number as a 0-d tensor of that element type."""
        return self.constant(Full(number, ()), element)

    def constant(self, operator: Operator, element: ElementType) -> Value:
        """A constant of that element type; those of equations have single precision. In double precision a
        number is the sum of numbers in single precision, the smallest first."""
        if element is not ElementType.DOUBLE:
            return self.apply(operator)
        parts: list[Operator] = [operator]
        if isinstance(operator, Full):
            parts = [replace(operator, value=term) for term in _single_terms(operator.value)]
        value, *others = [self.apply(Cast("f64"), self.apply(part)) for part in parts]
        for other in others:
            value = self.apply(Add(), value, other)
        return value

    def gradient(self, node: Node, slot: int, cotangent: Value) -> Value:
        """The vector-Jacobian product of a node with one output with respect to one operand. Raises
        UnsupportedError where no adjoint statement applies."""
        assert isinstance(node.operator, Operator), "opaque nodes have no adjoint statements"
        operands = tuple(_single(_tensor(self._editor, value)) for value in node.inputs)
        result = _tensor(self._editor, node.value)
        site = _Site(node.operator, operands, _single(result))
        adjoint, typing = self._table.find(site, slot)
        values: dict[Term, Value] = {adjoint.application: node.value, adjoint.cotangent: cotangent}
        values.update(zip(adjoint.operands, node.inputs, strict=True))
        return self._value(adjoint.gradient, typing, values, result.element)

    def _value(self, term: Term, typing: Typing, values: dict[Term, Value], element: ElementType) -> Value:
        if term not in values:
            assert isinstance(term, Application), "every variable has a value"
            operator = typing.operators[term]
            inputs = tuple(self._value(child, typing, values, element) for child in term.inputs)
            if isinstance(operator, Half):
                whole = typing.types[term.inputs[0]]
                cut = self.apply(operator.cut(whole.shape[operator.axis % whole.rank]), *inputs)
                values[term] = Value(cut.node, operator.port)
            elif operator.constant:
                values[term] = self.constant(operator, element)
            else:
                values[term] = self.apply(operator, *inputs)
        return values[term]


_DOUBLE_TERMS = 3
"""Numbers in single precision, of 24 bits each, that one in double precision with 53 bits is the sum of."""


def _single_terms(number: Fraction | int) -> list[Fraction]:
    """Numbers in single precision whose sum is the number to double precision; at least one."""
    found: list[Fraction] = []
    rest = Fraction(number)
    while not found or (rest and len(found) < _DOUBLE_TERMS):
        found.append(Fraction(float(np.float32(float(rest)))))
        rest -= found[-1]
    return found[::-1]


def _tensor(editor: GraphEditor, value: Value) -> TensorType:
    type_ = editor.type_of(value)
    if not isinstance(type_, TensorType):
        raise UnsupportedError(f"expected a tensor of known rank, got {type_}")
    return type_


def _single(type_: TensorType) -> TensorType:
    """The type of which equations are instances: they are about single precision."""
    return replace(type_, element=ElementType.FLOAT) if type_.element is ElementType.DOUBLE else type_


@lru_cache(maxsize=1 << 14)
def _typing_or_reason(adjoint: Adjoint, site: _Site) -> Typing | str:
    """The typing of the gradient term, or why the statement does not apply."""
    attributes = _bound(adjoint.application, site.operator)
    if attributes is None:
        return "it is about other attributes"
    if len(adjoint.operands) != len(site.operands):
        return f"it is about {len(adjoint.operands)} operands"
    symbols = site.result.symbols.union(*(type_.symbols for type_ in site.operands))
    try:
        return gradient_instance(adjoint, site.operands, site.result, attributes, symbols).typing
    except IllTypedError as error:
        return str(error)


def _bound(application: Application, operator: Operator) -> Mapping[str, object] | None:
    """The values of the statement's attribute variables; None if it is about other attributes."""
    own, defaults = attributes_of(operator), attribute_defaults(operator.name)
    stated = dict(application.attributes)
    found: dict[str, object] = {}
    for name, value in own.items():
        if name in stated:
            term = stated[name]
            if isinstance(term, AttributeVariable):
                if found.setdefault(term.name, value) != value:
                    return None
            elif term != value:
                return None
        elif name not in operator.implicit and value != defaults.get(name):
            return None
    return found
