"""What equations say about dividing operators."""

from __future__ import annotations

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.ops.base import Operator
from superopt.ops.elementwise.activation import Softmax
from superopt.ops.elementwise.arithmetic import Add, Divide, Multiply
from superopt.ops.elementwise.selection import Select
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.shape import Concat, Reshape
from superopt.optimizer.parallel.licences import Licences, declared, divisions_of
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import ParallelObjective
from superopt.optimizer.parallel.terms import TermDimension
from tests.optimizer.graphs import Builder
from tests.optimizer.parallel.networks import devices, mlp

COLUMNS = (
    "matmul(x, y)"
    " = combine[axis=-1, degree=d](matmul(replicate[degree=d](x), partition[axis=-1, degree=d](y)))"
)
ROWS = (
    "matmul(x, y)"
    " = reduce[degree=d](matmul(partition[axis=-1, degree=d](x), partition[axis=-2, degree=d](y)))"
)
SQUARE = (
    "mul(combine[axis=a, degree=d](x), combine[axis=a, degree=d](x)) = combine[axis=a, degree=d](mul(x, x))"
)
ANY_AXIS = "partition[axis=a, degree=d](relu(x)) = relu(partition[axis=a, degree=d](x))"


@pytest.mark.parametrize(
    ("equation", "operator", "inputs", "output"),
    [
        (COLUMNS, "matmul", (None, -1), -1),
        (ROWS, "matmul", (-1, -2), None),
        (ANY_AXIS, "relu", ("a",), "a"),
        ("relu(combine[axis=0, degree=d](x)) = combine[axis=0, degree=d](relu(x))", "relu", (0,), 0),
    ],
)
def test_an_equation_says_how_an_operator_is_divided(
    equation: str, operator: str, inputs: tuple[object, ...], output: object
) -> None:
    (found,) = divisions_of(parse_equation(equation), "some rule")
    assert (found.operator, found.inputs, found.output) == (operator, inputs, output)


@pytest.mark.parametrize(
    "equation",
    [
        "relu(relu(x)) = relu(x)",
        "combine[axis=a, degree=d](partition[axis=a, degree=d](x)) = x",
        "combine[axis=0, degree=d](relu(partition[axis=0, degree=d](x))) = tanh(x)",
        "replicate[degree=d](relu(x)) = relu(replicate[degree=d](x))",
        SQUARE,
        "tanh(combine[axis=0, degree=d](relu(x))) = combine[axis=0, degree=d](tanh(relu(x)))",
    ],
)
def test_most_equations_say_nothing_about_dividing(equation: str) -> None:
    assert not list(divisions_of(parse_equation(equation), "some rule"))


def test_only_licensed_dimensions_are_divided() -> None:
    licences = Licences([*divisions_of(parse_equation(COLUMNS), "columns")])
    subject = Subject.of(mlp(8, 2048, 2048))
    (product,) = subject.operations
    assert [licences.rule(product, number) for number in range(3)] == [None, "columns", None]
    planned = Planner(devices(4), ParallelObjective.LATENCY, licences.allow).plan(subject.graph)
    assert planned.best.plan.parallel[product.node].degrees == (1, 4, 1)


HEADS = "matmul(partition[axis=a, degree=d](x), partition[axis=a, degree=d](y))"


@pytest.mark.parametrize(
    ("equation", "covered"),
    [
        (f"{HEADS} => partition[axis=a, degree=d](matmul(x, y)) where rank(x) = rank(y)", False),
        (COLUMNS, True),
        (COLUMNS + " where dim(y, -1) = 2048", True),
        (COLUMNS + " where dim(y, -1) = 2047", False),
        (COLUMNS.replace("degree=d", "degree=2"), False),
    ],
)
def test_a_rule_licenses_what_fulfils_its_clauses(equation: str, *, covered: bool) -> None:
    licences = Licences([*divisions_of(parse_equation(equation), "rule")])
    (product,) = Subject.of(mlp(8, 2048, 2048)).operations
    assert any(licences.rule(product, number) for number in range(3)) == covered


def test_a_rule_about_one_axis_says_nothing_of_another() -> None:
    equation = (
        "softmax[axis=1](combine[axis=0, degree=d](x)) => combine[axis=0, degree=d](softmax[axis=1](x))"
    )
    licences = Licences([*divisions_of(parse_equation(equation), "rule")])
    for axis, expected in {1: "rule", -1: "rule", 0: None}.items():
        b = Builder()
        (made,) = Subject.of(b.graph(b.add(Softmax(axis=axis), b.input("x", 4, 6)))).operations
        assert licences.rule(made, 0) == expected


@pytest.mark.parametrize(
    ("operator", "slots", "rule"),
    [
        (Add(), (0, 1), "axiom:reduce-of-add"),
        (Multiply(), (0,), "axiom:reduce-of-mul"),
        (Multiply(), (1,), "axiom:reduce-of-mul"),
        (Divide(), (0,), "axiom:reduce-of-div"),
        (Matmul(), (0,), "axiom:matmul-of-reduce-left"),
        (Matmul(), (1,), "axiom:matmul-of-reduce-right"),
        (Concat(0), (0, 1), "axiom:reduce-of-concat"),
        (Reshape((36,)), (0,), "axiom:reduce-of-reshape"),
        (Transpose((1, 0)), (0,), "axiom:reduce-of-permutation"),
        (Select(), (1, 2), None),
    ],
)
def test_axioms_license_partial_sums_as_operands(
    operator: Operator, slots: tuple[int, ...], rule: str | None
) -> None:
    """What no equation licenses is not divided by declaration."""
    axioms = [d for axiom in load_axioms().equations for d in divisions_of(axiom, f"axiom:{axiom.name}")]
    builder = Builder()
    operands = [builder.input(f"x{number}", 6, 6) for number in range(operator.inputs)]
    (made,) = Subject.of(builder.graph(builder.add(operator, *operands))).operations
    terms = [d.slots if isinstance(d, TermDimension) else () for d in made.splits.dimensions]
    assert Licences(axioms, declared).rule(made, terms.index(slots)) == rule


def test_axioms_license_dense_layers_and_the_rest_is_said_to_be_declared() -> None:
    axioms = [d for axiom in load_axioms().equations for d in divisions_of(axiom, f"axiom:{axiom.name}")]
    operations = Subject.of(mlp(8, 64, 64, 64)).operations
    assert Licences(axioms).missing(operations) == ()
    assert Licences([], declared).rule(operations[0], 0) == "declared:matmul"
    assert Licences([], declared).missing(operations[:1]) == (
        "matmul parameter",
        "matmul reduction",
        "matmul sample",
    )
