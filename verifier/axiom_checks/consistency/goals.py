"""Queries about axioms: typing equations of steps, seed terms, false goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from superopt.ir.numbers import NumberExpression, substituted_number
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
    Term,
    Variable,
    VariableType,
    as_condition_term,
    variables,
)
from superopt.ops.terms import application
from superopt.ops.traits import HALVES
from superopt.rewriting.conditions import names_in
from superopt.verifier.axiom_checks.consistency.overlaps import replaced
from superopt.verifier.prove.chain import instantiated
from superopt.verifier.prove.solver import AxiomInstance

_OTHER = "'"


def instance_equation(steps: Sequence[AxiomInstance], axioms: Mapping[str, Equation]) -> Equation:
    """All steps as outputs of one equation, with the conditions of their axioms.

    A condition speaks of variables: one that stands for a term is a further output.
    """
    left: list[Term] = []
    right: list[Term] = []
    conditions: list[Condition] = []
    types: list[tuple[str, VariableType]] = []
    for number, step in enumerate(steps):
        axiom = axioms[step.axiom]
        grounded = instantiated(axiom, step)
        left += grounded.left
        right += grounded.right
        attributes = dict(step.attributes)
        named = frozenset[str]().union(*(names_in(condition) for condition in axiom.conditions))
        for name, term in step.terms:
            if name in named or name in dict(axiom.types):
                left.append(Variable(_let(name, number)))
                right.append(term)
        lets = {name: ConditionName(_let(name, number)) for name, _ in step.terms}
        conditions += [_renamed(condition, lets, attributes) for condition in axiom.conditions]
        types += [(_let(name, number), declared) for name, declared in axiom.types]
    return Equation(tuple(left), tuple(right), conditions=tuple(conditions), types=tuple(types))


def _let(name: str, number: int) -> str:
    return f"{name}{_OTHER}{number}"


def _renamed(
    condition: Condition, lets: Mapping[str, ConditionName], attributes: Mapping[str, AttributeTerm]
) -> Condition:
    def rename(operand: ConditionTerm) -> ConditionTerm:
        match operand:
            case ConditionName(name) if name in lets:
                return lets[name]
            case ConditionName(name) if name in attributes:
                value = attributes[name]
                return as_condition_term(value) or operand
            case ConditionCall(function, arguments):
                return ConditionCall(function, tuple(rename(argument) for argument in arguments))
            case NumberExpression():
                return as_condition_term(substituted_number(operand, attributes)) or operand
            case _:
                return operand

    right = None if condition.right is None else rename(condition.right)
    return Condition(rename(condition.left), condition.relation, right)


def seeds(axiom: Equation) -> Iterator[Term]:
    """The sides, and both halves of them along every axis that the axiom names and the first and last two."""
    sides = [side for side in axiom.terms if isinstance(side, Application)]
    for side in sides:
        yield side
        for axis in dict.fromkeys((*_axes(axiom), 0, 1, -1, -2)):
            yield from _halves(side, axis)


def independence(axiom: Equation) -> Iterator[tuple[Equation, Equation]]:
    """Goals that a term is the same for another input; and for each an equation that types both alike.

    The terms are the axiom's sides, and halves of them along the axes that it names.
    """
    for side in axiom.terms:
        if not isinstance(side, Application):
            continue
        for term in (side, *(half for axis in _axes(axiom) for half in _halves(side, axis))):
            for name in variables(side):
                yield _with_other(term, name, axiom)


def _with_other(term: Term, name: str, axiom: Equation) -> tuple[Equation, Equation]:
    other = Variable(name + _OTHER)
    goal = Equation((term,), (replaced(term, {Variable(name): other}),))
    return goal, Equation(
        (*goal.left, other, *axiom.left),
        (*goal.right, Variable(name), *axiom.right),
        conditions=axiom.conditions,
        types=axiom.types,
    )


def _axes(axiom: Equation) -> tuple[AttributeTerm, ...]:
    axes = (term.attribute("axis") for term in axiom.applications)
    return tuple(dict.fromkeys(axis for axis in axes if axis is not None))


def _halves(term: Term, axis: AttributeTerm) -> Iterator[Term]:
    return (application(half, {"axis": axis}, term) for half in HALVES)


__all__ = ["independence", "instance_equation", "seeds"]
