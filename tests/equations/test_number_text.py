"""Calculated numbers in the text of equations: conditions, canonical printing, and mistakes with their place."""

# ruff: noqa: E501

from __future__ import annotations

from fractions import Fraction

import pytest

from superopt.equations import format_equation, parse_equation, parse_number
from superopt.equations.parser import DEEPEST
from superopt.errors import InvalidEquationError
from superopt.ir import AttributeVariable, ConditionCall, ConditionName
from superopt.ir.types import TensorType
from superopt.rewriting.conditions import holds

PRINTED = {
    "scale(x, full[value=b*a + a]()) = x": "scale(x, full[value=a*b + a]) = x",
    "x = y where b*a >= 0": "x = y where a*b >= 0",
    "x = y where 0 < min(b, a)": "x = y where 0 < min(a, b)",
    "x = y where a - 1 != b/2": "x = y where a - 1 != b/2",
    "x = y where 2*3 = a": "x = y where 6 = a",
    "x = y where max(1, 2) > a": "x = y where 2 > a",
    "x = y where odd(a*2)": "x = y where odd(2*a)",
    "power[exponent=(1/2)](x) = y": "power[exponent=1/2](x) = y",
    "hard_sigmoid[alpha=1/10 + 1/10](x) = y": "hard_sigmoid(x) = y",
    "reshape[shape=(1 + 1, 2*3)](x) = y": "reshape[shape=(2, 6)](x) = y",
    "conv[stride=1 + 1](x, y) = z": "conv[stride=2](x, y) = z",
    "x = full[value=-(a)]()": "x = full[value=-a]",
    "x = full[value=a-1]()": "x = full[value=a - 1]",
    "x = full[value=a -1]()": "x = full[value=a - 1]",
    "x = full[value=a*-1]()": "x = full[value=-a]",
    "x = full[value=1e2*a]()": "x = full[value=100*a]",
}


@pytest.mark.parametrize("text", PRINTED)
def test_equations_with_numbers_have_one_printed_form(text: str) -> None:
    equation = parse_equation(text)
    assert format_equation(equation) == PRINTED[text]
    assert parse_equation(PRINTED[text]) == equation


def test_operands_of_conditions_are_names_constants_and_numbers() -> None:
    (clause,) = parse_equation("x = y where a*b - 1 <= a").conditions
    assert (clause.left, clause.relation, clause.right) == (parse_number("a*b - 1"), "<=", ConditionName("a"))
    (clause,) = parse_equation("x = y where odd(1/2)").conditions
    assert clause.left == ConditionCall("odd", (Fraction(1, 2),))
    assert parse_number("(a)") == AttributeVariable("a")


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("a*b >= 6", True),
        ("a*b > 6", False),
        ("a - b < 0", True),
        ("min(a, b) = 2", True),
        ("max(a, -b) != 2", False),
        ("a/b = 2/3", True),
        ("1/(a - b) = -1", True),
        ("even(a*b)", True),
        ("odd(a*b)", False),
        ("a + b = 5", True),
    ],
)
def test_conditions_on_calculated_numbers_are_decided(clause: str, expected: bool) -> None:  # noqa: FBT001
    (condition,) = parse_equation(f"full[value=a]() = full[value=b]() where {clause}").conditions
    assert holds(condition, dict[str, TensorType](), {"a": 2, "b": 3}) is expected


@pytest.mark.parametrize("clause", ["odd(1/2)", "odd(a/2)", "even(1/b)"])
def test_parity_of_a_fraction_is_refused(clause: str) -> None:
    (condition,) = parse_equation(f"full[value=a]() = full[value=b]() where {clause}").conditions
    with pytest.raises(InvalidEquationError, match="where: expected a whole number, got "):
        holds(condition, dict[str, TensorType](), {"a": 3, "b": 2})


def nested(before: str, after: str) -> str:
    return f"x = full[value={before * (DEEPEST + 50)}a{after * (DEEPEST + 50)}]()"


ERRORS = {
    "power[exponent=(1, 2)*2](x) = y": "line 1, column 17: expected a number, got a tuple",
    "x = y where (1, 2) + a > 0": "line 1, column 14: expected a number, got a tuple",
    "x = full[value=(())]()": "line 1: expected a number, got a tuple",
    "x = y where () + 1 > a": "line 1: expected a number, got a tuple",
    "x = full[value=2*(1,)]()": "line 1, column 19: expected a number, got a tuple",
    "x = reshape[shape=(a, 2)](y)": "line 1, column 20: expected a tuple of whole numbers",
    "x = full[value=sin(a)]()": "line 1, column 16: expected min(a, b) or max(a, b), got sin of 1",
    "x = full[value=min(a)]()": "line 1, column 16: expected min(a, b) or max(a, b), got min of 1",
    "x = full[value=max(a, b, c)]()": "line 1, column 16: expected min(a, b) or max(a, b), got max of 3",
    "x = full[value=dim(x, 1)]()": "line 1, column 16: expected min(a, b) or max(a, b), got dim of 2",
    "x = y where rank(x)*2 > 4": "line 1, column 13: expected min(a, b) or max(a, b), got rank of 1",
    "x = full[value=1/0]()": "line 1, column 16: 1/0 divides by zero",
    "x =\n  full[value=a/(b - b)]()": "line 2, column 14: a/0 divides by zero",
    "x = y where 1/0 > a": "line 1, column 13: 1/0 divides by zero",
    "x = full[value=valid + 1]()": "line 1, column 16: valid is no number",
    "x = y where a*relu > 1": "line 1, column 15: relu is no number",
    "concat[axis=a + 1](x, y) = x": "line 1, column 1: concat: axis is not a number that can be calculated, got a + 1",
    "conv[stride=2*s](x, y) = z": "line 1, column 1: conv: stride is not a number that can be calculated, got 2*s",
    "x = full[value=a +]()": "line 1, column 19: unexpected ']()'",
    "x = full[value=a b]()": "line 1, column 18: unexpected 'b]()'",
    "x = full[value=a*b": "line 1: the equation 'x = full[value=a*b' ends too early",
    "x = full[value=x + 1](y)": "line 1: x names both a tensor and an attribute",
    nested("(", ")"): "line 1, column 166: nested more than 100 deep",
    nested("-", ""): "line 1, column 166: nested more than 100 deep",
    nested("min(1, ", ")"): "line 1, column 709: nested more than 100 deep",
    nested("2*", ""): "line 1, column 16: nested more than 100 deep",
    nested("2 - ", ""): "line 1, column 16: nested more than 100 deep",
}


@pytest.mark.parametrize("text", ERRORS, ids=lambda text: text[:30])
def test_mistakes_in_numbers_are_said_with_their_place(text: str) -> None:
    with pytest.raises(InvalidEquationError) as error:
        parse_equation(text)
    assert str(error.value) == ERRORS[text]
