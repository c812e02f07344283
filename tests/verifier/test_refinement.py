"""Rules are refinements: where the source is defined the target is defined and equal, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.axioms import load_axioms
from superopt.axioms.loader import axioms_from_text
from superopt.equations import parse_equation
from superopt.ir.types import ElementType, TensorType
from superopt.verifier.refinement import awkward_inputs
from superopt.verifier.refute.refutation import Effort, refute
from superopt.verifier.seeds import chosen_seed, seed_of
from superopt.verifier.verification import Options, Status, verify

TRUE = [
    "sub(sqrt(x), sqrt(x)) => sub(x, x)",
    "sub(sqrt(x), sqrt(x)) => mul(x, full[value=0]())",
    "mul(sqrt(x), sqrt(y)) => sqrt(mul(x, y))",
    "mul(sqrt(x), sqrt(x)) => x",
    "mul(div(x, y), y) => x",
    "div(x, x) => ones()",
    "div(x, sub(y, y)) => add(x, y)",
    "div(div(x, y), z) <=> div(x, mul(z, y))",
    "div(x, y) <=> mul(x, power[exponent=-1](y))",
    "power[exponent=1/2](x) <=> sqrt(x)",
    "matmul(x, identity_matrix()) <=> x",
    "relu(sqrt(x)) <=> sqrt(x)",
    "relu(sqrt(x)) => sqrt(relu(x))",
    "div(exp(x), exp(x)) <=> ones()",
    "batchnorm_scale(mul(v, w), u) <=> mul(batchnorm_scale(v, u), w)",
    "sub(batchnorm_scale(v, w), batchnorm_scale(v, w)) => sub(v, v)",
    "softmax[axis=-1](scale(x, full[value=1000]())) <=> softmax[axis=-1](scale(x, full[value=1000]()))",
]
FALSE = [
    ("sub(x, x) => sub(sqrt(x), sqrt(x))", "undefined"),
    ("mul(x, full[value=0]()) => sub(sqrt(x), sqrt(x))", "undefined"),
    ("sqrt(mul(x, y)) => mul(sqrt(x), sqrt(y))", "undefined"),
    ("mul(sqrt(x), sqrt(y)) <=> sqrt(mul(x, y))", "undefined"),
    ("x => mul(sqrt(x), sqrt(x))", "undefined"),
    ("x => mul(div(x, y), y)", "undefined"),
    ("mul(x, y) => mul(mul(div(x, y), y), y)", "undefined"),
    ("sqrt(mul(x, x)) => x", ""),
    ("div(x, y) => div(mul(x, z), mul(y, z))", "undefined"),
    ("div(mul(x, z), mul(y, z)) <=> div(x, y)", "undefined"),
    ("sqrt(relu(x)) => relu(sqrt(x))", "undefined"),
    ("power[exponent=-2](x) => power[exponent=-1](mul(x, sqrt(mul(x, x))))", ""),
    ("matmul(x, y) => div(matmul(mul(x, z), y), z)", ""),
    ("batchnorm_scale(v, w) => mul(sqrt(v), batchnorm_scale(sqrt(v), w))", "undefined"),
    ("sub(v, v) => sub(batchnorm_scale(v, w), batchnorm_scale(v, w))", "undefined"),
]


@pytest.mark.parametrize("text", TRUE)
def test_a_refinement_is_not_refuted_and_raises_no_doubt(text: str) -> None:
    for seed in range(3):
        found = refute(parse_equation(text), seed=seed)
        assert (found.counterexample, found.suspicious) == (None, None)
        assert found.well_typed >= 3


@pytest.mark.parametrize(("text", "what"), FALSE)
def test_what_loses_an_element_is_refuted(text: str, what: str) -> None:
    for seed in range(3):
        found = refute(parse_equation(text), seed=seed)
        assert found.counterexample is not None
        assert what in found.counterexample


def test_the_counterexample_names_the_element() -> None:
    found = refute(parse_equation("x => mul(sqrt(x), sqrt(x))"), Effort(schemes=1))
    assert found.counterexample is not None
    assert found.counterexample.startswith("x: f32[5, 4, 1, 2, 4]: left[0, 0, 0, 0, 1] = -")
    assert found.counterexample.endswith(", right[0, 0, 0, 0, 1] = undefined")


def test_inputs_leave_partial_operators_defined_on_some_elements_and_undefined_on_others() -> None:
    types = {"x": TensorType(ElementType.FLOAT, (6, 6))}
    values = awkward_inputs(np.random.default_rng(0), 2, types)["x"].value
    assert values.shape == (5, 6, 6)
    assert [bool((part == 0).any()) for part in values] == [False, True, True, False, True]
    assert [bool((part < 0).any()) for part in values] == [True, True, True, False, True]
    assert (values[4] > 0).mean() > 0.7


def test_seeds_are_the_same_for_the_same_number_and_nobodys_for_none() -> None:
    rule = parse_equation("add(x, y) => add(y, x)")
    assert seed_of(rule, 1) == seed_of(rule, 1, 0)
    assert len({seed_of(rule, stream, seed) for stream in range(4) for seed in range(4)}) == 16
    assert chosen_seed(7) == 7
    assert len({chosen_seed(None) for _ in range(8)}) == 8


def test_verify_gives_the_same_counterexample_unless_asked_for_another() -> None:
    wrong, axioms = parse_equation("relu(add(x, y)) => add(relu(x), relu(y))"), load_axioms()
    first = verify(wrong, axioms)
    assert first.status is Status.REFUTED
    assert verify(wrong, axioms) == first
    others = [verify(wrong, axioms, options=Options(seed=None)) for _ in range(4)]
    assert all(other.status is Status.REFUTED for other in others)
    assert len({other.counterexample for other in (first, *others)}) > 1


def test_a_chain_may_lose_what_is_undefined_but_add_nothing_undefined() -> None:
    verdict = verify(parse_equation("sub(sqrt(x), sqrt(x)) => sub(x, x)"), load_axioms())
    assert verdict.certificate is not None
    (chain,) = verdict.certificate.chains
    assert [(link.axiom, link.backwards) for link in chain] == [
        ("sub-of-itself", False),
        ("sub-of-itself", True),
    ]


TWO_WAYS = """
# A tensor is itself; the direction is for the test.
shortcut: x => identity(x)
# A factor of 1.
factor:   identity(x) = mul(x, ones())
# It changes nothing.
nothing:  mul(x, ones()) = x
"""


@pytest.mark.parametrize(
    ("rule", "used"),
    [
        ("identity(x) => x", ("shortcut",)),
        ("identity(sqrt(x)) => sqrt(x)", ("factor", "nothing")),
        ("sqrt(x) => identity(sqrt(x))", ("shortcut",)),
        ("sqrt(x) <=> identity(sqrt(x))", ("factor", "nothing")),
        ("x <=> identity(x)", ("shortcut",)),
    ],
)
def test_provers_find_a_chain_that_keeps_definedness(rule: str, used: tuple[str, ...]) -> None:
    verdict = verify(parse_equation(rule), axioms_from_text({"test": TWO_WAYS}))
    assert verdict.status is Status.VERIFIED, verdict.reason
    assert verdict.axioms_used == used


def test_without_one_there_is_no_proof() -> None:
    only = axioms_from_text({"test": TWO_WAYS.split("# A factor")[0]})
    verdict = verify(parse_equation("identity(sqrt(x)) => sqrt(x)"), only)
    assert verdict.status is Status.UNPROVED
    assert verdict.reason == "no proof: no chain keeps definedness: shortcut"
    assert verify(parse_equation("sqrt(x) => identity(sqrt(x))"), only).status is Status.VERIFIED
