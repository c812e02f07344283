"""Ranks up to which cases are gone through, and rules for which no such rank is known."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import pytest

from superopt.equations import parse_equation
from superopt.errors import IllTypedError, SuperoptError
from superopt.instances.values import Bound
from superopt.ir.terms import Application, Variable
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import OPERATORS, operator_from_attributes
from superopt.rewriting.claims import MOST_RANK, most_rank
from superopt.verifier.certificates.attribute_cases import attribute_cases
from superopt.verifier.certificates.condition_forms import axis_variables
from superopt.verifier.certificates.rank_bound import highest_rank, largest_rank
from superopt.verifier.certificates.rank_classes import axes_of_one_rank, same_rank


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("relu(x) => tanh(x)", 2),
        ("concat[axis=a](x, y) => concat[axis=a](y, x)", 3),
        ("softmax[axis=-3](concat[axis=3](x, y)) => concat[axis=3](x, y)", 9),
        ("transpose(transpose(x)) => x", 6),
        ("relu(x) => tanh(x) where rank(x) = 7", 16),
        ("relu(x) => tanh(x) where rank(x) <= 7", 8),
        ("relu(x: f32[2, n, 3]) => tanh(x)", 8),
        ("relu(ones[shape=(2, 2, 2)]()) => x", 8),
        ("relu(x) => tanh(x) where leading(x) != (1, 2)", 8),
        ("softmax[axis=a](x) => softmax[axis=0](x) where a != 7", 11),
        ("softmax[axis=a](x) => softmax[axis=0](x) where a != -7", 11),
        ("reshape[shape=s](relu(x)) => relu(reshape[shape=s](x))", MOST_RANK),
        ("transpose[perm=p](relu(x)) => relu(transpose[perm=p](x))", MOST_RANK),
    ],
)
def test_ranks_go_up_to_where_nothing_new_happens(text: str, rank: int) -> None:
    assert largest_rank(parse_equation(text)) == rank


def test_numbers_that_ask_for_too_many_ranks_are_refused() -> None:
    with pytest.raises(
        IllTypedError, match="expected numbers that ask for ranks up to 32 to be checked, got 202"
    ):
        largest_rank(parse_equation("relu(x) => tanh(x) where rank(x) != 100"))


@pytest.mark.parametrize(
    "clause",
    [
        *("b = min(a, 7)", "a*a = 8*a", "dim(x, 8*a) = dim(x, 0)", "dim(x, 0) = a", "product(a, 1) != 1"),
        *("product(rank(x), 1) != 2", "dim((0, 1, 0), rank(x)) = 1", "dim(x, product(3, 4)) = 2"),
        *("product(axis(x, a), 1) != 1", "axis(x, dim(x, 6)) >= 0", "axis(x, odd(dim(x, 6))) >= 0"),
        "odd(composed((1, 1), shape(x))) = 1",
    ],
)
def test_a_condition_may_not_calculate_with_axes(clause: str) -> None:
    goal = parse_equation(f"add(softmax[axis=a](x), softmax[axis=b](x)) => x where {clause}")
    with pytest.raises(IllTypedError, match="is not of a form of which all cases are known"):
        list(attribute_cases(goal, 3, 3))


@pytest.mark.parametrize(
    "text",
    [
        "(softmax[axis=a](x), softmax[axis=a](y)) => (softmax[axis=0](x), softmax[axis=0](y))",
        "(softmax[axis=a](x), relu(y)) => (softmax[axis=0](x), relu(y)) where dim(y, a) = 2",
        "(softmax[axis=a](x), softmax[axis=b](y)) => (x, y) where axis(x, a) < axis(y, b)",
        "(softmax[axis=a](x), softmax[axis=b](y)) => (x, y) where a < b",
        "(softmax(x), softmax(y)) => (x, y) where axis(x, -1) = axis(y, 0)",
        "softmax[axis=a](matmul(x, softmax[axis=a](y))) => matmul(x, softmax[axis=a](broadcast(y)))",
        "(softmax[axis=a](matmul(x, y)), softmax[axis=a](matmul(x, z))) => (matmul(x, y), matmul(x, z))",
        "(softmax[axis=a](bias_add(x, s)), relu(bias_add(y, s))) => (x, y) where dim(y, a) = 2",
    ],
)
def test_an_axis_is_one_of_tensors_of_one_rank(text: str) -> None:
    with pytest.raises(IllTypedError, match="a variable is an axis of tensors whose ranks may differ"):
        largest_rank(parse_equation(text.replace("bias_add(", "bias_add[axis=0](")))


@pytest.mark.parametrize(
    "text",
    [
        "add(softmax[axis=a](x), y) => add(y, softmax[axis=a](x)) where dim(y, a) = 2",
        "matmul(softmax[axis=a](x), y) => matmul(x, softmax[axis=a](y))",
        "(softmax[axis=a](x), softmax[axis=a](y)) => (x, y) where rank(x) = rank(y)",
        "(softmax[axis=a](x), softmax[axis=a](y)) => (x, y) where leading(x) = leading(y)",
        "(softmax[axis=a](x), softmax[axis=a](y: f32[2, n])) => (x, y)",
        "(softmax[axis=a](x), softmax[axis=a](global_avgpool(y))) => (x, y)",
        "(softmax[axis=a](matmul(x, y)), softmax[axis=a](matmul(relu(x), tanh(y)))) => (x, x)",
    ],
)
def test_an_axis_of_tensors_of_one_rank_or_of_few_is_known(text: str) -> None:
    assert largest_rank(parse_equation(text)) <= 12


@pytest.mark.parametrize(
    "clause",
    [
        *("rank(x) < rank(y)", "rank(x) != rank(y)", "leading(x) = shape(y)", "shape(x) != shape(y)"),
        *("shape(x) = leading(y)", "x != y", "rank(x) = dim(y, 0)", "leading(x) != leading(y)"),
    ],
)
def test_a_condition_may_not_order_ranks(clause: str) -> None:
    goal = parse_equation(f"(relu(x), relu(y)) => (relu(x), relu(y)) where {clause}")
    with pytest.raises(IllTypedError, match="a condition"):
        largest_rank(goal)


def test_operands_have_the_rank_of_the_result() -> None:
    """``same_rank`` and the positions say of every operator which ranks fit, at all ranks to 6."""
    seen = 0
    for name, operator in sorted(OPERATORS.items()):
        if operator.positions is None or operator.repeats or operator.in_graphs or name == "split":
            continue
        fitting = list(ranks_of(name))
        seen += bool(fitting)
        inputs = tuple(Variable(f"x{n}") for n in range(operator.inputs))
        same = [inputs.index(each) for each in same_rank(Application(name, (), inputs))]
        for ranks, (result, *_) in fitting:
            assert all(ranks[place] == result for place in same), (name, ranks, result)
            high = {rank for rank in (*ranks, result) if rank > operator.positions}
            assert len(high) <= 1, (name, ranks, result)
            if operator.positions == 4:
                assert not high, (name, ranks, result)
    assert seen > 60


def ranks_of(name: str) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The ranks of operands that an operator accepts, and those of its results."""
    known: dict[str, object] = {
        "axis": 0,
        "perm": (),
        "shape": (2, 2),
        "kernel": (1, 1),
        "size": 1,
        "degree": 2,
    }
    names = [field.name for field in dataclasses.fields(OPERATORS[name])]  # type: ignore[arg-type]
    operator = operator_from_attributes(
        name, {each: known[each] if each in known else Bound().values(name, each, ())[0] for each in names}
    )
    for ranks in itertools.product(range(7), repeat=operator.inputs):
        types = [TensorType(ElementType.FLOAT, (24,) * rank) for rank in ranks]
        try:
            yield ranks, tuple(type_.rank for type_ in operator.infer(*types))
        except SuperoptError:
            continue


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("softmax[axis=a](lookup(t, i)) => softmax[axis=0](lookup(t, i))", 5),
        ("transpose[perm=p](relu(full[value=1, shape=(2, 2, 2, 2, 2, 2, 2)]())) => x", 6),
    ],
)
def test_axes_of_all_terms_are_tried(text: str, rank: int) -> None:
    equation = parse_equation(text)
    assert highest_rank(equation, MOST_RANK) == rank + 1
    if "axis=a" in text:
        axes = {case["a"] for case in attribute_cases(equation, MOST_RANK, highest_rank(equation, MOST_RANK))}
        assert axes == set(range(rank + 1))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("concat[axis=a](relu(x), y) => relu(concat[axis=a](x, y))", "a"),
        ("concat[axis=a](softmax[axis=b](x), y) => x where axis(x, a) != axis(y, b)", "ab"),
        ("reduce_sum[axis=a](x) => x where dim(x, a) = 1", "a"),
        ("mul(x, broadcast(reduce_sum[axis=a](x))) => softmax[axis=a](x)", "a"),
        ("mul(x, broadcast(reduce_sum[axis=a](y))) => softmax[axis=a](x)", ""),
        ("softmax[axis=a](matmul(x, y)) => matmul(softmax[axis=a](x), y)", ""),
        ("softmax[axis=a](matmul(x, x)) => matmul(x, softmax[axis=a](x))", ""),
        ("softmax[axis=a](transpose(x)) => transpose(softmax[axis=a](x))", "a"),
        ("softmax[axis=a](x) => x where a < 2", ""),
        ("softmax[axis=a](x) => x where a = -1", ""),
        ("softmax[axis=a](softmax[axis=b](x)) => x where a != b", ""),
        ("softmax[axis=a](x) => add(x, softmax[axis=-1](x))", "a"),
        ("softmax[axis=a](x) => softmax[axis=a](reshape[shape=s](x))", ""),
    ],
)
def test_axes_from_the_back_are_left_out_where_all_tensors_have_one_rank(text: str, names: str) -> None:
    equation = parse_equation(text)
    assert axes_of_one_rank(equation) == frozenset(names)
    for name in axis_variables(equation):
        axes = {case[name] for case in attribute_cases(equation, 4, 4)}
        assert axes == set(range(0 if name in names else -4, 4))


def test_a_shape_that_is_left_out_is_that_of_a_variable() -> None:
    with pytest.raises(IllTypedError, match="a shape that is left out may be of any rank"):
        largest_rank(parse_equation("reshape[shape=s](broadcast(x)) => reshape[shape=s](broadcast(relu(x)))"))
    assert largest_rank(parse_equation("reshape[shape=s](add(x, broadcast(y))) => x")) == MOST_RANK


def test_a_rule_that_reshapes_speaks_of_few_ranks() -> None:
    assert most_rank(parse_equation("reshape[shape=(2, 3)](x) => relu(x)")) == MOST_RANK
    assert most_rank(parse_equation("transpose[perm=(1, 0)](x) => relu(x)")) is None
