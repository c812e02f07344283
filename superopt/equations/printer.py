"""Print equations so that parsing the text gives the same equation."""

from __future__ import annotations

from typing import cast

from superopt.ir.numbers import AttributeVariable, NumberExpression, number_text
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
)
from superopt.ops.attributes import PAIRS


def format_equation(equation: Equation) -> str:
    """The equation without its name, on one line."""
    types = dict(equation.types)
    sides = [_side(side, types) for side in (equation.left, equation.right)]
    conditions = ", ".join(format_condition(condition) for condition in equation.conditions)
    text = f"{sides[0]} {equation.direction} {sides[1]}"
    return f"{text} where {conditions}" if conditions else text


def format_term(term: Term) -> str:
    """A term, for instance ``concat[axis=-1](x, relu(y))``."""
    return _term(term, {})


def format_condition(condition: Condition) -> str:
    """A clause of ``where``."""
    left = _operand(condition.left)
    return f"{left} {condition.relation} {_operand(condition.right)}" if condition.right is not None else left


def format_attribute(name: str, value: AttributeTerm) -> str:
    """``name=value``; equal pairs of kernels, strides and dilations as one number."""
    if name in PAIRS and isinstance(value, tuple) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    return f"{name}={_value(value)}"


def _side(side: tuple[Term, ...], types: dict[str, VariableType]) -> str:
    written = [_term(term, types) for term in side]
    return written[0] if len(written) == 1 else f"({', '.join(written)})"


def _term(term: Term, types: dict[str, VariableType]) -> str:
    if isinstance(term, Variable):
        declared = types.pop(term.name, None)
        if declared is None:
            return term.name
        return f"{term.name}: {declared.element}[{', '.join(str(d) for d in declared.shape)}]"
    return _application(term, types)


def _application(term: Application, types: dict[str, VariableType]) -> str:
    attributes = ", ".join(format_attribute(name, value) for name, value in term.attributes)
    brackets = f"[{attributes}]" if attributes else ""
    inputs = ", ".join(_term(child, types) for child in term.inputs)
    return f"{term.operator}{brackets}({inputs})" if inputs or not brackets else f"{term.operator}{brackets}"


def _value(value: AttributeTerm) -> str:
    match value:
        case AttributeVariable() | NumberExpression():
            return number_text(value)
        case tuple():
            parts = cast("tuple[AttributeTerm, ...]", value)
            return f"({', '.join(map(_value, parts))}{',' if len(parts) == 1 else ''})"
        case _:
            return str(value)


def _operand(operand: ConditionTerm) -> str:
    match operand:
        case ConditionName(name):
            return name
        case ConditionCall(function, arguments):
            return f"{function}({', '.join(_operand(argument) for argument in arguments)})"
        case tuple():
            return f"({', '.join(str(part) for part in operand)})"
        case _:
            return str(operand)
