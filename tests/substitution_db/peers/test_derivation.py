"""Which rules follow from a library, in how many steps, and which do not although they hold."""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import replace

import pytest

from superopt.equations import parse_equation, rule_id
from superopt.ir.terms import Direction
from superopt.journeys.library.peers.derivation import TYPINGS, identities, questions
from superopt.rewriting.derivability import Bounds, Derivation, Theory

EQUATIONS = tuple(
    map(
        parse_equation,
        (
            "add(x, y) <=> add(y, x)",
            "add(x, add(y, z)) <=> add(y, add(x, z))",
            "relu(relu(x)) => relu(x)",
            "relu(concat[axis=a](x, y)) <=> concat[axis=a](relu(x), relu(y))",
            "split0[axis=a](concat[axis=a](x, y)) => x",
            "split1[axis=a](concat[axis=a](x, y)) => y",
            "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))",
            "concat[axis=1](conv[stride=s, padding=p](x, y), conv[stride=s, padding=p](x, z)) <=> conv[stride=s, padding=p](x, concat[axis=0](y, z)) where groups(x, y) = 1",
            "relu(conv[stride=s, padding=p](x, y)) <=> conv[stride=s, padding=p, activation=relu](x, y)",
            "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), split1[axis=-1](matmul(x, concat[axis=-1](y, z))))",
        ),
    )
)

LIBRARY = Theory(replace(equation, direction=Direction.BOTH) for equation in EQUATIONS)


def derived(rule: str, bounds: Bounds = Bounds(), typings: int = TYPINGS) -> Derivation | None:  # noqa: B008
    """The derivation of a rule from the library, every equation of which is read both ways."""
    return LIBRARY.derive(questions(parse_equation(rule), typings), bounds)


NOT_AT_ALL = None
DERIVATIONS = {
    "add(z, w) => add(w, z)": Derivation(0, instance=False),
    "concat[axis=0](concat[axis=0](x, y), z) => concat[axis=0](x, concat[axis=0](y, z))": Derivation(
        0, instance=False
    ),
    "relu(relu(add(x, y))) => relu(add(y, x))": Derivation(1, instance=True),
    "sigmoid(relu(relu(x))) => sigmoid(relu(x))": Derivation(1, instance=False),
    "relu(x) => relu(relu(x))": Derivation(1, instance=True),
    "relu(relu(relu(x))) => relu(x)": Derivation(2, instance=False),
    "matmul(matmul(x, y), add(z, w)) => matmul(x, matmul(y, add(w, z)))": Derivation(1, instance=True),
    "matmul(x, matmul(y, matmul(z, w))) => matmul(matmul(matmul(x, y), z), w)": Derivation(2, instance=False),
    "matmul(matmul(matmul(x, y), z), matmul(w, v)) => matmul(x, matmul(y, matmul(matmul(z, w), v)))": Derivation(
        3, instance=False
    ),
    "split0[axis=1](relu(concat[axis=1](x, y))) => relu(x)": Derivation(2, instance=False),
    "(relu(x), relu(y)) => (split0[axis=0](relu(concat[axis=0](x, y))), split1[axis=0](relu(concat[axis=0](x, y))))": Derivation(
        3, instance=False
    ),
    "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), split1[axis=-1](matmul(x, concat[axis=-1](y, z))))": Derivation(
        1, instance=True
    ),
    "concat[axis=1](conv[padding=same](x, y), conv[padding=same](x, z)) => conv[padding=same](x, concat[axis=0](y, z)) where groups(x, y) = 1": Derivation(
        1, instance=True
    ),
    "relu(concat[axis=1](conv(x, y), conv(x, z))) => conv[activation=relu](x, concat[axis=0](y, z)) where groups(x, y) = 1": Derivation(
        2, instance=False
    ),
    # operands of concats are taken together as a rule needs them
    "relu(concat[axis=0](x, concat[axis=0](y, z))) => concat[axis=0](relu(concat[axis=0](x, y)), relu(z))": Derivation(
        1, instance=True
    ),
    # true, but nothing in the library says so
    "transpose(transpose(x)) => x": NOT_AT_ALL,
    "mul(x, y) => mul(y, mul(x, ones()))": NOT_AT_ALL,
    # false
    "matmul(x, y) => matmul(y, x)": NOT_AT_ALL,
    "add(x, add(y, z)) => add(x, add(y, y))": NOT_AT_ALL,
    "split0[axis=a](concat[axis=a](x, y)) => y": NOT_AT_ALL,
    # no typing
    "matmul(relu(x), y) => matmul(relu(x), full[value=1, shape=(2,)]())": NOT_AT_ALL,
}


@pytest.mark.parametrize("rule", DERIVATIONS)
def test_derivation(rule: str) -> None:
    assert derived(rule) == DERIVATIONS[rule]


def test_a_rule_that_holds_without_groups_only_does_not_follow_with_them() -> None:
    rule = "concat[axis=1](conv(x, y), conv(x, z)) => conv(x, concat[axis=0](y, z))"
    assert derived(rule, typings=12) is None


def test_bounds() -> None:
    rule = "relu(relu(relu(x))) => relu(x)"
    assert derived(rule, Bounds(steps=1)) is None
    assert derived(rule, Bounds(graphs=0)) is None
    assert derived("relu(relu(x)) => relu(x)", Bounds(steps=0)) is None
    assert derived("add(x, y) => add(y, x)", Bounds(steps=0)) == Derivation(0, instance=False)


@pytest.mark.parametrize(
    ("rule", "known"),
    [
        ("relu(relu(a)) => relu(a)", True),
        ("add(b, a) => add(a, b)", True),
        ("matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)", False),
        ("matmul(matmul(x, y), z) => matmul(x, matmul(y, z))", True),
        ("relu(tanh(x)) => relu(x)", False),
    ],
)
def test_the_same_rule_under_other_names(rule: str, known: bool) -> None:  # noqa: FBT001
    assert (rule_id(parse_equation(rule)) in identities(EQUATIONS)) is known
