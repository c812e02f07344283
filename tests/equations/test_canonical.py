"""The canonical form and the id of a rule: what is the same rule has the same id, and nothing else."""

from __future__ import annotations

import random
import re

import pytest

from superopt.equations import canonical, format_equation, parse_equation, rule_id, spelled, text_id
from superopt.ir import Application, Equation, Variable

RULES = (
    "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)",
    "concat[axis=-1](matmul(x, y), matmul(x, z)) => matmul(x, concat[axis=-1](y, z))",
    (
        "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), "
        "split1[axis=-1](matmul(x, concat[axis=-1](y, z))))"
    ),
    "relu(conv[stride=s, padding=p](x, w)) <=> conv[stride=s, padding=p, activation=relu](x, w)",
    "conv[padding=same](x, w) => conv[padding=same](x, enlarge[kernel=k](w)) where odd(k), k > 1",
    "add(x: f32[n, m], y) => add(y, x)",
)


def test_the_canonical_form_of_each() -> None:
    assert [format_equation(canonical(parse_equation(text))) for text in RULES] == [
        "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)",
        "concat[axis=-1](matmul(x, y), matmul(x, z)) => matmul(x, concat[axis=-1](y, z))",
        (
            "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), "
            "split1[axis=-1](matmul(x, concat[axis=-1](y, z))))"
        ),
        "relu(conv[stride=s, padding=p](x, y)) <=> conv[stride=s, padding=p, activation=relu](x, y)",
        "conv[padding=same](x, y) => conv[padding=same](x, enlarge[kernel=k](y)) where odd(k), k > 1",
        "add(x: f32[n0, n1], y) => add(y, x)",
    ]


def renamed(text: str, chance: random.Random) -> str:
    fresh = [f"t{i}" for i in range(20)]
    chance.shuffle(fresh)
    for name in ("x", "y", "z", "w", "s", "p", "k", "n", "m"):
        text = re.sub(rf"\b{name}\b", fresh.pop(), text)
    return text


@pytest.mark.parametrize("text", RULES)
def test_renaming_keeps_the_id(text: str) -> None:
    equation = parse_equation(text)
    for seed in range(5):
        other = parse_equation(renamed(text, random.Random(seed)))
        assert rule_id(other) == rule_id(equation)
        assert canonical(other) == canonical(equation)


@pytest.mark.parametrize("text", RULES)
def test_canonical_is_canonical(text: str) -> None:
    once = canonical(parse_equation(text))
    assert canonical(once) == once
    assert rule_id(once) == rule_id(parse_equation(text))
    assert len(rule_id(once)) == 16


@pytest.mark.parametrize("text", RULES)
def test_the_id_is_the_hash_of_the_one_spelling(text: str) -> None:
    equation = parse_equation(renamed(text, random.Random(0)))
    turned = equation.reversed() if "<=>" in text else equation
    assert text_id(format_equation(spelled(turned))) == rule_id(equation)
    assert spelled(turned) == spelled(equation)


def test_ways_and_orders() -> None:
    forward = parse_equation("(relu(x), matmul(x, y)) => (relu(x), matmul(y, x))")
    swapped = parse_equation("(matmul(x, y), relu(x)) => (matmul(y, x), relu(x))")
    backward = parse_equation("(relu(x), matmul(y, x)) => (relu(x), matmul(x, y))")
    assert rule_id(forward) == rule_id(swapped)
    assert rule_id(forward) != rule_id(backward)
    both = parse_equation("relu(x) <=> add(x, y)")
    assert rule_id(both) == rule_id(parse_equation("add(y, x) <=> relu(y)"))
    assert rule_id(both) != rule_id(parse_equation("relu(x) => add(x, y)"))
    assert rule_id(parse_equation("relu(x) => add(x, x)")) != rule_id(parse_equation("add(x, x) => relu(x)"))


def test_all_rules_have_different_ids_and_a_condition_matters() -> None:
    assert len({rule_id(parse_equation(text)) for text in RULES}) == len(RULES)
    with_condition = parse_equation("relu(x) => x where rank(x) = 2")
    assert rule_id(with_condition) != rule_id(parse_equation("relu(x) => x"))
    assert rule_id(with_condition) == rule_id(parse_equation("relu(y) => y where rank(y) = 2"))


def test_a_spelled_out_default_is_no_difference() -> None:
    written = Application("softmax", (("axis", -1),), (Variable("x"),))
    equation = Equation((written,), (written,))
    assert rule_id(equation) == rule_id(parse_equation("softmax(x) = softmax(x)"))
