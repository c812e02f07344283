"""Gradients are found by their values, without any statement about derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pytest

from superopt.domains import Domain
from superopt.equations import format_term, parse_term
from superopt.generator.adjoints import gradients, is_total, load_vocabulary, operators_in
from superopt.ops import Operator
from superopt.verifier.adjoints.products import vector_jacobian_product
from tests.generator.adjoints.goals import every_found, first_found, goal, problem_of

A = TypeVar("A")

FOUND = [
    ("add", 1, 0, "g"),
    ("exp", 0, 0, "mul(g, exp(x))"),
    ("log", 0, 0, "div(g, x)"),
    ("sqrt", 0, 0, "div(scale(g, full[value=1/2]), sqrt(x))"),
    ("tanh", 0, 0, "mul(g, sub(ones(), mul(tanh(x), tanh(x))))"),
    ("relu", 0, 0, "select(greater(relu(x), full[value=0]), g, full[value=0])"),
    ("leaky_relu", 0, 0, "select(greater(x, full[value=0]), g, scale(g, full[value=a]))"),
    ("matmul", 0, 0, "matmul(g, transpose(y))"),
    ("matmul", 0, 3, "sum_to(matmul(g, transpose(y)))"),
    ("reduce_sum", 0, 0, "broadcast(g)"),
    ("split1", 0, 0, "concat[axis=a](full[value=0], g)"),
    ("lookup", 0, 0, "lookup_gradient(y, g)"),
    (
        "softmax",
        0,
        0,
        "mul(sub(g, broadcast(reduce_sum[axis=a](mul(g, softmax[axis=a](x))))), softmax[axis=a](x))",
    ),
    ("conv", 0, 1, "conv_data_gradient[stride=s, padding=p, dilation=d](g, y)"),
    ("conv", 1, 0, "conv_weight_gradient[stride=s, padding=p, dilation=d](x, g)"),
]


@pytest.mark.parametrize(("operator", "operand", "application", "gradient"), FOUND)
def test_the_gradient_is_found(operator: str, operand: int, application: int, gradient: str) -> None:
    assert gradient in first_found(problem_of(goal(operator, operand, application)))


def test_the_gradient_of_tanh_as_printed_in_a_paper_is_not_found() -> None:
    """RAF, section 3.1.1, has 1 - 2y."""
    found = every_found(problem_of(goal("tanh")))
    assert "mul(g, sub(ones(), mul(tanh(x), tanh(x))))" in found
    assert (
        not {
            f"mul(g, sub(ones(), {twice}))"
            for twice in ("add(tanh(x), tanh(x))", "scale(tanh(x), full[value=2])")
        }
        & found
    )


def test_another_product_has_other_gradients() -> None:
    def shifted(operator: Operator, operand: int, domain: Domain[A], arrays: Sequence[A], cotangent: A) -> A:
        return domain.add(cotangent, vector_jacobian_product(operator, operand, domain, arrays, cotangent))

    search = replace(load_vocabulary().searches[2], max_ops=1)
    problem = problem_of(goal("exp"))
    found = {format_term(term) for batch in gradients(problem, search, shifted) for term in batch.gradients}
    assert "mul(g, exp(x))" not in found
    assert "add(g, mul(g, exp(x)))" in found


def test_two_operators_at_the_root_are_solved_for() -> None:
    """The last two operators of the gradient of softmax are never enumerated."""
    (search,) = (s for s in load_vocabulary().searches if any(word.name == "softmax" for word in s.words))
    problem = problem_of(goal("softmax"))
    sizes = {
        solved: {
            operators_in(problem, term)
            for batch in gradients(problem, replace(search, solved=solved), vector_jacobian_product)
            for term in batch.gradients
        }
        for solved in (0, 1, 2)
    }
    assert search.max_ops == 3
    assert sizes == {0: set(), 1: set(), 2: {5}}


@pytest.mark.parametrize(
    ("operator", "gradient"),
    [
        ("relu", "select(greater(relu(x), full[value=0]()), g, full[value=0]())"),
        ("sqrt", "div(scale(g, full[value=1/2]()), sqrt(x))"),
    ],
)
def test_a_gradient_may_be_defined_wherever_its_operator_is(operator: str, gradient: str) -> None:
    assert is_total(problem_of(goal(operator)), parse_term(gradient))


def test_a_gradient_that_divides_where_its_operator_does_not_is_told_apart() -> None:
    assert not is_total(problem_of(goal("relu")), parse_term("mul(g, div(relu(x), x))"))
