"""Axioms that follow from the others are found with their proofs; lemmas may, and proofs must replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from superopt.axioms import AxiomSet, axioms_from_text, load_axioms
from superopt.equations import parse_equation
from superopt.verifier.axiom_checks.redundancy import (
    AxiomRedundancy,
    Standing,
    check_redundancy,
    redundancy_of,
)
from superopt.verifier.content_cache import ContentCache
from superopt.verifier.prove.solver import SolverLimits

QUICK = SolverLimits(resources=300_000)
BASE = tuple(
    load_axioms().by_name[name]
    for name in (
        *("add-associative", "add-commutative", "mul-commutative", "mul-over-add", "relu-idempotent"),
        *("transpose-involutive", "transpose-of-matmul", "matmul-associative", "split0-of-concat"),
    )
)

REDUNDANT = {
    "operands the other way round": (
        "add(add(x, y), z) = add(add(z, y), x)",
        ("add-associative", "add-commutative"),
    ),
    "distribution from the other side": ("mul(z, add(x, y)) = add(mul(z, x), mul(z, y))", None),
    "three matrices": (
        "transpose(matmul(x, transpose(y))) = matmul(y, transpose(x))",
        ("transpose-involutive", "transpose-of-matmul"),
    ),
    "an instance": ("relu(relu(tanh(x))) = relu(tanh(x))", ("relu-idempotent",)),
    "under a condition": ("add(x, y) = add(y, x) where rank(x) = 2", ("add-commutative",)),
    "the same again": ("split0[axis=b](concat[axis=b](z, y)) = z", ("split0-of-concat",)),
}

INDEPENDENT = {
    "something new": "relu(tanh(x)) = tanh(relu(x))",
    "something false": "matmul(x, y) = matmul(y, x)",
    "what an instance does not say": "tanh(tanh(x)) = tanh(x)",
}


FEW = AxiomSet(BASE, {})


def _of(text: str, base: AxiomSet = FEW) -> AxiomRedundancy:
    axioms = base.with_equations(parse_equation(text, "planted"))
    (found,) = check_redundancy(axioms, names=["planted"], jobs=0, limits=QUICK)
    return found


@pytest.mark.parametrize(("text", "used"), REDUNDANT.values(), ids=REDUNDANT)
def test_a_planted_redundant_axiom_is_found(text: str, used: tuple[str, ...] | None) -> None:
    found = _of(text)
    assert found.standing is Standing.REDUNDANT
    assert found.is_offence
    assert used in (None, found.axioms_used)


@pytest.mark.parametrize("text", INDEPENDENT.values(), ids=INDEPENDENT)
def test_what_does_not_follow_is_kept(text: str) -> None:
    found = _of(text)
    assert (found.standing, found.is_offence, found.proof) == (Standing.INDEPENDENT, False, "")
    assert found.reason


def test_the_proof_can_be_read() -> None:
    assert _of("transpose(matmul(x, transpose(y))) = matmul(y, transpose(x))").proof.splitlines() == [
        "  transpose(matmul(x, transpose(y)))",
        "= matmul(transpose(transpose(y)), transpose(x))  by transpose-of-matmul",
        "= matmul(y, transpose(x))                        by transpose-involutive, at input 1",
    ]


def test_a_proof_that_no_types_carry_does_not_count() -> None:
    """Associativity of concat makes Z3 prove this; x and concat(x, y) are pooled over different rows."""
    associative = "concat[axis=a](x, concat[axis=a](y, z)) = concat[axis=a](concat[axis=a](x, y), z)"
    base = AxiomSet(BASE, {}).with_equations(parse_equation(associative, "concat-associative"))
    found = _of(
        "global_avgpool(split0[axis=2](concat[axis=2](x, concat[axis=2](y, z))))"
        " = global_avgpool(concat[axis=2](x, y))",
        base,
    )
    assert found.standing is Standing.INDEPENDENT
    assert found.reason.startswith("no well-typed chain")


def test_two_axioms_that_follow_from_each_other_are_both_named() -> None:
    text = "one: relu(relu(x)) = relu(x)\ntwo: relu(x) = relu(relu(x))\nthree: mul(x, y) = mul(y, x)"
    axioms = axioms_from_text({"f": text})
    found = list(check_redundancy(axioms, jobs=0, limits=QUICK))
    assert [(f.name, f.is_offence) for f in found] == [("one", True), ("two", True), ("three", False)]


def test_lemmas_are_no_offence_and_prove_nothing_redundant() -> None:
    text = "# .\none: relu(relu(x)) = relu(x)\n\n# lemma: .\ntwo: relu(x) = relu(relu(x))\n"
    text += "lemma-of-nothing: tanh(tanh(x)) = tanh(x)"
    found = list(check_redundancy(axioms_from_text({"f": text}), jobs=0, limits=QUICK))
    assert [(f.name, f.standing, f.lemma, f.is_offence) for f in found] == [
        ("one", Standing.INDEPENDENT, False, False),
        ("two", Standing.REDUNDANT, True, False),
        ("lemma-of-nothing", Standing.INDEPENDENT, True, False),
    ]


def test_an_axiom_that_cannot_be_typed_is_undecided() -> None:
    axioms = axioms_from_text({"f": "odd: add(x: f32[n], y) = add(y, x) where size(x) = 2"})
    (found,) = check_redundancy(axioms, jobs=0, limits=QUICK)
    assert found.standing is Standing.UNDECIDED
    assert found.reason.startswith("InvalidEquationError: ")


def test_answers_are_kept_and_a_budget_is_kept_to(tmp_path: Path) -> None:
    axioms = AxiomSet(BASE[:3], {}).with_equations(
        parse_equation("add(add(x, y), z) = add(add(z, y), x)", "p")
    )
    cache = ContentCache(tmp_path)
    without_time = list(check_redundancy(axioms, jobs=0, seconds=0, cache=cache, limits=QUICK))
    assert {(f.standing, f.reason) for f in without_time} == {
        (Standing.UNDECIDED, "the time did not suffice")
    }
    found = list(check_redundancy(axioms, jobs=0, cache=cache, limits=QUICK))
    assert "p" in [f.name for f in found if f.is_offence]
    assert list(check_redundancy(axioms, jobs=0, seconds=0, cache=cache, limits=QUICK)) == found
    marked = replace(axioms, lemmas=frozenset(("p",)))
    again = list(check_redundancy(marked, jobs=0, seconds=0, cache=cache, limits=QUICK))
    assert again[-1].standing is Standing.UNDECIDED, "other axioms are the base now"


def test_answers_come_in_order_from_processes(tmp_path: Path) -> None:
    axioms = AxiomSet(BASE[:4], {})
    told: list[tuple[int, int]] = []
    found = check_redundancy(
        axioms,
        jobs=2,
        cache=ContentCache(tmp_path),
        limits=QUICK,
        progress=lambda *counts: told.append(counts),
    )
    assert [f.name for f in found] == [axiom.name for axiom in BASE[:4]]
    assert told[-1] == (4, 4)
    assert len(list(tmp_path.rglob("*.json"))) == 4


DIRECTED = """
# A number less itself is zero.
self:     sub(x, x) => full[value=0]()
# Times zero it is too.
zeros:    mul(x, full[value=0]()) => full[value=0]()
# So is its own remainder, less zero.
forward:  sub(sub(x, x), full[value=0]()) => sub(full[value=0](), full[value=0]())
both:     sub(sub(x, x), full[value=0]()) = sub(full[value=0](), full[value=0]())
# From left to right, then from right to left.
peak:     sub(x, x) => mul(x, full[value=0]())
"""


@pytest.mark.parametrize(
    ("name", "standing"),
    [
        ("forward", Standing.REDUNDANT),
        ("both", Standing.INDEPENDENT),
        ("peak", Standing.INDEPENDENT),
    ],
)
def test_directions_are_those_that_axioms_claim(name: str, standing: Standing) -> None:
    axioms = axioms_from_text({"test": DIRECTED})
    base = [axiom for axiom in axioms.equations if axiom.name in ("self", "zeros")]
    assert redundancy_of(axioms.by_name[name], base).standing is standing
