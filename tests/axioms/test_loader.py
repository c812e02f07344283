"""The axioms load, have unique names, and their hash says what changed."""

from __future__ import annotations

from collections import Counter

import pytest

from axioms import axioms_from_text, load_axioms
from superopt.errors import InvalidEquationError
from superopt.ir.terms import Direction, applications
from superopt.ops import OPERATORS

WITHOUT_AXIOMS = {"opaque", "split"}
"""Operators that exist only in graphs."""


def test_every_family_has_axioms() -> None:
    families = Counter(load_axioms().families.values())
    assert sorted(families) == (
        [
            "activation",
            "affine",
            "concat",
            "convolution",
            "elementwise",
            "layout",
            "matrix",
            "normalization",
            "pooling",
        ]
    )
    assert all(count >= 10 for count in families.values())


def test_axioms_are_equations_and_not_rules() -> None:
    assert {axiom.direction for axiom in load_axioms().equations} == {Direction.EQUAL}


def test_every_operator_is_mentioned() -> None:
    mentioned = {t.operator for a in load_axioms().equations for t in applications(*a.left, *a.right)}
    assert set(OPERATORS) - mentioned - WITHOUT_AXIOMS == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: add(x, y) = add(y, x)\na: mul(x, y) = mul(y, x)", "family.axioms: expected a new name, got 'a'"),
        ("add(x, y) = add(y, x)", "family.axioms: expected a new name, got ''"),
        ("a: add(x, y) =", "family.axioms: line 1"),
        ("a: ad(x, y) = x", "unknown operator ad"),
    ],
)
def test_a_malformed_file_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidEquationError, match=message.replace("(", r"\(")):
        axioms_from_text({"family": text})


def test_hash_of_a_name_depends_on_that_axiom_alone() -> None:
    text = "a: add(x, y) = add(y, x)\nb: mul(x, y) = mul(y, x)"
    before = axioms_from_text({"f": text})
    after = axioms_from_text({"f": text.replace("mul(y, x)", "mul(x, y)")})
    assert before.hash_of(["a"]) == after.hash_of(["a"])
    assert before.hash_of(["b"]) != after.hash_of(["b"])
    assert before.hash != after.hash
    assert before.hash_of(["a", "b"]) == before.hash_of(["b", "a"]) != before.hash_of(["a", "missing"])
