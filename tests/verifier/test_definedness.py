"""Which steps keep definedness: by the direction of the axiom, else where nothing can be undefined."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from superopt.equations import parse_equation, parse_term
from superopt.ir.terms import AttributeTerm, AttributeVariable
from superopt.verifier.certificates.definedness import is_total, keeps_for_partial, why_undefined

FORWARD = "sub(x, x) => full[value=0]()"
POWER = "mul(power[exponent=e](x), full[value=0]()) => full[value=0]()"
NONE: Mapping[str, AttributeTerm] = {}

STEPS: list[tuple[str, str, bool, str, Mapping[str, AttributeTerm], str]] = [
    ("a direction that it claims", FORWARD, False, "sqrt(y)", NONE, ""),
    ("an equality, either way", "sub(x, y) = add(x, scale(y, full[value=-1]()))", True, "sqrt(y)", NONE, ""),
    ("both directions", "sub(x, y) <=> add(x, scale(y, full[value=-1]()))", True, "sqrt(y)", NONE, ""),
    ("total terms", FORWARD, True, "relu(matmul(y, z))", NONE, ""),
    ("a whole power", FORWARD, True, "power[exponent=2](y)", NONE, ""),
    (
        "a partial term",
        FORWARD,
        True,
        "relu(sqrt(y))",
        NONE,
        "axiom is used from right to left with a term for x in which sqrt may be undefined",
    ),
    (
        "a power that the rule leaves open",
        FORWARD,
        True,
        "power[exponent=e](y)",
        NONE,
        "axiom is used from right to left with a term for x in which power may be undefined",
    ),
    (
        "a partial axiom",
        "mul(div(x, x), y) => y",
        True,
        "y",
        NONE,
        "axiom is used from right to left, and div may be undefined",
    ),
    ("an axiom with a whole power", POWER, True, "y", {"e": 3}, ""),
    (
        "an axiom with another power",
        POWER,
        True,
        "y",
        {"e": -1},
        "axiom is used from right to left, and power may be undefined",
    ),
    (
        "an axiom with an open power",
        POWER,
        True,
        "y",
        {"e": AttributeVariable("k")},
        "axiom is used from right to left, and power may be undefined",
    ),
]


@pytest.mark.parametrize(
    ("axiom", "backwards", "term", "attributes", "reason"), [s[1:] for s in STEPS], ids=[s[0] for s in STEPS]
)
def test_a_step_is_told_to_keep_definedness_or_why_not(
    axiom: str, *, backwards: bool, term: str, attributes: Mapping[str, AttributeTerm], reason: str
) -> None:
    terms = {"x": parse_term(term), "y": parse_term("y")}
    assert why_undefined(parse_equation(f"axiom: {axiom}"), backwards, terms, attributes) == reason


def test_against_its_direction_a_forward_axiom_says_nothing_about_partial_tensors() -> None:
    forward, equal = parse_equation(FORWARD), parse_equation("add(x, y) = add(y, x)")
    assert keeps_for_partial(forward, backwards=False)
    assert not keeps_for_partial(forward, backwards=True)
    assert keeps_for_partial(equal, backwards=True)


def test_terms_are_total_where_all_operators_are() -> None:
    assert is_total(parse_term("softmax[axis=0](layer_normalization(x, v, w))"), parse_term("x"))
    assert not is_total(parse_term("x"), parse_term("add(batchnorm_scale(v, w), v)"))
