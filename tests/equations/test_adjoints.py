"""Adjoint statements: what parses as one, what is refused, and their text."""

from __future__ import annotations

import pytest

from superopt.equations import format_adjoint, parse_adjoint, parse_equation, parse_statement
from superopt.errors import InvalidEquationError
from superopt.ir.terms import Equation, Variable

TANH = "adjoint[input=0](tanh(x), g) = mul(g, sub(ones(), mul(tanh(x), tanh(x))))"


def test_a_statement_names_operator_operand_and_cotangent() -> None:
    adjoint = parse_adjoint(f"adjoint-of-tanh: {TANH}")
    assert (adjoint.name, adjoint.operator, adjoint.input) == ("adjoint-of-tanh", "tanh", 0)
    assert (adjoint.operands, adjoint.operand, adjoint.cotangent) == (
        (Variable("x"),),
        Variable("x"),
        Variable("g"),
    )
    assert adjoint.conditions == ()


@pytest.mark.parametrize(
    "text",
    [
        TANH,
        "adjoint[input=1](matmul(x, y), g) = matmul(transpose(x), g) where rank(x) = 2, rank(y) = 2",
        "adjoint[input=0](leaky_relu[alpha=a](x), c) = select(x, c, scale(c, full[value=a]))",
        "adjoint[input=0](transpose[perm=p](x), g) = transpose[perm=q](g) where q = composed(p, p)",
        "adjoint[input=0](identity(x), g) = g",
    ],
)
def test_the_text_of_a_statement_parses_to_it(text: str) -> None:
    assert format_adjoint(parse_adjoint(text)) == text


def test_an_equation_is_an_ordinary_statement() -> None:
    statement = parse_statement("add-commutative: add(x, y) = add(y, x)")
    assert isinstance(statement, Equation)
    assert statement == parse_equation("add-commutative: add(x, y) = add(y, x)")
    with pytest.raises(InvalidEquationError, match=r"expected an adjoint statement, got add\(x, y\)"):
        parse_adjoint("add(x, y) = add(y, x)")


@pytest.mark.parametrize("text", [TANH, "adjoint(x, y) = x", "x = adjoint[input=0](tanh(x), g)"])
def test_no_rule_contains_an_adjoint(text: str) -> None:
    with pytest.raises(InvalidEquationError, match="unknown operator adjoint"):
        parse_equation(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("adjoint(tanh(x), g) = g", r"expected adjoint\[input=NUMBER\]"),
        ("adjoint[input=0](x, g) = g", r"expected adjoint\[input=NUMBER\]"),
        ("adjoint[input=0](tanh(x), relu(g)) = g", r"expected adjoint\[input=NUMBER\]"),
        ("adjoint[input=a](tanh(x), g) = g", r"expected adjoint\[input=NUMBER\]"),
        ("adjoint[input=0, output=0](tanh(x), g) = g", r"expected adjoint\[input=NUMBER\]"),
        ("adjoint[input=0](tanh(x), g, h) = g", r"expected adjoint\[input=NUMBER\]"),
        ("tanh(adjoint[input=0](tanh(x), g)) = g", r"expected adjoint\[input=NUMBER\]"),
        ("tanh(x) = adjoint[input=0](tanh(x), g)", r"expected adjoint\[input=NUMBER\]"),
        ("adjoint[input=0](add(x, x), g) = g", "all variables distinct"),
        ("adjoint[input=0](add(x, y), x) = y", "all variables distinct"),
        ("adjoint[input=0](tanh(relu(x)), g) = g", "all variables distinct"),
        ("adjoint[input=2](add(x, y), g) = g", "expected input from 0 to 1, the operands of add, got 2"),
        ("adjoint[input=-1](add(x, y), g) = g", "got -1"),
        ("adjoint[input=0](tanh(x), g) => g", "expected = after the adjoint, got =>"),
        ("adjoint[input=0](tanh(x: f32[2]), g) = g", "expected no declared types, got one of x"),
        (
            "adjoint[input=0](tanh(x), g) = mul(g, z)",
            "expected each variable of the right side at the left, got z",
        ),
        (
            "adjoint[input=0](tanh(x), g) = scale(g, full[value=a]())",
            "expected each attribute variable of the right side at the left, got a",
        ),
        ("adjoint[input=0](tanh(x), g) = adjoint[input=0](tanh(x), g)", "got it at the right too"),
        ("adjoint[input=0](tan(x), g) = g", "unknown operator tan"),
    ],
)
def test_a_malformed_statement_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidEquationError, match=message):
        parse_adjoint(text)


def test_the_line_of_a_malformed_statement_is_named() -> None:
    with pytest.raises(InvalidEquationError, match="line 7: wrong: expected input from 0 to 0"):
        parse_adjoint("wrong: adjoint[input=1](tanh(x), g) = g", first_line=7)
