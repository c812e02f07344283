"""The axioms load, have unique names, and their hash says what changed."""

from __future__ import annotations

from collections import Counter

import pytest

from superopt.axioms import axioms_from_text, holds_for_integers, load_axioms, require_reasons
from superopt.equations import format_adjoint
from superopt.errors import InvalidEquationError
from superopt.ir.terms import Direction
from superopt.ops import OPERATORS

WITHOUT_AXIOMS = {"opaque", "split"}
"""Operators that exist only in graphs."""


def test_every_family_has_axioms() -> None:
    families = Counter(load_axioms().families.values())
    assert sorted(families) == (
        [
            "activation",
            "affine",
            "bilinear",
            "bilinear_product",
            "concat",
            "convolution",
            "elementwise",
            "layout",
            "matrix",
            "normalization",
            "order",
            "parallel",
            "pooling",
            "reduction",
            "selection",
            "upsampling",
        ]
    )
    assert all(count >= 10 for family, count in families.items() if not family.startswith("bilinear"))


def test_axioms_claim_both_directions_or_one() -> None:
    directions = {axiom.name: axiom.direction for axiom in load_axioms().equations}
    assert set(directions.values()) == {Direction.EQUAL, Direction.FORWARD}
    assert directions["add-commutative"] is Direction.EQUAL
    assert directions["sub-of-itself"] is Direction.FORWARD


def test_every_operator_is_mentioned() -> None:
    mentioned = {t.operator for a in load_axioms().equations for t in a.applications}
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


COMMENTED = """
# The head of a file is no reason.

a: add(x, y) = add(y, x)
# ring: Sums of
# two lines.
b: add(x, add(y, z)) = add(add(x, y), z)
c: add(identity(x),
       # a remark within an equation, after

       y) = add(y, x)
d: add(x, y) = add(identity(y), x)

e: mul(x, y) = mul(y, x)
# lemma: In a ring: mul again.
f: mul(x, identity(y)) = mul(y, x)
#
g: relu(relu(x)) = relu(x)
# ring, lemma: Both.
h: identity(x) = x
# ring:
i: identity(identity(x)) = x
"""


def test_a_reason_is_the_comment_above_the_block() -> None:
    axioms = axioms_from_text({"f": COMMENTED})
    assert axioms.reasons == {
        **dict.fromkeys("bcd", "Sums of two lines."),
        "f": "In a ring: mul again.",
        "h": "Both.",
    }
    assert (axioms.ring, axioms.lemmas) == (frozenset("bcdhi"), frozenset("fh"))
    assert axioms.without_reason() == ("a", "e", "g", "i")


def test_axioms_that_go_with_no_halves_stand_apart() -> None:
    text = """
# ring: Halves.
a: split0[axis=b](concat[axis=b](x, y)) = x
# ring, uncut: Joins.
c: concat[axis=b](concat[axis=b](x, y), z) = concat[axis=b](x, concat[axis=b](y, z))
# A fact.
d: relu(relu(x)) = relu(x)
# Halves that are joined again.
e: concat[axis=b](split0[axis=b](x), split1[axis=b](x)) = x
"""
    axioms = axioms_from_text({"f": text})
    assert (axioms.uncut, axioms.ring) == (frozenset("c"), frozenset("ac"))
    assert axioms.reasons["c"] == "Joins."
    named = axioms.by_name
    assert axioms.usual == axioms.beside(named["a"]) == (named["a"], named["d"], named["e"])
    assert axioms.of_whole_tensors == axioms.beside(named["c"]) == (named["c"], named["d"])
    assert axioms.of_rejoined_halves == (named["c"], named["d"], named["e"])


def test_shipped_axioms_have_reasons_in_words() -> None:
    axioms = load_axioms()
    assert axioms.without_reason() == ()
    for name, reason in axioms.reasons.items():
        assert reason.endswith("."), (name, reason)
        assert len(reason.split()) >= 3, (name, reason)


def test_an_axiom_without_reason_is_not_shipped() -> None:
    with pytest.raises(InvalidEquationError, match=r"f.axioms: expected a comment above a with the reason"):
        require_reasons(axioms_from_text({"f": COMMENTED}))


def test_reasons_do_not_change_what_axioms_say() -> None:
    bare = "\n".join(line for line in COMMENTED.splitlines() if not line.startswith("#"))
    assert axioms_from_text({"f": bare}).hash == axioms_from_text({"f": COMMENTED}).hash
    added = axioms_from_text({"f": COMMENTED}).with_equations(
        *axioms_from_text({"g": "z: identity(x) = x"}).equations
    )
    assert (added.families["z"], added.without_reason()[-1], added.ring) == ("added", "z", frozenset("bcdhi"))


@pytest.mark.parametrize(
    ("used", "expected"),
    [((), True), (("b", "h"), True), (("b", "g"), False), (("f",), False), (("unknown",), False)],
)
def test_only_ring_properties_carry_over_to_integers(used: tuple[str, ...], expected: object) -> None:
    assert holds_for_integers(used, axioms_from_text({"f": COMMENTED})) is expected


WITH_ADJOINTS = """
# Sums commute.
add-commutative: add(x, y) = add(y, x)
# A sum has the gradient of its terms.
adjoint-of-add-0: adjoint[input=0](add(x, y), g) = g
adjoint-of-add-1: adjoint[input=1](add(x, y), g) = g
# Each element of a product has the factor of its row.
for f in per_channel and of_one and polynomial and not affine and not bias_add:
    adjoint-of-{f}-0: adjoint[input=0](f(x), g) = f(g)
"""


def test_adjoint_statements_are_no_equations() -> None:
    axioms = axioms_from_text({"f": WITH_ADJOINTS})
    assert [axiom.name for axiom in axioms.equations] == ["add-commutative"]
    assert {name: format_adjoint(adjoint) for name, adjoint in axioms.adjoints_by_name.items()} == {
        "adjoint-of-add-0": "adjoint[input=0](add(x, y), g) = g",
        "adjoint-of-add-1": "adjoint[input=1](add(x, y), g) = g",
        "adjoint-of-channel-scale-0": (
            "adjoint[input=0](channel_scale[axis=e](x, w), g) = channel_scale[axis=e](g, w)"
        ),
    }
    assert axioms.reasons["adjoint-of-add-1"] == "A sum has the gradient of its terms."
    assert axioms.families["adjoint-of-add-1"] == "f"
    assert list(axioms.schemas) == ["adjoint-of-channel-scale-0"]
    assert axioms.without_reason() == ()


def test_adjoint_statements_change_no_hash_of_axioms() -> None:
    axioms = axioms_from_text({"f": WITH_ADJOINTS})
    alone = axioms_from_text({"f": "add-commutative: add(x, y) = add(y, x)"})
    assert axioms.hash == alone.hash
    assert axioms.hash_of(["add-commutative"]) == alone.hash_of(["add-commutative"])
    changed = axioms_from_text(
        {"f": WITH_ADJOINTS.replace("input=0](add(x, y), g) = g", "input=0](add(x, y), g) = y")}
    )
    names = ["adjoint-of-add-0", "adjoint-of-add-1"]
    assert axioms.hash_of_adjoints(names[:1]) != changed.hash_of_adjoints(names[:1])
    assert axioms.hash_of_adjoints(names[1:]) == changed.hash_of_adjoints(names[1:])
    assert axioms.hash_of_adjoints(["missing"]) != axioms.hash_of_adjoints([])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("adjoint[input=0](tanh(x), g) = g", "f.axioms: expected a new name, got '', for adjoint"),
        ("a: identity(x) = x\na: adjoint[input=0](tanh(x), g) = g", "expected a new name, got 'a'"),
        ("\na: adjoint[input=1](tanh(x), g) = g", "f.axioms: line 2: a: expected input from 0 to 0"),
    ],
)
def test_a_malformed_statement_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidEquationError, match=message):
        axioms_from_text({"f": text})


def test_an_adjoint_statement_needs_a_reason_too() -> None:
    with pytest.raises(InvalidEquationError, match="expected a comment above a with the reason"):
        require_reasons(axioms_from_text({"f": "a: adjoint[input=0](tanh(x), g) = g"}))
