"""Two proof checkers, written apart from one text, agree on right and on wrong certificates."""

# ruff: noqa: E501

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from superopt.axioms import load_axioms
from superopt.equations import format_equation, parse_equation, parse_term
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Equation
from superopt.substitution_db.rules.certificates import read_stored
from superopt.verifier.certificates.certificate import Certificate, Link
from tests.verifier.second_checker import Answer, judge
from tests.verifier.second_checker.alterations import ALTERATIONS, Proof, altered
from tests.verifier.second_checker.comparison import compared, shipped_proofs

EVERY = 19
SLOW_OPERATORS = ("partition", "combine", "pipeline", "batch")
UNKNOWN_SIZES = ("conv[",)
"""The second checker may not know the cases of rules about convolutions, and must know those of others."""


def test_the_checkers_agree_on_shipped_certificates_of_all_kinds() -> None:
    proofs = tuple(shipped_proofs())[::EVERY]
    axioms = load_axioms().by_name
    results = [compared("stored", proof, axioms) for proof in proofs]
    assert not [str(result) for result in results if not result.agree]
    assert sum(result.ours.answer is Answer.ACCEPTED for result in results) > 50


def _forged() -> Iterator[Proof]:
    for line in (Path(__file__).parent / "forged_certificates.jsonl").read_text("utf-8").splitlines():
        yield read_stored(json.loads(line))


@pytest.mark.parametrize("proof", tuple(_forged()), ids=lambda proof: format_equation(proof[0])[:60])
def test_both_checkers_refuse_rules_that_are_false_at_one_high_rank(proof: Proof) -> None:
    """What hid the rank: shapes of constants, axes in conditions, ranks and axes inside other functions, axes
    tied to several tensors, comparisons of sizes that are symbols."""
    result = compared("forged", proof, load_axioms().by_name)
    assert result.ours.answer is not Answer.ACCEPTED
    assert result.theirs


def _open_axes(equation: Equation) -> set[AttributeVariable]:
    values = (value for term in equation.applications for name, value in term.attributes if name == "axis")
    return {value for value in values if isinstance(value, AttributeVariable)}


def test_the_checkers_agree_on_altered_certificates() -> None:
    axioms = load_axioms().by_name
    # Two open axes and two open degrees have thousands of cases, and an axis that is put too high has more: the
    # long form goes through these.
    proofs = [
        proof
        for proof in tuple(shipped_proofs())[::3]
        if sum(format_equation(proof[0]).count(f"{name}[") for name in SLOW_OPERATORS) < 2
        and len(_open_axes(proof[0])) < 2
    ]
    results = [compared(change, proof, axioms) for change, proof in altered(proofs, axioms, 300, seed=1)]
    assert not [str(result) for result in results if not result.agree]
    kinds = Counter(result.change for result in results)
    assert len(kinds) >= len(ALTERATIONS) - 2  # which ones fit a proof is drawn
    answers = Counter(result.ours.answer for result in results)
    assert answers[Answer.REJECTED] > 100
    assert answers[Answer.ACCEPTED] > 30
    unknown = [format_equation(r.proof[0]) for r in results if r.ours.answer is Answer.UNKNOWN]
    assert all(any(name in rule for name in UNKNOWN_SIZES) for rule in unknown), unknown


WRONG = {
    "groups of a convolution are open": "conv(concat[axis=1](x, x), concat[axis=1](y, z)) => conv(x, add(y, z))",
    "ranks differ": "concat[axis=1](matmul(x, y), matmul(z, w)) => matmul(concat[axis=1](x, z), concat[axis=1](y, w))",
    "a degree is an axis": (
        "(combine[axis=0, degree=d](partition[axis=0, degree=d](y)), reduce_sum[axis=2](x)) => "
        "(combine[axis=0, degree=d](partition[axis=0, degree=d](y)), x) where dim(x, d) = 1"
    ),
}
LINKS = {
    "groups of a convolution are open": ("conv-concat-channels", {"x": "x", "z": "x", "y": "y", "w": "z"}),
    "ranks differ": ("matmul-concat-heads", {"x": "x", "y": "y", "z": "z", "w": "w"}),
    "a degree is an axis": ("reduce-sum-of-one", {"x": "x"}),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_axiom_does_not_prove_a_rule_beyond_its_condition(what: str) -> None:
    goal = parse_equation(WRONG[what])
    name, terms = LINKS[what]
    values = {"a": 2, "s": (1, 1), "p": "valid", "d": (1, 1)}
    link = Link(
        name,
        name == "conv-concat-channels",
        (),
        0,
        tuple((key, parse_term(text)) for key, text in terms.items()),
        tuple(values.items()),
        goal.right[-1],
    )
    certificate = Certificate((*(() for _ in goal.left[1:]), (link,)))
    assert judge(goal, load_axioms().by_name, certificate).answer is not Answer.ACCEPTED
