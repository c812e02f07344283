"""Operands of registered operators for which there is no adjoint statement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from superopt.axioms import AxiomSet
from superopt.ops.base import OPERATORS, Operator
from superopt.ops.elementwise.selection import Predicate


@dataclass(frozen=True)
class MissingAdjoint:
    """An operand, counted from 0, without a statement. ``composite``: axioms define the operator by others,
    so that the chain rule gives its derivative."""

    operator: str
    input: int
    composite: bool


def missing_adjoints(axioms: AxiomSet) -> tuple[MissingAdjoint, ...]:
    """The operands with respect to which an operator may be differentiated and for which the axioms have no
    statement, by operator."""
    return tuple(_missing(axioms))


def why_no_adjoint(operator: type[Operator]) -> str:
    """Why an operator has no adjoint; empty if it has one."""
    if operator.parallel:
        return "it changes how a tensor is divided, and its adjoint is how the gradient is divided"
    if operator.constant:
        return "it is a constant"
    if issubclass(operator, Predicate):
        return "its result is a truth value"
    if operator.from_rules:
        return "only rules introduce it, and gradients are made before rules are applied"
    if not operator.inputs:
        return "equations do not contain it"
    return ""


def _missing(axioms: AxiomSet) -> Iterator[MissingAdjoint]:
    known = {(adjoint.operator, adjoint.input) for adjoint in axioms.adjoints}
    for name, operator in sorted(OPERATORS.items()):
        if why_no_adjoint(operator):
            continue
        for index in range(operator.inputs):
            if index not in operator.conditions and (name, index) not in known:
                yield MissingAdjoint(name, index, operator.composite)


__all__ = ["MissingAdjoint", "missing_adjoints", "why_no_adjoint"]
