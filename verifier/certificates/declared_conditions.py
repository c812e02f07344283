"""Conditions on open numbers of a rule: a step may rely only on conditions that the rule states.

All other conditions of an axiom are decided in every case of the rule. The numbers in a case represent all
numbers that satisfy the rule's conditions, so conditions on them must not be decided by their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from superopt.ir.numbers import (
    AttributeVariable,
    Number,
    NumberExpression,
    divisors,
    names_of,
    substituted_number,
)
from superopt.ir.terms import (
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
    Variable,
    as_condition_term,
)
from superopt.rewriting.conditions import names_in


def stated(goal: Equation) -> tuple[Condition, ...]:
    """The clauses of a rule, and that nothing is 0 by which a number in its terms divides: a rule claims
    nothing where one of its sides is ill-typed."""
    divided = (d for term in goal.applications for _, value in term.attributes for d in divisors(value))
    operands = (as_condition_term(divisor) for divisor in dict.fromkeys(divided))
    return (*goal.conditions, *(Condition(each, "!=", 0) for each in operands if each is not None))


def excludes_zero(given: Iterable[Condition], divisor: Number) -> bool:
    """Whether a clause says literally that the number is not 0, or on which side of 0 it is."""
    operand = as_condition_term(divisor)
    return any(
        each.relation in ("!=", "<", ">") and (each.left, each.right) in ((operand, 0), (0, operand))
        for each in given
    )


def is_stated(
    condition: Condition, numeric: Set[str], values: Mapping[str, object], given: Iterable[Condition]
) -> bool:
    """Whether a clause about numbers that a rule leaves open is literally one of the rule's, or says
    ``>=`` where that says ``>``.

    ``numeric`` are the axiom's variables for numbers; ``values`` maps all its variables to their values;
    ``given`` are the clauses that are ``stated``.
    """
    about = names_in(condition) & numeric
    if not any(names_of(values.get(name)) for name in about):
        return True
    named = _with_names(condition, values)
    return _follows(named, tuple(given)) or _is_nonzero(condition, values, given)


def _follows(condition: Condition | None, given: tuple[Condition, ...]) -> bool:
    """Whether a clause is among those given, or its strict form is."""
    if condition is None:
        return False
    strict = {">=": ">", "<=": "<"}.get(condition.relation, condition.relation)
    return condition in given or replace(condition, relation=strict) in given


def _is_nonzero(condition: Condition, values: Mapping[str, object], given: Iterable[Condition]) -> bool:
    match condition:
        case Condition(ConditionName(name), "!=", 0):
            value = values.get(name)
            known = isinstance(value, AttributeVariable | NumberExpression)
            return known and excludes_zero(given, value)
        case _:
            return False


def _with_names(condition: Condition, names: Mapping[str, object]) -> Condition | None:
    left = _standing_for(condition.left, names)
    right = None if condition.right is None else _standing_for(condition.right, names)
    return None if left is None else Condition(left, condition.relation, right)


def _standing_for(operand: ConditionTerm, names: Mapping[str, object]) -> ConditionTerm | None:
    match operand:
        case ConditionName(name):
            value = names.get(name)
            return ConditionName(value.name) if isinstance(value, Variable) else as_condition_term(value)
        case ConditionCall(function, arguments):
            replaced = [_standing_for(each, names) for each in arguments]
            known = tuple(each for each in replaced if each is not None)
            return ConditionCall(function, known) if len(known) == len(replaced) else None
        case NumberExpression():
            return as_condition_term(substituted_number(operand, names))
        case _:
            return operand
