"""What a theory derives, and what it does not."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation, parse_term
from superopt.generator.generalise.generalisation import explicit
from superopt.generator.prune.derivation import Theory, tree_size
from superopt.ir.terms import Direction

KNOWN = (
    "add(x, y) <=> add(y, x)",
    "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))",
    "relu(relu(x)) => relu(x)",
    "split0[axis=a](concat[axis=a](x, y)) => x",
    "concat[axis=a](relu(x), relu(y)) <=> relu(concat[axis=a](x, y))",
    (
        "conv[stride=s, padding=p, dilation=d, activation=relu](x, y) "
        "<=> relu(conv[stride=s, padding=p, dilation=d](x, y))"
    ),
)

DERIVED = {
    "an instance": ("relu(relu(add(x, y)))", "relu(add(x, y))", True),
    "inside a term": ("transpose(add(x, y))", "transpose(add(y, x))", True),
    "two steps": ("relu(relu(add(x, y)))", "relu(add(y, x))", True),
    "attributes are matched": ("relu(conv[stride=2](x, y))", "conv[stride=2, activation=relu](x, y)", True),
    "attributes differ": ("relu(conv[stride=2](x, y))", "conv[stride=3, activation=relu](x, y)", False),
    "against the direction": ("relu(x)", "relu(relu(x))", True),
    "what both simplify to": (
        "split0[axis=0](concat[axis=0](x, y))",
        "split0[axis=1](concat[axis=1](x, z))",
        True,
    ),
    "another function": ("relu(x)", "transpose(x)", False),
    "other variables": ("matmul(x, y)", "matmul(y, x)", False),
}


@pytest.fixture(name="theory")
def _theory() -> Theory:
    theory = Theory()
    for text in KNOWN:
        equation = parse_equation(text)
        left, right = (tuple(map(explicit, side)) for side in (equation.left, equation.right))
        theory.add(left, right, backward=equation.direction is Direction.BOTH)
    return theory


@pytest.mark.parametrize(("source", "target", "expected"), DERIVED.values(), ids=DERIVED)
def test_derivations(theory: Theory, source: str, target: str, *, expected: bool) -> None:
    assert theory.derives(explicit(parse_term(source)), explicit(parse_term(target))) is expected


def test_one_step_with_commuting_arguments(theory: Theory) -> None:
    source = explicit(parse_term("matmul(matmul(add(x, y), z), w)"))
    assert theory.gives_at_once(source, explicit(parse_term("matmul(add(y, x), matmul(z, w))")))
    assert not theory.gives_at_once(source, explicit(parse_term("matmul(matmul(x, z), w)")))


def test_what_gets_smaller(theory: Theory) -> None:
    assert theory.simplifies(explicit(parse_term("transpose(relu(relu(x)))")))
    assert not theory.simplifies(explicit(parse_term("relu(concat[axis=0](x, y))")))


def test_a_merge_derives_a_deeper_one(theory: Theory) -> None:
    basic = parse_equation(
        "(relu(x), relu(y)) => (split0[axis=0](relu(concat[axis=0](x, y))), "
        "split1[axis=0](relu(concat[axis=0](x, y))))"
    )
    theory.add(basic.left, basic.right, backward=False)
    deeper = parse_equation(
        "(relu(relu(x)), relu(relu(y))) => (split0[axis=0](relu(relu(concat[axis=0](x, y)))), "
        "split1[axis=0](relu(relu(concat[axis=0](x, y)))))"
    )
    assert theory.derives_merge(deeper.left, deeper.right)
    other = parse_equation(
        "(relu(x), relu(y)) => (split0[axis=1](relu(concat[axis=1](x, y))), "
        "split1[axis=1](relu(concat[axis=1](x, y))))"
    )
    assert not theory.derives_merge(other.left, other.right)


def test_trees_count_shared_work_twice() -> None:
    assert tree_size(parse_term("add(relu(x), relu(x))")) == 3
