"""Equations as text: parsing and printing are inverse, mistakes are said with line and column."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.equations import format_equation, format_term, parse_equation, parse_equations, parse_term
from superopt.errors import InvalidEquationError
from superopt.ir import (
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    Direction,
    Equation,
    Term,
    Variable,
    VariableType,
)
from superopt.ir.terms import AttributeTerm, ConditionTerm, attribute_variables, variables
from superopt.ops import OPERATORS, attribute_names
from superopt.ops.attributes import NUMBERS
from superopt.ops.bilinear.filter_algorithms import KARATSUBA
from superopt.ops.bilinear.product_algorithms import DOT, STRASSEN
from superopt.ops.terms import application
from tests.ops.algorithms import BY_HALVES

names = st.from_regex(r"[a-z_][a-z0-9_]{0,4}", fullmatch=True).filter(
    lambda name: name not in ("valid", "same", "none")
)
fractions = st.fractions(-3, 3, max_denominator=50)
sizes = st.integers(0, 9)
VALUES: dict[str, st.SearchStrategy[AttributeTerm]] = {
    "activation": st.sampled_from(("none", "relu", "sigmoid", "tanh")),
    "to": st.sampled_from(("f16", "bf16", "f32", "f64")),
    "approximate": st.sampled_from(("none", "tanh")),
    "axis": st.integers(-4, 4),
    "includes_padding": st.integers(0, 1),
    "padding": st.sampled_from(("valid", "same", "same_upper", "same_lower"))
    | st.tuples(sizes, sizes, sizes, sizes),
    "perm": st.permutations(range(4)).map(tuple),
    **dict.fromkeys(
        ("kernel", "stride", "dilation"), st.integers(1, 5) | st.tuples(st.integers(1, 5), st.integers(1, 5))
    ),
    **dict.fromkeys(NUMBERS, fractions),
    **dict.fromkeys(("size", "channels"), st.integers(1, 9)),
    "algorithm": st.sampled_from((STRASSEN, DOT)),
    "degree": st.integers(2, 9),
    "zeros": st.tuples(st.integers(0, 5), st.integers(0, 5)),
    **dict.fromkeys(("rows", "columns"), st.sampled_from(((), KARATSUBA, BY_HALVES))),
    **dict.fromkeys(("shape", "sizes"), st.lists(sizes, max_size=3).map(tuple)),
}
open_values = names.map(lambda name: AttributeVariable(f"k{name}"))


def applied(operator: str, inputs: list[Term]) -> st.SearchStrategy[Term]:
    attributes = {name: VALUES[name] | open_values for name in attribute_names(operator)}
    return st.fixed_dictionaries(attributes).map(lambda chosen: application(operator, chosen, *inputs))


terms: st.SearchStrategy[Term] = st.recursive(
    names.map(lambda name: Variable(f"T{name}")),
    lambda children: st.tuples(st.sampled_from(sorted(OPERATORS)), st.lists(children, max_size=3)).flatmap(
        lambda pair: applied(*pair)
    ),
    max_leaves=8,
)


@given(terms)
@settings(deadline=None, max_examples=120)
def test_a_printed_term_parses_to_itself(term: Term) -> None:
    assert parse_term(format_term(term)) == term


@st.composite
def equations(draw: st.DrawFn) -> Equation:
    count = draw(st.integers(1, 3))
    left, right = (tuple(draw(terms) for _ in range(count)) for _ in range(2))
    tensors = variables(*left, *right)
    known = sorted((*tensors, *attribute_variables(*left, *right))) or ["none"]
    operands: st.SearchStrategy[ConditionTerm] = st.recursive(
        st.sampled_from(known).map(lambda n: n if n == "none" else ConditionName(n))
        | st.integers(-3, 9)
        | st.sampled_from(("same", "relu"))
        | st.lists(st.integers(-2, 5), min_size=1, max_size=4).map(tuple),
        lambda inner: st.builds(ConditionCall, names, st.lists(inner, max_size=2).map(tuple)),
        max_leaves=3,
    )
    relations = st.sampled_from(("=", "!=", "<", "<=", ">", ">="))
    clauses = st.builds(Condition, operands, relations, operands) | st.builds(
        Condition, st.builds(ConditionCall, names, st.lists(operands, max_size=2).map(tuple))
    )
    conditions = draw(st.lists(clauses, max_size=2).map(tuple))
    shapes = st.lists(st.integers(0, 9) | names, max_size=4).map(tuple)
    typed = draw(st.lists(st.sampled_from(tensors), unique=True)) if tensors else []
    types = tuple(
        sorted((n, VariableType(draw(st.sampled_from(("f32", "i64", "bf16"))), draw(shapes))) for n in typed)
    )
    return Equation(left, right, draw(st.sampled_from(Direction)), conditions, types)


@given(equations())
@settings(deadline=None, max_examples=120)
def test_a_printed_equation_parses_to_itself(equation: Equation) -> None:
    assert parse_equation(format_equation(equation)) == equation
    assert parse_equation(f"a.name-2: {format_equation(equation)}").name == "a.name-2"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("relu( relu(x) )=relu(x)", "relu(relu(x)) = relu(x)"),
        ("conv[ kernel_is=x ](x)", None),
        ("avgpool[kernel=(3,3),stride=1](x) => x", "avgpool[kernel=3](x) => x"),
        ("conv[padding=valid, stride=(2, 1)](x, w) <=> x", "conv[stride=(2, 1)](x, w) <=> x"),
        ("hard_sigmoid[alpha=0.25, beta=1/2](x) = x", "hard_sigmoid[alpha=1/4](x) = x"),
        (
            "power[exponent=4/2](x) = power[exponent=-1e-2](x)",
            "power[exponent=2](x) = power[exponent=-1/100](x)",
        ),
        ("ones() = x", "ones() = x"),
        ("full[value=1] = full[value=1]()", "full[value=1] = full[value=1]"),
        (
            "(x, relu(y)) => (relu(x), y) where odd(k) and k >= 3",
            "(x, relu(y)) => (relu(x), y) where odd(k), k >= 3",
        ),
        ("x: f32[n, 3] = x", "x: f32[n, 3] = x"),
        ("x:f32[] = relu(x: f32[])", "x: f32[] = relu(x)"),
        ("transpose[perm=(0,)](x) = x", "transpose[perm=(0,)](x) = x"),
        ("x = y # a comment", "x = y"),
    ],
)
def test_spellings(text: str, printed: str | None) -> None:
    if printed is None:
        with pytest.raises(InvalidEquationError):
            parse_equation(text)
    else:
        assert format_equation(parse_equation(text)) == printed


FILE = """\
# Two equations.
first:  relu(relu(x))
          # in between

          = relu(x)
second: (x, y) <=> (y, x)
  where rank(x) = 2
"""


def test_a_file_of_equations() -> None:
    first, second = parse_equations(FILE)
    assert (first.name, format_equation(first)) == ("first", "relu(relu(x)) = relu(x)")
    assert (second.name, format_equation(second)) == ("second", "(x, y) <=> (y, x) where rank(x) = 2")


ERRORS = {
    "relu(x": "line 1: the equation 'relu(x' ends too early",
    "": "line 1: the equation '' ends too early",
    "relu(x) = ": "line 1: the equation 'relu(x) =' ends too early",
    "relu(x) ~ x": "line 1, column 9: unexpected '~ x'",
    "relu(x) = x)": "line 1, column 12: unexpected ')'",
    "some-name: relu(x) = rely(x)": "line 1, column 22: unknown operator rely; did you mean relu or prelu?",
    "some-name: relu(x) = zzz(x)": "line 1, column 22: unknown operator zzz; known: absolute, add, ",
    "name: relu(x) =\n  relu[alpha=1](x)": "line 2, column 3: relu has no attribute alpha; it has: none",
    "concat(x, y) = x": "line 1, column 1: concat needs the attribute axis",
    "enlarge[kernel=0](x) = x": "line 1, column 1: enlarge: expected kernel to be two positive integers, ",
    "hard_sigmoid[alpha=1/0](x) = x": "line 1, column 20: 1/0 divides by zero",
    "concat[axis=1, axis=2](x, y) = x": "line 1, column 16: concat: the attribute axis is given twice",
    "mul(x, ones) = x": "line 1, column 8: ones is an operator: write ones(...), or rename the tensor",
    "(x, y) = x": "line 1: expected as many terms on both sides, got 2 and 1",
    "x: f31[n] = x": "line 1, column 9: unexpected '] = x'",
    "relu(x: f31[n]) = x": "line 1, column 6: unknown element type f31; known: f32, ",
    "(x: f32[n], x: f32[m]) = (x, x)": "line 1, column 13: x is declared with two types",
    "transpose[perm=x](x) = x": "line 1: x names both a tensor and an attribute",
    "x = y where": "line 1: the equation 'x = y where' ends too early",
    "x = y where odd(": "line 1: the equation 'x = y where odd(' ends too early",
    "relu(" * 3000 + "x" + ")" * 3000 + " = x": "line 1, column 501: nested more than 100 deep",
    "x = x where " + "odd(" * 3000 + "x" + ")" * 3000: "line 1, column 413: nested more than 100 deep",
    "garbage((": "line 1, column 9: unexpected '('",
    "r\u0435lu(x) = x": "line 1, column 2: expected ASCII characters outside of comments, "
    "got U+0435, CYRILLIC SMALL LETTER IE",
    "name: relu(x)\n = # \u0435\n \uff58": "line 3, column 2: expected ASCII characters outside of comments, "
    "got U+FF58, FULLWIDTH LATIN SMALL LETTER X",
    "n\u00e0me: relu(x) = x": "line 1, column 2: expected ASCII characters outside of comments, "
    "got U+00E0, LATIN SMALL LETTER A WITH GRAVE",
    "relu(x) =\u00a0x": "line 1, column 10: expected ASCII characters outside of comments, "
    "got U+00A0, NO-BREAK SPACE",
    "relu(x) = x\x1b[2J": "line 1, column 12: expected ASCII characters outside of comments, "
    "got U+001B, a control character",
    "x = scale(x, full[value=1e9999999])": "line 1, column 30: unexpected '9999])'",
    "x = bilinear_conv[rows=F(4, 3)](x, y)": "line 1, column 24: F(m,r) is short for the matrices "
    "of an algorithm; `superopt library show ID` prints a rule in full",
    f"x = full[value=1/{'1' * 5000}]": "line 1: a number has more than 100 digits",
}


@pytest.mark.parametrize("text", ERRORS, ids=lambda text: text[:30])
def test_mistakes_are_said_with_their_place(text: str) -> None:
    with pytest.raises(InvalidEquationError) as error:
        parse_equation(text)
    message = ERRORS[text]
    assert str(error.value).startswith(message)
    assert message.endswith(", ") or str(error.value) == message


def test_comments_may_say_anything() -> None:
    text = "relu(x) = x # \u0437\u0430\u043c\u0435\u0442\u043a\u0430"
    assert format_equation(parse_equation(text)) == "relu(x) = x"


def test_places_in_a_file() -> None:
    with pytest.raises(InvalidEquationError, match=r"^line 5, column 13: unknown operator rely"):
        parse_equations(FILE.replace("= relu(x)", "= rely(x)"))
    with pytest.raises(
        InvalidEquationError, match=r"^line 1: an equation starts in the first column, got ' x'"
    ):
        parse_equations(" x")


def test_decimals_are_exact() -> None:
    term = parse_term("full[value=0.1]")
    assert not isinstance(term, Variable)
    assert term.attribute("value") == Fraction(1, 10)
