"""What a theory derives and what it does not: in which directions, under which conditions, at which sizes."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from superopt.equations import parse_equation, parse_term
from superopt.journeys.library.peers.derivation import questions
from superopt.rewriting.derivability import Bounds, Theory, tree_size
from superopt.rewriting.egraph import SaturationLimits

KNOWN = (
    "add(x, y) <=> add(y, x)",
    "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))",
    "relu(relu(x)) => relu(x)",
    "tanh(x) => mul(x, sigmoid(x))",
    "split0[axis=a](concat[axis=a](x, y)) => x",
    "split1[axis=a](concat[axis=a](x, y)) => y",
    "concat[axis=a](relu(x), relu(y)) <=> relu(concat[axis=a](x, y))",
    "transpose(softmax[axis=-2](x)) <=> softmax[axis=-1](transpose(x)) where rank(x) = 2",
    "conv[stride=s, padding=p, dilation=d, activation=relu](x, y) <=> relu(conv[stride=s, padding=p, dilation=d](x, y))",
)

DERIVED = {
    "an instance": ("relu(relu(add(x, y))) => relu(add(x, y))", True),
    "inside a term": ("transpose(relu(relu(x))) => transpose(relu(x))", True),
    "in both directions": ("matmul(matmul(add(x, y), z), w) <=> matmul(add(y, x), matmul(z, w))", True),
    "attributes are matched": ("relu(conv[stride=2](x, y)) <=> conv[stride=2, activation=relu](x, y)", True),
    "attributes differ": ("relu(conv[stride=2](x, y)) <=> conv[stride=3, activation=relu](x, y)", False),
    "along the only direction": ("relu(tanh(x)) => relu(mul(x, sigmoid(x)))", True),
    "against the only direction": ("relu(mul(x, sigmoid(x))) => relu(tanh(x))", False),
    "in one direction of two": ("relu(tanh(x)) <=> relu(mul(x, sigmoid(x)))", False),
    "to a target that shrinks": ("relu(x) => relu(relu(x))", True),
    "to what both sides shrink to": (
        "split0[axis=0](concat[axis=0](x, y)) => split0[axis=1](concat[axis=1](x, z))",
        True,
    ),
    "outputs that are merged only by undoing it": (
        "(relu(x), relu(y)) => (split0[axis=0](relu(concat[axis=0](x, y))), split1[axis=0](relu(concat[axis=0](x, y))))",
        False,
    ),
    "under its condition": (
        "transpose(softmax[axis=-2](x)) <=> softmax[axis=-1](transpose(x)) where rank(x) = 2",
        True,
    ),
    "without the condition": ("transpose(softmax[axis=-2](x)) <=> softmax[axis=-1](transpose(x))", False),
    "another function": ("relu(x) => tanh(x)", False),
    "other variables": ("matmul(x, y) => matmul(y, x)", False),
    "two steps for a small equation": ("relu(add(tanh(x), y)) => relu(add(y, mul(x, sigmoid(x))))", True),
    "no step, two spellings": ("matmul(add(x, y), z) <=> matmul(add(y, x), z)", False),
}


@pytest.mark.parametrize(("text", "expected"), DERIVED.values(), ids=DERIVED)
def test_what_follows(text: str, *, expected: bool) -> None:
    theory = Theory(map(parse_equation, KNOWN))
    assert theory.follows(questions(parse_equation(text))) is expected


def test_a_small_equation_follows_in_one_step_or_when_a_side_shrinks() -> None:
    over, back = (
        "mul(x, add(y, z)) <=> add(mul(x, y), mul(x, z))",
        "add(mul(x, y), mul(x, z)) <=> mul(add(y, z), relu(x))",
    )
    asked = "mul(x, add(y, z)) <=> mul(add(y, z), relu(x))"
    assert not Theory(map(parse_equation, (over, back))).follows(questions(parse_equation(asked)))
    found = Theory(map(parse_equation, (over, back))).derive(questions(parse_equation(asked)), Bounds())
    assert found is not None
    assert found.steps == 2
    shrinking = (
        "add(mul(x, y), mul(x, z)) => mul(x, add(y, z))",
        "mul(x, add(y, z)) => mul(relu(x), add(y, z))",
    )
    assert Theory(map(parse_equation, shrinking)).follows(
        questions(parse_equation("add(mul(x, y), mul(x, z)) => mul(relu(x), add(y, z))"))
    )


def test_no_step_may_change_a_type() -> None:
    """Products of matrices and of elements have the same shape for square matrices alone."""
    theory = Theory(
        map(parse_equation, ("mul(x, y) <=> matmul(x, y)", "relu(matmul(x, y)) <=> tanh(mul(x, y))"))
    )
    asked = "relu(mul(x, y)) => tanh(mul(x, y))"
    assert theory.derive(questions(parse_equation(asked)), Bounds()) is None
    square = f"{asked} where rank(x) = 2, dim(x, 0) = dim(x, 1)"
    assert theory.derive(questions(parse_equation(square)), Bounds()) is not None


def test_a_merge_derives_another() -> None:
    merge = "(relu(x), relu(y)) => (split0[axis={0}](relu(concat[axis={0}](x, y))), split1[axis={0}](relu(concat[axis={0}](x, y))))"
    deeper = (
        "(relu(tanh(x)), relu(tanh(y))) => (split0[axis=0](relu(concat[axis=0](tanh(x), tanh(y)))), "
        "split1[axis=0](relu(concat[axis=0](tanh(x), tanh(y)))))"
    )
    assert Theory([parse_equation(merge.format(0))]).follows(questions(parse_equation(deeper)))
    assert not Theory([parse_equation(merge.format(1))]).follows(questions(parse_equation(deeper)))


def test_equations_may_be_added_between_questions() -> None:
    theory, asked = Theory(), [*questions(parse_equation("relu(relu(tanh(x))) => relu(tanh(x))"))]
    assert not theory.follows(asked)
    assert not theory.saturated(asked, SaturationLimits()).derived
    theory.add(parse_equation("relu(relu(x)) => relu(x)"))
    assert theory.follows(asked)
    assert theory.saturated(asked, SaturationLimits()).derived == dict.fromkeys(range(len(asked)), 1)


def test_an_equation_without_a_typing_does_not_follow() -> None:
    assert not Theory(map(parse_equation, KNOWN)).follows(())


def test_trees_count_shared_work_twice() -> None:
    assert tree_size(parse_term("add(relu(x), relu(x))")) == 3
