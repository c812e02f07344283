"""Rules that make models faster on a CPU: each is found by a preset, and proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from superopt.axioms import load_axioms
from superopt.ir.terms import AttributeVariable, Condition, ConditionName, Direction, applications
from superopt.verifier import Status, verify
from tests.generator.generations import Where, found

PRODUCTS = ("matrix", 3, "matmul", "add", "mul")
STEPS = ("elementwise", 3, "affine", "channel_scale", "bias_add", "mul", "add")
GATES = ("elementwise", 2, "mul", "hard_sigmoid", "hard_swish", "relu", "identity")
FOLDS = ("folding", 4, "conv", "kernel_response", "channel_scale", "bias_add", "affine")
SUMS = ("convolution", 3, "conv", "add", "enlarge")
SELECTED = ("subsampling", 3)
COMPOSED = ("pointwise", 4)
CURVES = ("gates", 3)
ROOTS = ("powers", 3)
BRANCHES = ("branches", 5)
SPREAD = ("broadcasting", 3)
ENLARGED = ("upsampling", 3)

CONV = "conv[stride=s, padding=p, dilation=d]"
POINTWISE = "where dim(y, 2) = 1, dim(y, 3) = 1"
SELECT = "maxpool[kernel=1, stride=s]"
ANY = "[stride=s, padding=same, dilation=d, activation=c]"
SWAP = "transpose[perm=(1, 0, 2, 3)]"

RULES: dict[str, tuple[Where, str]] = {
    "a 1x1 convolution before an image is made larger": (
        ENLARGED,
        (
            "conv[padding=same, dilation=d](upsample_linear[stride=s](x), y) "
            f"<=> upsample_linear[stride=s](conv[padding=same, dilation=d](x, y)) {POINTWISE}"
        ),
    ),
    "products of weights folded, chains reassociated": (
        PRODUCTS,
        "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))",
    ),
    "a common left factor": (PRODUCTS, "add(matmul(x, y), matmul(x, z)) <=> matmul(x, add(y, z))"),
    "a common right factor": (PRODUCTS, "add(matmul(x, y), matmul(z, y)) <=> matmul(add(x, z), y)"),
    "a common factor of products of elements": (PRODUCTS, "add(mul(x, y), mul(x, z)) <=> mul(x, add(y, z))"),
    "batch normalisation, then a factor": (
        STEPS,
        "affine[axis=a](x, mul(y, z), mul(w, y)) <=> channel_scale[axis=a](affine[axis=a](x, z, w), y)",
    ),
    "batch normalisation, then a term": (
        STEPS,
        "affine[axis=a](x, y, add(z, w)) <=> bias_add[axis=a](affine[axis=a](x, y, w), z)",
    ),
    "hard sigmoid times x": (GATES, "mul(x, hard_sigmoid[alpha=1/6](x)) <=> hard_swish(x)"),
    "batch normalisation after a convolution": (
        FOLDS,
        (
            "bias_add[axis=1](conv[stride=s](x, channel_scale[axis=0](y, z)), w) "
            "<=> affine[axis=1](conv[stride=s](x, y), z, w)"
        ),
    ),
    "batch normalisation before a convolution": (
        FOLDS,
        (
            "bias_add[axis=1](conv[stride=s, dilation=d](x, channel_scale[axis=1](y, z)), "
            "kernel_response(y, w)) <=> conv[stride=s, dilation=d](affine[axis=1](x, z, w), y)"
        ),
    ),
    "parallel convolutions of one image summed": (
        SUMS,
        f"add({CONV}(x, y), {CONV}(x, z)) <=> {CONV}(x, add(y, z))",
    ),
    "a small kernel as a large one, depthwise too": (
        SUMS,
        f"conv{ANY}(x, enlarge[kernel=3](y)) <=> conv{ANY}(x, y)",
    ),
    "selected results by a stride": (
        SELECTED,
        f"{SELECT}(conv{ANY.replace('stride=s, ', '')}(x, y)) <=> conv{ANY}(x, y)",
    ),
    "selected maxima by a stride": (
        SELECTED,
        f"{SELECT}(maxpool[kernel=k, padding=same](x)) <=> maxpool[kernel=k, stride=s, padding=same](x)",
    ),
    "selecting before a gate": (SELECTED, f"{SELECT}(silu(x)) <=> silu({SELECT}(x))"),
    "selecting before a sum": (SELECTED, f"add({SELECT}(x), {SELECT}(y)) <=> {SELECT}(add(x, y))"),
    "selecting before a bias, pooling too": (
        SELECTED,
        (
            "bias_add[axis=1](maxpool[kernel=k, stride=s, padding=p](x), y) "
            "<=> maxpool[kernel=k, stride=s, padding=p](bias_add[axis=1](x, y))"
        ),
    ),
    "pooling before relu": (
        SELECTED,
        "maxpool[kernel=k, stride=s, padding=p](relu(x)) <=> relu(maxpool[kernel=k, stride=s, padding=p](x))",
    ),
    "average pooling before a pointwise convolution": (
        SELECTED,
        (
            f"avgpool[kernel=2, stride=s](conv[padding=same](x, y)) "
            f"<=> conv[padding=same](avgpool[kernel=2, stride=s](x), y) {POINTWISE}"
        ),
    ),
    "a pointwise convolution before another composed with it": (
        COMPOSED,
        (
            f"{CONV}(x, conv[padding=same, dilation=d](y, {SWAP}(z))) "
            f"<=> {CONV}(conv[padding=same, dilation=d](x, z), y) "
            "where dim(z, 2) = 1, dim(z, 3) = 1, groups(x, z) = 1"
        ),
    ),
    "a pointwise convolution after another composed with it": (
        COMPOSED,
        (
            f"{CONV}(x, {SWAP}(conv[padding=same, dilation=d]({SWAP}(y), z))) "
            f"<=> conv[padding=same, dilation=d]({CONV}(x, y), z) "
            "where dim(z, 2) = 1, dim(z, 3) = 1, groups(x, y) = 1"
        ),
    ),
    "sigmoid times x": (CURVES, "mul(sigmoid(x), x) <=> silu(x)"),
    "the curve of gelu by tanh as a sigmoid": (
        CURVES,
        "scale(add(tanh(x), ones()), full[value=1/2]) <=> sigmoid(scale(x, full[value=2]))",
    ),
    "a factor inside or outside": (CURVES, "mul(scale(x, y), z) <=> scale(mul(x, z), y)"),
    "a power by roots": (ROOTS, "mul(sqrt(sqrt(x)), sqrt(x)) <=> power[exponent=3/4](x)"),
    "a quotient by a root": (ROOTS, "div(x, sqrt(y)) <=> mul(x, power[exponent=-1/2](y))"),
    "a square": (ROOTS, "mul(x, x) <=> power[exponent=2](x)"),
    "a small kernel beside a large one": (
        BRANCHES,
        (
            "add(conv[stride=s, padding=same, dilation=d](x, y), "
            "conv[stride=s, padding=same, dilation=d](x, z)) "
            "<=> conv[stride=s, padding=same, dilation=d](x, add(y, enlarge[kernel=5](z)))"
        ),
    ),
    "small and large kernels with biases": (
        BRANCHES,
        (
            "add(bias_add[axis=1](conv[stride=s, padding=same](x, y), z), "
            "bias_add[axis=1](conv[stride=s, padding=same](x, w), u)) <=> bias_add[axis=1]("
            "conv[stride=s, padding=same](x, add(y, enlarge[kernel=3](w))), add(z, u))"
        ),
    ),
    "a gate by tanh as one by sigmoid": (
        BRANCHES,
        ("scale(mul(x, add(tanh(y), ones())), full[value=1/2]) <=> mul(x, sigmoid(scale(y, full[value=2])))"),
    ),
    "a product of low rank beside its whole": (
        BRANCHES,
        "add(matmul(x, y), matmul(matmul(x, z), w)) <=> matmul(x, add(y, matmul(z, w)))",
    ),
    "selecting before bias and activation, by a stride": (
        BRANCHES,
        (
            f"{SELECT}(relu(bias_add[axis=1](conv[padding=same, dilation=d, activation=c](x, y), z))) "
            f"<=> relu(bias_add[axis=1](conv{ANY}(x, y), z))"
        ),
    ),
    "an activation before repeating": (SPREAD, "broadcast(sigmoid(x)) <=> sigmoid(broadcast(x))"),
    "a product before repeating": (SPREAD, "mul(broadcast(x), broadcast(y)) <=> broadcast(mul(x, y))"),
}


@pytest.mark.parametrize(("where", "rule"), RULES.values(), ids=RULES)
def test_is_found_and_proved(where: Where, rule: str) -> None:
    assert verify(found(where, rule), load_axioms()).status is Status.VERIFIED


def test_normalisation_of_neighbours_is_a_convolution_where_its_exponent_is_not_negative() -> None:
    """For a negative one the quotient is undefined where the sum is 0. The convolution multiplies channels
    that the normalisation does not read by 0, so that one direction alone keeps what is defined."""
    equation = found(
        ("vision", 5),
        "div(x, power[exponent=b](bias_add[axis=1](conv(mul(x, x), band_kernel[size=n, alpha=a]), "
        "full[value=c]))) <=> lrn[size=n, alpha=a, beta=b, bias=c](x)",
    )
    assert verify(equation, load_axioms()).status is Status.REFUTED
    (exponent,) = (
        value.name
        for term in applications(*equation.left)
        for name, value in term.attributes
        if name == "exponent" and isinstance(value, AttributeVariable)
    )
    limited = replace(equation, conditions=(Condition(ConditionName(exponent), ">=", 0),))
    assert verify(limited, load_axioms()).status is Status.UNPROVED
    forward = replace(limited, direction=Direction.FORWARD)
    assert verify(forward, load_axioms()).status is Status.VERIFIED
