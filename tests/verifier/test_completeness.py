"""True rules of families that were out of reach are proved; what only looks like them is not."""

from __future__ import annotations

import itertools

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.verifier.refute.malformed import MALFORMED
from superopt.verifier.verification import Status, Verdict, verify

CYCLE = "transpose[perm=(1, 2, 0)]"


def _judged(text: str) -> Verdict:
    return verify(parse_equation(text), load_axioms())


TRUE = (
    f"{CYCLE}({CYCLE}(x)) => transpose[perm=(2, 0, 1)](x)",
    f"transpose[perm=(2, 0, 1)](x) => {CYCLE}({CYCLE}(x))",
    f"{CYCLE}({CYCLE}({CYCLE}(x))) => x",
    f"{CYCLE}(relu({CYCLE}(x))) => relu(transpose[perm=(2, 0, 1)](x))",
    f"{CYCLE}(transpose(x)) => transpose[perm=(2, 1, 0)](x)",
    "transpose[perm=(3, 2, 1, 0)](transpose[perm=(0, 2, 3, 1)](x)) => transpose[perm=(1, 3, 2, 0)](x)",
    "upsample_nearest[stride=2](upsample_nearest[stride=2](x)) => upsample_nearest[stride=4](x)",
    "upsample_nearest[stride=(2,1)](upsample_nearest[stride=(1,3)](x)) => upsample_nearest[stride=(2,3)](x)",
    "partition[axis=0, degree=2](partition[axis=0, degree=2](x)) => partition[axis=0, degree=4](x)",
    "combine[axis=0, degree=2](combine[axis=0, degree=2](x)) => combine[axis=0, degree=4](x)",
    "combine[axis=a, degree=2](combine[axis=a, degree=3](x)) => combine[axis=a, degree=6](x)",
    "replicate[degree=2](replicate[degree=3](x)) => replicate[degree=6](x)",
    "reduce[degree=2](reduce[degree=3](x)) => reduce[degree=6](x)",
    (
        "partition[axis=1, degree=2](matmul(x, y))"
        " => matmul(replicate[degree=2](x), partition[axis=1, degree=2](y)) where rank(x) = 2, rank(y) = 4"
    ),
    (
        "combine[axis=0, degree=d](combine[axis=1, degree=e]("
        "conv(partition[axis=0, degree=d](replicate[degree=e](x)),"
        " replicate[degree=d](partition[axis=0, degree=e](y)))))"
        " => conv(x, y) where groups(x, y) = 1"
    ),
    "pipeline[axis=-3, degree=d](matmul(x, y)) => matmul(x, pipeline[axis=-3, degree=d](y))",
    "pipeline[axis=1, degree=2](pipeline[axis=1, degree=2](x)) => pipeline[axis=1, degree=4](x)",
    "batch[axis=1, degree=2](batch[axis=1, degree=2](x)) => batch[axis=1, degree=4](x)",
    (
        "bias_add[axis=-1](transpose[perm=(0, 2, 3, 1)](x), y)"
        " => transpose[perm=(0, 2, 3, 1)](bias_add[axis=1](x, y))"
    ),
    "softmax[axis=-1](conv(x, y)) => softmax[axis=3](conv(x, y))",
    "softmax[axis=-1](x: f32[a, b]) => softmax[axis=1](x)",
    "split0[axis=-3](conv(x, y)) => split0[axis=1](conv(x, y))",
    "affine[axis=-3](conv(x, y), z, w) => affine[axis=1](conv(x, y), z, w)",
    "reduce_mean[axis=2](reduce_mean[axis=-1](maxpool[kernel=3](x))) => global_avgpool(maxpool[kernel=3](x))",
    "partition[axis=-4, degree=2](conv(x, y)) => partition[axis=0, degree=2](conv(x, y))",
    "reduce_sum[axis=a](softmax[axis=a](x)) => ones()",
    "sqrt(mul(x, x)) => absolute(x)",
    (
        "transpose(split1[axis=-2](lookup(rms_normalization[epsilon=e](t, s), i)))"
        " => split1[axis=-1](transpose(rms_normalization[epsilon=e](lookup(t, i), s)))"
    ),
    (
        "layer_normalization[epsilon=e](lookup(t, i), g, b)"
        " => lookup(layer_normalization[epsilon=e](t, g, b), i)"
    ),
    "sqrt(power[exponent=2](relu(x))) => relu(x)",
    "scale(sub(exp(log(x)), x), full[value=1000000000]()) => full[value=0]()",
    "concat[axis=1](concat[axis=1](x, y), z) => concat[axis=1](x, concat[axis=1](y, z))",
    (
        "concat[axis=a](concat[axis=a](x, y), concat[axis=a](z, w))"
        " => concat[axis=a](x, concat[axis=a](concat[axis=a](y, z), w))"
    ),
    (
        "concat[axis=1](conv(x, y), conv(x, concat[axis=0](z, w)))"
        " => conv(x, concat[axis=0](concat[axis=0](y, z), w)) where groups(x, y) = 1"
    ),
    "concat[axis=a](split0[axis=a](x), concat[axis=a](split1[axis=a](x), y)) => concat[axis=a](x, y)",
    "concat[axis=a](x, y) => concat[axis=a](split0[axis=a](x), concat[axis=a](split1[axis=a](x), y))",
    (
        "concat[axis=a](concat[axis=a](split0[axis=a](x), split0[axis=a](split1[axis=a](x))),"
        " split1[axis=a](split1[axis=a](x))) => x"
    ),
    (
        "matmul(concat[axis=-1](split0[axis=-1](x), concat[axis=-1](split1[axis=-1](x), y)), z)"
        " => matmul(concat[axis=-1](x, y), z)"
    ),
    "div(div(x, y), z) => div(x, mul(z, y))",
    "mul(div(x, y), div(z, w)) => div(mul(x, z), mul(w, y))",
    "maxpool[kernel=8](relu(x)) => relu(maxpool[kernel=8](x))",
    "maxpool[kernel=16](relu(x)) => relu(maxpool[kernel=16](x))",
    "relu(matmul(x: f32[128, 64], y)) => relu(relu(matmul(x, y)))",
    "relu(conv(x, y: f32[64, 32, 3, 3])) => relu(relu(conv(x, y)))",
    "reduce_max[axis=0](broadcast(x)) => broadcast(x)",
    "reduce_sum[axis=0](broadcast(x)) => broadcast(x)",
    "add(reduce_max[axis=0](x), full[value=0]()) => x",
    "relu(x) => relu(relu(x)) where dim(x, 0) >= 10",
    "relu(x) => relu(relu(x)) where dim(x, 0) != dim(x, 1)",
    "relu(x) => relu(relu(x)) where rank(x) = 7",
    "conv(x, relu(y)) => conv(x, relu(relu(y))) where groups(x, y) > 2",
    "matmul(x, relu(y)) => matmul(x, relu(relu(y))) where dim(x, -1) > 64, dim(y, 1) < dim(x, 1)",
)

FALSE = (
    f"{CYCLE}({CYCLE}(x)) => {CYCLE}(x)",
    "transpose[perm=(0, 2, 3, 1)](transpose[perm=(3, 2, 1, 0)](x)) => transpose[perm=(1, 3, 2, 0)](x)",
    "upsample_nearest[stride=2](upsample_nearest[stride=3](x)) => upsample_nearest[stride=5](x)",
    "upsample_linear[stride=2](upsample_linear[stride=2](x)) => upsample_linear[stride=4](x)",
    "replicate[degree=2](replicate[degree=3](x)) => replicate[degree=5](x)",
    (
        "partition[axis=0, degree=2](matmul(x, y))"
        " => matmul(replicate[degree=2](x), partition[axis=1, degree=2](y)) where rank(x) = 2, rank(y) = 4"
    ),
    "batch[axis=1, degree=2](batch[axis=0, degree=2](x)) => batch[axis=1, degree=4](x)",
    "partition[axis=0, degree=2](partition[axis=1, degree=2](x)) => partition[axis=0, degree=4](x)",
    (
        "bias_add[axis=-2](transpose[perm=(0, 2, 3, 1)](x), y)"
        " => transpose[perm=(0, 2, 3, 1)](bias_add[axis=1](x, y))"
    ),
    "softmax[axis=-1](conv(x, y)) => softmax[axis=2](conv(x, y))",
    "softmax[axis=-1](x) => softmax[axis=3](x)",
    "reduce_sum[axis=0](softmax[axis=-1](x)) => ones()",
    "concat[axis=1](concat[axis=1](x, y), z) => concat[axis=1](x, concat[axis=1](z, y))",
    "split0[axis=1](concat[axis=1](concat[axis=1](x, y), z)) => x",
    "concat[axis=a](split0[axis=a](x), concat[axis=a](y, split1[axis=a](x))) => concat[axis=a](x, y)",
    (
        "concat[axis=a](concat[axis=a](split0[axis=a](x), split1[axis=a](split1[axis=a](x))),"
        " split0[axis=a](split1[axis=a](x))) => x"
    ),
    (
        "split1[axis=a](concat[axis=a](split0[axis=a](x), concat[axis=a](split1[axis=a](x), y)))"
        " => concat[axis=a](split0[axis=a](x), y)"
    ),
    "div(div(x, y), z) => div(x, add(z, y))",
    "div(x, div(y, z)) => div(x, mul(y, z))",
    "maxpool[kernel=8](tanh(x)) => relu(maxpool[kernel=8](x))",
    "matmul(x: f32[128, 128], y) => matmul(y, x)",
    "softmax[axis=9](x) => x",
    "softmax[axis=-3](concat[axis=3](x, y)) => concat[axis=3](softmax[axis=-3](x), softmax[axis=-3](y))",
    (
        "reduce_sum[axis=-4](concat[axis=4](x, y))"
        " => concat[axis=4](reduce_sum[axis=-4](x), reduce_sum[axis=-4](y))"
    ),
    "conv(conv(x, y: f32[5, 3, 1, 1]), z) => conv(x, conv(z, transpose[perm=(1, 0, 2, 3)](y)))",
    "reduce_sum[axis=0](x) => x where dim(x, 0) >= 10",
    "matmul(x, y) => matmul(relu(x), y) where dim(x, -1) > 17, rank(x) = 2",
    "add(x, y) => sub(x, y) where rank(x) = 6, rank(y) = 6",
)

THREE_DEGREES = "partition[axis=0, degree=d](partition[axis=1, degree=e](partition[axis=2, degree=f]"
DIVIDED_RESHAPE = "reshape[shape=s](partition[axis=0, degree=d]"
IN_FIELD = "differ in a prime field but not over real numbers"

OUT_OF_REACH = (
    (
        ("rms_normalization[epsilon=e](lookup(t, i), g) => lookup(rms_normalization[epsilon=e](t, g), i)"),
        "not validated",
    ),
    ("power[exponent=20](x) => mul(power[exponent=10](x), power[exponent=10](x))", "no proof"),
    ("mul(power[exponent=e](x), power[exponent=f](x)) => power[exponent=e + f](x)", "no proof"),
    (
        "rms_normalization[epsilon=0](scale(x, full[value=2]()), y) => rms_normalization[epsilon=0](x, y)",
        "no proof",
    ),
    ("select(equal(mul(sqrt(x), sqrt(x)), x), y, z) => y", "no proof"),
    ("reduce_max[axis=a](exp(x)) => exp(reduce_max[axis=a](x))", "not validated"),
    ("log(add(ones(), exp(x))) => softplus(x)", "not validated"),
    ("equal(scale(scale(x, full[value=1/3]()), full[value=3]()), x) => equal(x, x)", IN_FIELD),
    ("greater(exp(add(x, y)), mul(exp(x), exp(y))) => greater(x, x)", IN_FIELD),
    (
        "global_avgpool(x: f32[2, 3, 7, 7]) => avgpool[kernel=7](x: f32[2, 3, 7, 7])",
        "no small well-typed instance",
    ),
    (
        f"{THREE_DEGREES}(relu(x)))) => relu({THREE_DEGREES}(x))))",
        "how several degrees and other numbers divide each other has too many cases",
    ),
    (
        f"{DIVIDED_RESHAPE}(x)) => {DIVIDED_RESHAPE}(identity(x)))",
        "how a divided tensor lies that is reshaped depends on which sizes are 1",
    ),
    ("relu(x) => relu(relu(x)) where rank(x) = 9", "need tensors of more than 16 axes are not examined"),
    (
        "pipeline[axis=a, degree=d](batch[axis=a, degree=d](x: f32[n, n])) => x",
        "a tensor of declared sizes is combined, which must be divided before",
    ),
    ("lrn[size=0, alpha=1, beta=1, bias=1](x) => x", "malformed: the source is never well-typed"),
    ("reduce_sum[axis=0](x: f32[0, 3]) => full[value=0]()", "malformed: the source is never well-typed"),
)
"""True rules, and the reason why each is unproved, as docs/proof.md says it."""


@pytest.mark.parametrize("text", TRUE)
def test_true_rules_are_proved(text: str) -> None:
    verdict = _judged(text)
    assert verdict.status is Status.VERIFIED, verdict
    assert verdict.confirmed_by


@pytest.mark.parametrize(("text", "reason"), OUT_OF_REACH)
def test_true_rules_out_of_reach_are_not_refuted(text: str, reason: str) -> None:
    verdict = _judged(text)
    assert verdict.status is Status.UNPROVED
    assert reason in verdict.reason


@pytest.mark.parametrize("text", FALSE)
def test_false_neighbours_are_refuted(text: str) -> None:
    verdict = _judged(text)
    assert verdict.status is Status.REFUTED, verdict
    assert verdict.counterexample


def test_all_compositions_of_permutations_of_three_axes() -> None:
    every = tuple(itertools.permutations(range(3)))
    for (n, first), then in itertools.product(enumerate(every), every):
        both = tuple(first[axis] for axis in then)
        right = "x" if both == (0, 1, 2) else f"transpose[perm={both}](x)"
        verdict = _judged(f"transpose[perm={then}](transpose[perm={first}](x)) => {right}")
        assert verdict.status is Status.VERIFIED, (first, then, verdict)
        other = every[(every.index(both) + 1 + n % 5) % 6]
        wrong = _judged(f"transpose[perm={then}](transpose[perm={first}](x)) => transpose[perm={other}](x)")
        assert wrong.status is Status.REFUTED, (first, then, wrong)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("matmul(x, scale(y, x)) => matmul(x, y)", "the source is never well-typed: matmul(x, scale(y, x))"),
        (
            "conv(x, y) => transpose[perm=(1, 0)](conv(x, y))",
            "the target is never well-typed: transpose[perm=(1, 0)](conv(x, y)): transpose: perm",
        ),
        (
            "matmul(x: f32[2, 3], y: f32[4, 5]) => matmul(x, y)",
            "the source is never well-typed: matmul(x, y): matmul: dimensions 3 and 4 must be equal",
        ),
        ("relu(x: f32[2, 3]) => conv(x, x)", "the target is never well-typed: conv(x, x)"),
        (
            "lrn[size=0](x) => x",
            "the source is never well-typed: lrn[size=0](x): lrn: expected size to be at least 1, got 0",
        ),
        (
            "conv(x, band_kernel[size=0, alpha=1]()) => x",
            (
                "the source is never well-typed: band_kernel[size=0, alpha=1]: band_kernel: expected size to"
                " be at least 1, got 0"
            ),
        ),
        (
            (
                "combine[axis=-4, degree=d](matmul(replicate[degree=d](x), y))"
                " => matmul(x, combine[axis=-1, degree=d](y))"
            ),
            (
                "the source is never well-typed: combine[axis=-4, degree=d](matmul(replicate[degree=d](x), y"
                ")): combine: an axis in 1 parts cannot be one in"
            ),
        ),
        (
            "combine[axis=0, degree=2](matmul(x, y)) => matmul(x, y)",
            "the source is never well-typed: combine[axis=0, degree=2](matmul(x, y)): combine: an axis",
        ),
        (
            "relu(x) => relu(relu(x)) where rank(x) = 2, rank(x) = 3",
            "its conditions hold for no well-typed sides",
        ),
    ],
)
def test_what_is_never_well_typed_is_malformed(text: str, why: str) -> None:
    verdict = _judged(text)
    assert verdict.status is Status.UNPROVED
    assert verdict.reason.startswith(MALFORMED + why), verdict.reason
