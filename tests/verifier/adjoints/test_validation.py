"""Validation of adjoint statements: right ones hold, wrong ones have counterexamples."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from superopt.axioms import axioms_from_text, load_axioms
from superopt.equations import Adjoint, parse_adjoint
from superopt.errors import IllTypedError
from superopt.instances.channels import Sizes
from superopt.instances.drawn import DrawnInstances
from superopt.instances.gradients import gradient_instance
from superopt.instances.instance import Instance
from superopt.instances.values import Bound
from superopt.ir.terms import Equation
from superopt.journeys.library.gate import wrong_adjoints
from superopt.ops import OPERATORS
from superopt.verifier.adjoints import (
    QUICK,
    AdjointEffort,
    MissingAdjoint,
    missing_adjoints,
    validate_adjoint,
    validate_adjoints,
)
from superopt.verifier.content_cache import ContentCache
from tests.verifier.adjoints.differences import is_gradient
from tests.verifier.adjoints.mutations import mutants
from tests.verifier.adjoints.starter import starter

MODERATE = AdjointEffort(Bound(2), cases=200, drawn=10, sampled=4, symbolic=1)

PATIENT = AdjointEffort(Bound(2), cases=500, drawn=40, sampled=0, symbolic=0)


@pytest.mark.parametrize("name", starter().adjoints_by_name)
def test_right_statements_hold(name: str) -> None:
    result = validate_adjoint(starter().adjoints_by_name[name], MODERATE)
    assert result.reason == ""
    assert result.valid
    assert result.instances >= 5
    assert result.exact == result.instances


def test_shipped_statements_hold() -> None:
    results = list(validate_adjoints(load_axioms().adjoints, effort=QUICK))
    assert [(result.name, result.reason) for result in results if not result.valid] == []


WRONG = [
    # The gradient of tanh as RAF (Yu et al., 2023), section 3.1.1, prints it.
    ("adjoint[input=0](tanh(x), g) = mul(g, sub(ones(), scale(tanh(x), full[value=2]())))", "<J v, g> = "),
    ("adjoint[input=0](matmul(x, y), g) = matmul(g, y)", "<J v, g> = "),
    ("adjoint[input=0](relu(x), g) = g", "<J v, g> = "),
    ("adjoint[input=0](leaky_relu[alpha=a](x), g) = g", "a="),
    ("adjoint[input=0](exp(x), g) = mul(mul(g, g), exp(x))", "<J v, g> = "),
    ("adjoint[input=0](mul(x, y), g) = mul(g, mul(sqrt(y), sqrt(y)))", "<v, adjoint> = nan"),
    (
        """adjoint[input=0](erf(x), g)
           = scale(mul(g, exp(scale(mul(x, x), full[value=-1]()))), full[value=1.128]())""",
        "<J v, g> = ",
    ),
    (
        """adjoint[input=0](erf(x), g)
           = scale(mul(g, exp(scale(mul(x, x), full[value=-1]()))), full[value=1.1283791670955]())""",
        "unequal in the prime field, although over floats",
    ),
    ("adjoint[input=0](reduce_mean[axis=a](x), g) = broadcast(g)", "<J v, g> = "),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_wrong_statements_have_a_counterexample(text: str, reason: str) -> None:
    result = validate_adjoint(parse_adjoint(text, "wrong"), QUICK)
    assert not result.valid
    assert reason in result.reason
    assert "x: f32[" in result.reason


def test_a_statement_that_is_never_well_typed_is_refused() -> None:
    result = validate_adjoint(parse_adjoint("adjoint[input=0](global_avgpool(x), g) = g where rank(x) = 3"))
    assert (result.valid, result.instances) == (False, 0)
    assert result.reason == "expected a well-typed instance, found none"


@pytest.mark.parametrize("precision", ["f64", "f16", "bf16"])
def test_operands_of_other_precisions_are_tried(precision: str) -> None:
    text = f"adjoint[input=0](cast[to=p](x), g) = cast[to={precision}](g)"
    result = validate_adjoint(parse_adjoint(text, "cast"), QUICK)
    assert (result.valid, result.exact) == (True, result.instances)
    wrong = parse_adjoint(text.replace("(g)", "(add(g, g))"), "wrong")
    assert precision in validate_adjoint(wrong, QUICK).reason


def test_planted_mistakes_are_found() -> None:
    """Each is refuted, most of them by few instances, or agrees with central differences."""
    found = Counter(_judged(mutant) for right in starter().adjoints for mutant in mutants(right))
    assert found["refuted"] >= 500
    assert found["refuted late"] <= found["refuted"] // 50
    assert found["equal"] <= found["refuted"] // 4
    assert not found["mistaken"]


def _judged(mutant: Adjoint) -> str:
    result = validate_adjoint(mutant, QUICK)
    if not result.valid:
        return "refuted" if "<J v, g>" in result.reason else "ill-typed"
    if not validate_adjoint(mutant, PATIENT).valid:
        return "refuted late"
    generator = np.random.default_rng(5)
    right = all(is_gradient(mutant, instance, generator) for instance in _instances(mutant))
    return "equal" if right else "mistaken"


def test_what_is_refuted_disagrees_with_central_differences() -> None:
    generator = np.random.default_rng(11)
    for name in ("adjoint-of-tanh", "adjoint-of-matmul-0", "adjoint-of-concat-0", "adjoint-of-softmax"):
        right = starter().adjoints_by_name[name]
        assert all(is_gradient(right, instance, generator) for instance in _instances(right))
        refuted = [mutant for mutant in mutants(right) if _is_refuted(mutant)]
        differing = [
            mutant
            for mutant in refuted
            if not all(is_gradient(mutant, instance, generator) for instance in _instances(mutant))
        ]
        nearly_right = [mutant for mutant in refuted if mutant not in differing]
        assert len(differing) > 5
        assert all("1000001" in repr(mutant.gradient) for mutant in nearly_right)


def test_results_are_kept(tmp_path: Path) -> None:
    cache = ContentCache(tmp_path)
    adjoint = starter().adjoints_by_name["adjoint-of-tanh"]
    first = validate_adjoint(adjoint, QUICK, cache)
    assert validate_adjoint(adjoint, QUICK, cache) == first
    other = replace(adjoint, gradient=adjoint.cotangent)
    assert not validate_adjoint(other, QUICK, cache).valid


def test_the_inverse_of_a_permutation_is_computed() -> None:
    adjoint = starter().adjoints_by_name["adjoint-of-transpose"]
    pairs = [(each.attributes["p"], each.attributes["q"]) for each in _instances(adjoint)]
    assert pairs
    for permutation, inverse in cast("list[tuple[tuple[int, ...], tuple[int, ...]]]", pairs):
        assert [permutation[axis] for axis in inverse] == list(range(len(permutation)))


def test_the_gate_names_wrong_statements() -> None:
    text = "a: adjoint[input=0](tanh(x), g) = g\nb: adjoint[input=0](identity(x), g) = g"
    (wrong,) = wrong_adjoints(axioms_from_text({"f": text}))
    assert (wrong.id, wrong.equation) == ("a", "adjoint[input=0](tanh(x), g) = g")
    assert "<J v, g> = " in wrong.reason


def test_operands_without_a_statement_are_known() -> None:
    missing = missing_adjoints(starter())
    assert MissingAdjoint("conv", 0, composite=False) in missing
    assert MissingAdjoint("conv", 1, composite=False) in missing
    assert MissingAdjoint("scale", 1, composite=False) in missing
    assert MissingAdjoint("gelu", 0, composite=False) in missing
    operators = {each.operator for each in missing}
    assert not operators & {"add", "tanh", "select", "greater", "partition", "full", "split"}
    assert {each.input for each in missing if each.operator == "lookup"} == {0}
    everything = missing_adjoints(axioms_from_text({"f": ""}))
    assert {each.operator for each in everything} < set(OPERATORS)


def _is_refuted(mutant: Adjoint) -> bool:
    result = validate_adjoint(mutant, QUICK)
    return not result.valid and "<J v, g>" in result.reason


def _instances(adjoint: Adjoint) -> list[Instance]:
    """Well-typed instances with seeds that the validation does not use, some with equal sizes."""
    application = Equation((adjoint.application,), (adjoint.application,))
    equal = Sizes(plain=(2,), image=(3,), kernel=(2,), outputs=(2, 4))
    found: list[Instance] = []
    for drawn in (
        *DrawnInstances(application, Sizes(), 99).instances(12),
        *DrawnInstances(application, equal, 99).instances(6),
    ):
        operands = [drawn.types[operand.name] for operand in adjoint.operands]
        result = drawn.typing.types[adjoint.application]
        try:
            found.append(gradient_instance(adjoint, operands, result, drawn.attributes))
        except IllTypedError:
            continue
    return found
