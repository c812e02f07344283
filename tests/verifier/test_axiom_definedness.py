"""Axioms keep definedness in the directions that they claim, and those that do not are named."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.axioms import load_axioms
from superopt.axioms.loader import axioms_from_text
from superopt.equations import format_equation, parse_equation
from superopt.instances.values import Bound
from superopt.ir.terms import Direction
from superopt.ir.types import ElementType, TensorType
from superopt.verifier.axiom_checks.definedness import check_definedness, partial_inputs
from superopt.verifier.axiom_checks.validation import Thoroughness, validate_axiom

BOTH, FORWARDS, BACKWARDS = (True, True), (True, False), (False, True)

HOLDS: dict[str, tuple[bool, bool]] = {
    "sub(x, x) = full[value=0]()": FORWARDS,
    "full[value=0]() = sub(x, x)": BACKWARDS,
    "mul(x, full[value=0]()) = full[value=0]()": FORWARDS,
    "div(x, x) = ones()": FORWARDS,
    "mul(div(x, y), y) = x": FORWARDS,
    "mul(sqrt(x), sqrt(y)) = sqrt(mul(x, y))": FORWARDS,
    "split0[axis=a](concat[axis=a](x, y)) = x": BOTH,
    "split0[axis=a](relu(concat[axis=a](x, y))) = relu(x)": BOTH,
    "softmax[axis=a](split0[axis=a](concat[axis=a](x, y))) = softmax[axis=a](x)": BOTH,
    "matmul(x, identity_matrix()) = x": FORWARDS,
    "matmul(x, matmul(y, z)) = matmul(matmul(x, y), z)": BOTH,
    "div(div(x, y), z) = div(x, mul(y, z))": BOTH,
    "power[exponent=1/2](x) = sqrt(x)": BOTH,
    "power[exponent=e](mul(x, y)) = mul(power[exponent=e](x), power[exponent=e](y))": BACKWARDS,
    "rms_normalization[epsilon=e](x, g) = mul(rms_normalization[epsilon=e](x, g), ones())": BOTH,
    "mul(batchnorm_scale[epsilon=e](g, v), s) = batchnorm_scale[epsilon=e](mul(g, s), v)": BOTH,
    "conv[padding=valid](scale(x, w), y) = conv[padding=valid](x, scale(y, w))": BOTH,
    "conv[padding=p, dilation=d](scale(x, w), y) = conv[padding=p, dilation=d](x, scale(y, w))": BACKWARDS,
    "concat[axis=a](x, x) = concat[axis=a](x, relu(x))": (False, False),
}


@pytest.mark.parametrize("text", HOLDS)
def test_each_direction_is_judged(text: str) -> None:
    found = check_definedness(parse_equation(f"axiom: {text}"))
    assert (not found.forwards, not found.backwards) == HOLDS[text]


def test_an_offence_is_a_direction_that_is_claimed() -> None:
    found = check_definedness(parse_equation("axiom: sub(x, x) = full[value=0]()"))
    assert found.offence(Direction.FORWARD) == ""
    wanted = (
        "it loses elements from right to left, so that `=>` is all it may claim: "
        "x: f32[]: left[] = undefined, right[] = 0"
    )
    assert found.offence(Direction.EQUAL) == found.offence(Direction.BOTH) == wanted


def test_validation_names_an_axiom_that_claims_too_much() -> None:
    quick = Thoroughness(Bound(2), symbolic=0, every=7, definedness=50)
    (wrong,) = axioms_from_text({"wrong": "# It is not.\nself: sub(x, x) = full[value=0]()"}).equations
    found = validate_axiom(wrong, quick)
    assert not found.valid
    assert found.reason.startswith("it loses elements from right to left")
    (right,) = axioms_from_text({"right": "# It is.\nself: sub(x, x) => full[value=0]()"}).equations
    assert validate_axiom(right, quick).partial >= 20


def test_each_element_is_undefined_once_alone() -> None:
    types = [TensorType(ElementType.FLOAT, (2, 3)), TensorType(ElementType.FLOAT, ())]
    one, other = partial_inputs(np.random.default_rng(0), types)
    holes = np.isnan(one.value).reshape(len(one.value), -1), np.isnan(other.value).reshape(-1, 1)
    alone = np.concatenate(holes, axis=1)
    assert {tuple(row) for row in np.eye(7, dtype=bool)} <= {tuple(row) for row in alone}
    assert not alone[:5].any()


SHIPPED = load_axioms()
FORWARD = [axiom for axiom in SHIPPED.equations if axiom.direction is Direction.FORWARD]


@pytest.mark.parametrize("name", [axiom.name for axiom in FORWARD])
def test_a_forward_axiom_of_ours_may_not_claim_both_directions(name: str) -> None:
    found = check_definedness(SHIPPED.by_name[name])
    assert (found.forwards, bool(found.backwards)) == ("", True)


@pytest.mark.parametrize("name", [axiom.name for axiom in SHIPPED.equations if axiom not in FORWARD][::12])
def test_axioms_of_ours_keep_definedness_both_ways(name: str) -> None:
    found = check_definedness(SHIPPED.by_name[name], most=40, sampled=4)
    assert (found.forwards, found.backwards) == ("", "")


def test_the_direction_is_part_of_the_text_that_is_hashed() -> None:
    assert format_equation(SHIPPED.by_name["sub-of-itself"]) == "sub(x, x) => full[value=0]"
    equal = axioms_from_text({"f": "# A reason.\na: sub(x, x) = full[value=0]()"})
    forward = axioms_from_text({"f": "# A reason.\na: sub(x, x) => full[value=0]()"})
    assert equal.hash != forward.hash
