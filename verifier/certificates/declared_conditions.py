"""Conditions on open numbers of a rule: a step may rely only on conditions that the rule states.

All other conditions of an axiom are decided in every case of the rule. The numbers in a case represent all
numbers that satisfy the rule's conditions, so conditions on them must not be decided by their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from superopt.ir.terms import (
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Variable,
)
from superopt.rewriting.conditions import names_in


def is_stated(
    condition: Condition, numeric: Set[str], values: Mapping[str, object], given: Iterable[Condition]
) -> bool:
    """Whether a clause about numbers that the rule leaves open is literally one of the rule's clauses.

    ``numeric`` are the axiom's variables for numbers; ``values`` maps all its variables to their values.
    """
    about = names_in(condition) & numeric
    if not any(isinstance(values.get(name), AttributeVariable) for name in about):
        return True
    return _with_names(condition, values) in tuple(given)


def _with_names(condition: Condition, names: Mapping[str, object]) -> Condition | None:
    left = _standing_for(condition.left, names)
    right = None if condition.right is None else _standing_for(condition.right, names)
    return None if left is None else Condition(left, condition.relation, right)


def _standing_for(operand: ConditionTerm, names: Mapping[str, object]) -> ConditionTerm | None:
    match operand:
        case ConditionName(name):
            value = names.get(name)
            if isinstance(value, AttributeVariable | Variable):
                return ConditionName(value.name)
            return value if isinstance(value, int | str | tuple) else None  # pyright: ignore[reportUnknownVariableType]
        case ConditionCall(function, arguments):
            replaced = [_standing_for(each, names) for each in arguments]
            known = tuple(each for each in replaced if each is not None)
            return ConditionCall(function, known) if len(known) == len(replaced) else None
        case _:
            return operand
