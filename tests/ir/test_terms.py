"""Terms: shared subterms are one node."""

from __future__ import annotations

from superopt.equations import format_term, parse_equation, parse_term
from superopt.ir import Application, Equation, Variable
from superopt.ir.terms import applications, attribute_variables, operator_count, subterms, variables


def test_subterms_come_once_and_inputs_first() -> None:
    term = parse_term("add(matmul(y, x), relu(matmul(y, x)))")
    assert [format_term(t) for t in subterms(term)] == [
        "y",
        "x",
        "matmul(y, x)",
        "relu(matmul(y, x))",
        "add(matmul(y, x), relu(matmul(y, x)))",
    ]
    assert operator_count(term) == 3
    assert variables(term) == ("y", "x")
    assert [t.operator for t in applications(term)] == ["matmul", "relu", "add"]


def test_deep_shared_terms_cost_what_they_have_nodes() -> None:
    term: Application | Variable = Variable("x")
    for _ in range(300):
        term = Application("add", (), (term, term))
    assert operator_count(term) == 300
    assert hash(term) == hash(Application("add", (), (term.inputs[0], term.inputs[1])))


def test_attributes_and_reversal() -> None:
    equation = parse_equation("conv[stride=s](x, y) <=> conv[stride=s, padding=p](x, y)")
    assert attribute_variables(*equation.left) == {"s"}
    assert attribute_variables(*equation.right) == {"s", "p"}
    flipped = equation.reversed()
    assert isinstance(flipped, Equation)
    assert (flipped.left, flipped.right) == (equation.right, equation.left)
    assert flipped.reversed() == equation
