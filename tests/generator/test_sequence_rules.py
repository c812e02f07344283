"""Rules for networks over sequences, found and proved: normalisations, attention, gates."""

from __future__ import annotations

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.verifier import Status, verify
from tests.generator.generations import Where, found

SOFTMAX = ("normalisation", 4, "exp", "reduce_sum", "reduce_max", "broadcast", "sub", "div", "softmax")
ROOTS = ("normalisation", 4, "sqrt", "power", "div", "mul", "broadcast")
CENTRED = (
    "normalisation",
    4,
    "reduce_mean",
    "broadcast",
    "sub",
    "rms_normalization",
    "bias_add",
    "layer_normalization",
)
RMS = (
    "normalisation",
    4,
    "mul",
    "reduce_mean",
    "add",
    "sqrt",
    "broadcast",
    "div",
    "channel_scale",
    "rms_normalization",
)
ABSORBED = (
    "normalisation",
    4,
    "channel_scale",
    "bias_add",
    "mul",
    "add",
    "rms_normalization",
    "layer_normalization",
)
MEANS = ("normalisation", 4, "reduce_mean", "global_avgpool")
BATCH = ("normalisation", 4, "batchnorm_scale", "batchnorm_shift", "mul", "add")
SCORES = ("attention", 3, "matmul", "scale", "transpose", "softmax")
HEADS = ("attention", 3, "matmul", "concat")
PROJECTIONS = ("attention", 3, "matmul", "concat", "split0", "split1", "scale", "bias_add")
GATES = ("recurrent", 3, "matmul", "add", "concat", "split0", "split1", "bias_add")
CURVES = ("recurrent", 3, "sigmoid", "scale", "sub")
MIXED = ("recurrent", 3, "sub", "add", "mul")

COLUMNS = "concat[axis=-1]"
CENTRE = "sub(x, broadcast(reduce_mean[axis=a](x)))"

RULES: dict[str, tuple[Where, str]] = {
    "softmax as a quotient": (
        SOFTMAX,
        "div(exp(x), broadcast(reduce_sum[axis=a](exp(x)))) <=> softmax[axis=a](x)",
    ),
    "softmax of what is left without the largest": (
        SOFTMAX,
        "softmax(sub(x, broadcast(reduce_max[axis=-1](x)))) <=> softmax(x)",
    ),
    "squares": (ROOTS, "mul(x, x) <=> power[exponent=2](x)"),
    "a quotient by what is repeated": (
        ROOTS,
        "mul(x, broadcast(power[exponent=-1](y))) <=> div(x, broadcast(y))",
    ),
    "rms normalisation": (
        RMS,
        (
            "channel_scale[axis=-1]"
            "(div(x, broadcast(sqrt(add(reduce_mean[axis=-1](mul(x, x)), full[value=e]())))), y) "
            "<=> rms_normalization[epsilon=e](x, y)"
        ),
    ),
    "layer normalisation": (
        CENTRED,
        (
            "bias_add[axis=-1]"
            "(rms_normalization[epsilon=e](sub(x, broadcast(reduce_mean[axis=-1](x))), y), z) "
            "<=> layer_normalization[epsilon=e](x, y, z)"
        ),
    ),
    "layer normalisation, then a factor": (
        ABSORBED,
        (
            "layer_normalization[epsilon=e](x, mul(y, z), mul(w, y)) "
            "<=> channel_scale[axis=-1](layer_normalization[epsilon=e](x, z, w), y)"
        ),
    ),
    "layer normalisation, then a term": (
        ABSORBED,
        (
            "bias_add[axis=-1](layer_normalization[epsilon=e](x, y, z), w) "
            "<=> layer_normalization[epsilon=e](x, y, add(w, z))"
        ),
    ),
    "the mean over an image": (MEANS, "reduce_mean[axis=2](reduce_mean[axis=3](x)) <=> global_avgpool(x)"),
    "batch normalisation, then a term": (
        BATCH,
        "add(batchnorm_shift(x, y, z), w) <=> batchnorm_shift(x, add(y, w), z)",
    ),
    "scores scaled before or after": (SCORES, "matmul(scale(x, y), z) <=> scale(matmul(x, z), y)"),
    "scores transposed": (SCORES, "transpose(matmul(x, transpose(y))) <=> matmul(y, transpose(x))"),
    "heads, then the last two axes": (
        SCORES,
        "transpose(transpose[perm=(0, 2, 1, 3)](x)) <=> transpose[perm=(0, 2, 3, 1)](x)",
    ),
    "queries, keys and values in one product": (
        PROJECTIONS,
        (
            f"(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, {COLUMNS}(y, z))), "
            f"split1[axis=-1](matmul(x, {COLUMNS}(y, z))))"
        ),
    ),
    "a scaled projection": (
        PROJECTIONS,
        (
            "bias_add[axis=a](matmul(x, scale(y, z)), scale(w, z)) "
            "<=> scale(bias_add[axis=a](matmul(x, y), w), z)"
        ),
    ),
    "input and state side by side": (
        GATES,
        f"add(matmul(x, y), matmul(z, w)) <=> matmul({COLUMNS}(x, z), concat[axis=-2](y, w))",
    ),
    "sigmoid of a negative": (CURVES, "sigmoid(scale(x, full[value=-1]())) <=> sub(ones(), sigmoid(x))"),
    "what is kept and what is new": (
        MIXED,
        "add(mul(sub(ones(), x), y), mul(x, z)) <=> add(y, mul(x, sub(z, y)))",
    ),
}


@pytest.mark.parametrize(("where", "rule"), RULES.values(), ids=RULES)
def test_is_found_and_proved(where: Where, rule: str) -> None:
    verdict = verify(found(where, rule), load_axioms())
    assert verdict.status is Status.VERIFIED, verdict.reason


def test_the_mean_of_what_has_none_is_found_but_not_proved() -> None:
    """The chain that provers find has one zero in two shapes: as a mean, and as what it is spread to."""
    rule = found(CENTRED, f"sub(x, broadcast(reduce_mean[axis=a]({CENTRE}))) => x")
    verdict = verify(rule, load_axioms())
    assert verdict.status is Status.UNPROVED
    assert "constants of different shapes" in verdict.reason


def test_heads_are_joined_where_they_are_the_second_of_four_axes() -> None:
    joined = (
        "concat[axis=1](matmul(x, y), matmul(z, w)) <=> matmul(concat[axis=1](x, z), concat[axis=1](y, w))"
    )
    assert found(HEADS, joined) is not None
    rule = parse_equation(f"{joined} where rank(y) = 4")
    assert verify(rule, load_axioms()).status is Status.VERIFIED
