"""Canonical form of a rule: variables renamed in order of occurrence; the rule's id is its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count, permutations
from typing import cast

from superopt.equations.printer import format_equation
from superopt.ir.numbers import AttributeVariable, NumberExpression, names_of, substituted_number
from superopt.ir.terms import (
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Direction,
    Equation,
    Term,
    Variable,
    VariableType,
    subterms,
)
from superopt.ops.terms import application

_NAMES = ("x", "y", "z", "w", "u", "v")
_ATTRIBUTE_LETTERS: Mapping[str, str] = {
    "stride": "s",
    "padding": "p",
    "axis": "a",
    "kernel": "k",
    "activation": "c",
}


def canonical(equation: Equation) -> Equation:
    """The equation with variables, attribute variables and dimension names renamed; sides and direction are
    kept. Raises IllTypedError for an unknown operator or attribute."""
    names = _variable_names(equation)
    letters = _attribute_names(equation)
    rename = {**{f"${name}": new for name, new in letters.items()}, **names}
    cache: dict[Term, Term] = {}

    def renamed(term: Term) -> Term:
        found = cache.get(term)
        if found is None:
            if isinstance(term, Variable):
                found = Variable(names[term.name])
            else:
                attributes = {key: _renamed_attribute(value, letters) for key, value in term.attributes}
                found = application(term.operator, attributes, *(renamed(child) for child in term.inputs))
            cache[term] = found
        return found

    return replace(
        equation,
        left=tuple(renamed(term) for term in equation.left),
        right=tuple(renamed(term) for term in equation.right),
        conditions=tuple(sorted((renamed_condition(c, rename) for c in equation.conditions), key=repr)),
        types=_renamed_types(equation, names),
    )


def spelled(equation: Equation) -> Equation:
    """The canonical form of a rule, whose text's hash is the rule's id: the first by text among all orders of
    outputs and, for ``<=>``, both directions."""
    return _by_text(equation)[1]


def rule_id(equation: Equation) -> str:
    """16 hex digits, invariant under renaming of variables, order of outputs, and reversal of ``<=>``."""
    return text_id(_by_text(equation)[0])


def text_id(text: str) -> str:
    """The id of the rule with this canonical text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _by_text(equation: Equation) -> tuple[str, Equation]:
    both_ways = equation.direction is not Direction.FORWARD
    found: dict[str, Equation] = {}
    for order in permutations(range(len(equation.left))):
        shuffled = replace(
            equation,
            left=tuple(equation.left[i] for i in order),
            right=tuple(equation.right[i] for i in order),
            direction=Direction.BOTH if both_ways else Direction.FORWARD,
            name="",
        )
        for way in (shuffled, shuffled.reversed()) if both_ways else (shuffled,):
            renamed = canonical(way)
            found.setdefault(format_equation(renamed), renamed)
    return min(found.items(), key=lambda item: item[0])


def _renamed_types(equation: Equation, names: Mapping[str, str]) -> tuple[tuple[str, VariableType], ...]:
    declared = {names[name]: type_ for name, type_ in equation.types if name in names}
    sizes: dict[str, str] = {}

    def renamed(size: int | str) -> int | str:
        return size if isinstance(size, int) else sizes.setdefault(size, f"n{len(sizes)}")

    in_order = [name for name in names.values() if name in declared]
    types = {
        name: replace(declared[name], shape=tuple(renamed(size) for size in declared[name].shape))
        for name in in_order
    }
    return tuple(sorted(types.items(), key=lambda item: item[0]))


def _variable_names(equation: Equation) -> dict[str, str]:
    ordered = [t.name for t in subterms(*equation.terms) if isinstance(t, Variable)]
    return {name: _NAMES[i] if i < len(_NAMES) else f"x{i}" for i, name in enumerate(ordered)}


def _attribute_names(equation: Equation) -> dict[str, str]:
    letters: dict[str, str] = {}
    used: set[str] = set()
    for term in subterms(*equation.terms):
        if isinstance(term, Variable):
            continue
        for key, value in term.attributes:
            for name in sorted(names_of(value) - letters.keys()):
                letter = _ATTRIBUTE_LETTERS.get(key, key)
                numbered = (f"{letter}{i}" for i in count(2))
                fresh = next(n for n in chain((letter,), numbered) if n not in used)
                letters[name] = fresh
                used.add(fresh)
    return letters


def _renamed_attribute(value: AttributeTerm, letters: Mapping[str, str]) -> AttributeTerm:
    variables = {name: AttributeVariable(letters[name]) for name in names_of(value)}
    return cast("AttributeTerm", substituted_number(value, variables))


def renamed_condition(condition: Condition, names: Mapping[str, str]) -> Condition:
    """The clause with renamed tensors and, marked with ``$``, attribute variables; names not in ``names`` are
    kept."""
    right = None if condition.right is None else _renamed_operand(condition.right, names)
    return Condition(_renamed_operand(condition.left, names), condition.relation, right)


def _renamed_operand(operand: ConditionTerm, names: Mapping[str, str]) -> ConditionTerm:
    match operand:
        case ConditionName(name):
            return ConditionName(names.get(name) or names.get(f"${name}") or name)
        case ConditionCall(function, arguments):
            return ConditionCall(function, tuple(_renamed_operand(argument, names) for argument in arguments))
        case NumberExpression():
            own = names_of(operand)
            renamed = {name: AttributeVariable(names.get(f"${name}") or name) for name in own}
            return cast("NumberExpression", substituted_number(operand, renamed))
        case _:
            return operand
