"""Axioms keep definedness in the directions that they claim, and those that do not are named."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.axioms import load_axioms
from superopt.axioms.loader import axioms_from_text
from superopt.equations import format_equation, parse_equation
from superopt.instances.values import Bound
from superopt.ir.terms import Direction
from superopt.ir.types import ElementType, TensorType
from superopt.verifier.axiom_checks.definedness import check_definedness, partial_inputs
from superopt.verifier.axiom_checks.validation import Thoroughness, validate_axiom
from tests.onnx_io.kit import Array, model, node, run, value

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


READS_LESS = {
    "conv-by-transposed",
    "conv-transpose-scale-outputs",
    "lrn-by-convolution",
    "pointwise-after-conv-transpose",
    "scale-of-lookup-gradient",
}
"""Axioms whose right sides ONNX Runtime computes from fewer elements: the definitions of operators here
multiply zeros that are inserted, and so do not see it."""


@pytest.mark.parametrize("name", [axiom.name for axiom in FORWARD])
def test_a_forward_axiom_of_ours_may_not_claim_both_directions(name: str) -> None:
    found = check_definedness(SHIPPED.by_name[name])
    assert (found.forwards, bool(found.backwards)) == ("", name not in READS_LESS)


CHANNELS = node("Transpose", "x", "t", perm=[0, 3, 1, 2])
IMAGE = np.array([1, 2, 3, 4], np.float32)
UNDEFINED = np.array([np.nan], np.float32)


@pytest.mark.parametrize(
    ("left", "right", "undefined"),
    [
        (
            [node("ConvTranspose", "x w", "t", strides=[1, 2]), node("Mul", "t v", "y")],
            [node("Mul", "w v", "t"), node("ConvTranspose", "x t", "y", strides=[1, 2])],
            "v",
        ),
        (
            [node("Conv", "x k", "y", pads=[0, 1, 0, 1])],
            [node("ConvTranspose", "x b", "y", pads=[0, 1, 0, 1])],
            "first",
        ),
        (
            [CHANNELS, node("Conv", "t ones", "s"), node("Div", "t s", "y")],
            [CHANNELS, node("LRN", "t", "y", size=1)],
            "last",
        ),
    ],
    ids=["the gaps of a transposed convolution", "its borders", "channels outside of a window"],
)  # fmt: skip
def test_the_runtime_reads_less(
    left: list[onnx.NodeProto], right: list[onnx.NodeProto], undefined: str
) -> None:
    image, kernel = IMAGE.copy(), np.array([1, 10, 100], np.float32)
    if undefined == "last":
        image[-1] = np.nan
    if undefined == "first":
        kernel[0] = np.nan
    weights = {
        "w": np.ones((1, 1, 1, 1), np.float32),
        "v": UNDEFINED,
        "k": kernel.reshape(1, 1, 1, 3),
        "b": kernel[::-1].reshape(1, 1, 1, 3).copy(),
        "ones": np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1),
    }
    results = [_run(nodes, {"x": image.reshape(1, 1, 1, 4)}, weights) for nodes in (left, right)]
    assert np.isfinite(results[1]).sum() > np.isfinite(results[0]).sum()


def _run(nodes: list[onnx.NodeProto], given: dict[str, Array], weights: dict[str, Array]) -> Array:
    """What ONNX Runtime computes; nothing is a constant for it."""
    used = {name for each in nodes for name in each.input} & weights.keys()
    given = given | {name: weights[name] for name in sorted(used)}
    inputs = [value(name, array.shape) for name, array in given.items()]
    return run(model(nodes, inputs, [value("y", None)]).SerializeToString(), given)[0]


@pytest.mark.parametrize("name", [axiom.name for axiom in SHIPPED.equations if axiom not in FORWARD][::12])
def test_axioms_of_ours_keep_definedness_both_ways(name: str) -> None:
    found = check_definedness(SHIPPED.by_name[name], most=40, sampled=4)
    assert (found.forwards, found.backwards) == ("", "")


def test_the_direction_is_part_of_the_text_that_is_hashed() -> None:
    assert format_equation(SHIPPED.by_name["sub-of-itself"]) == "sub(x, x) => full[value=0]"
    equal = axioms_from_text({"f": "# A reason.\na: sub(x, x) = full[value=0]()"})
    forward = axioms_from_text({"f": "# A reason.\na: sub(x, x) => full[value=0]()"})
    assert equal.hash != forward.hash
