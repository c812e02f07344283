"""Conditions: decided, or not fulfilled; and what has no meaning is refused when a rule is made."""

from __future__ import annotations

from fractions import Fraction

import pytest

from superopt.equations import parse_equation
from superopt.errors import InvalidEquationError
from superopt.ir import ElementType, TensorType, symbol
from superopt.rewriting import as_declared, holds, substitutions_of

N = symbol("n")
TYPES = {
    "x": TensorType(ElementType.FLOAT, (N, 4, 8, 8)),
    "w": TensorType(ElementType.FLOAT, (6, 2, 3, 3)),
    "v": TensorType(ElementType.FLOAT, (N + 1,)),
}
ATTRIBUTES: dict[str, object] = {
    "k": (3, 5),
    "e": (2, 4),
    "s": 2,
    "p": "same",
    "a": -1,
    "t": (6, 2, 3, 3),
    "f": Fraction(1, 2),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("odd(k)", True),
        ("odd(e)", False),
        ("even(e)", True),
        ("even(k)", False),
        ("odd(s)", False),
        ("s = 2", True),
        ("s != 2", False),
        ("s >= 2", True),
        ("s < 2", False),
        ("p = same", True),
        ("p != valid", True),
        ("p != same", False),
        ("k = (3, 5)", True),
        ("k != (3, 3)", True),
        ("rank(x) = 4", True),
        ("dim(x, 1) = 4", True),
        ("dim(x, -1) = dim(x, 2)", True),
        ("dim(x, 0) = 1", False),
        ("dim(x, 0) != 1", False),
        ("dim(x, 0) = dim(v, 0)", False),
        ("dim(x, 0) != dim(v, 0)", True),
        ("dim(x, 0) < dim(v, 0)", True),
        ("dim(x, 0) >= dim(v, 0)", False),
        ("dim(x, 0) < 5", False),
        ("channels(w) = 2", True),
        ("groups(x, w) = 2", True),
        ("outputs_per_group(x, w) = 3", True),
        ("outputs_per_group(v, w) = 0", True),
        ("axis(x, a) = 3", True),
        ("x = w", False),
        ("shape(x) = shape(x)", True),
        ("shape(w) = t", True),
        ("shape(x) = t", False),
        ("shape(x) != t", False),
        ("leading(w) = leading(t)", True),
        ("leading(w) = (6, 2, 3)", True),
        ("dim(t, -1) = dim(w, 3)", True),
        ("dim(t, 4) = 0", True),
        ("f >= 0", True),
        ("f < 1", True),
        ("f > 1", False),
        ("f != 0", True),
    ],
)
def test_conditions(text: str, *, expected: bool) -> None:
    (condition,) = parse_equation(f"y = y where {text}").conditions
    assert holds(condition, TYPES, ATTRIBUTES) is expected


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("relu(x) => x where odd(k)", "the condition names k, which the source does not have"),
        ("relu(x) => x where rank(y) = 2", "the condition names y, which the source does not have"),
        (
            "relu(x) => x where prime(x)",
            "unknown function prime in a condition; known: axis, channels, ",
        ),
        ("relu(x) => x where dim(x) = 2", "dim takes 2 arguments in a condition, got 1"),
        ("x => relu(x)", "the source is a bare variable, which matches everything"),
        ("relu(x) => add(x, y)", "the target uses y, which the source does not have"),
        (
            "relu(x) => softmax[axis=a](x)",
            "the target uses the attribute a, which the source does not ",
        ),
    ],
)
def test_malformed_rules(rule: str, message: str) -> None:
    with pytest.raises(InvalidEquationError) as error:
        substitutions_of(parse_equation(rule), "id")
    assert str(error.value).startswith(f"malformed rule: {message}")


@pytest.mark.parametrize(
    ("rule", "ways"),
    [
        ("relu(relu(x)) => relu(x)", "forward"),
        ("relu(relu(x)) <=> relu(x)", "forward backward"),
        ("relu(x) = relu(relu(x))", "forward backward"),
        ("transpose(transpose(x)) <=> x", "forward"),
        ("x = transpose(transpose(x))", "backward"),
        ("relu(x) <=> avgpool[kernel=k](x) where odd(k)", "backward"),
    ],
)
def test_the_ways_a_rule_can_be_used(rule: str, ways: str) -> None:
    found = substitutions_of(parse_equation(rule), "id")
    assert " ".join("backward" if s.backwards else "forward" for s in found) == ways


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("add(x: f32[n, 4, h, h], v) = x", True),
        ("add(x: f32[n, m, h, w], v: f32[c]) = x", True),
        ("add(x: f32[n, n, h, w], v) = x", False),
        ("add(x: f32[n, m, h], v) = x", False),
        ("add(x: f16[n, m, h, w], v) = x", False),
        ("add(x: f32[n, 5, h, w], v) = x", False),
        ("add(x: f32[n, m, h, w], v: f32[n]) = x", False),
    ],
)
def test_declared_types(declared: str, *, expected: bool) -> None:
    assert as_declared(parse_equation(declared).types, TYPES) is expected
