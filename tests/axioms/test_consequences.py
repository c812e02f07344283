"""What the axioms beyond Table 2.2 let prove: rewrites that networks need, each verified from start to end."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.verifier import Status, verify

CONSEQUENCES = {
    "two batches of attention scores": (
        (
            "concat[axis=0](softmax[axis=-1](matmul(q, k)), softmax[axis=-1](matmul(r, l))) "
            "=> softmax[axis=-1](matmul(concat[axis=0](q, r), concat[axis=0](k, l))) where rank(q) = 3, rank(k) = 3"
        ),
        {"matmul-concat-batch", "softmax-of-concat"},
    ),
    "a linear layer of two batches": (
        "concat[axis=0](relu(matmul(x, w)), relu(matmul(y, w))) => relu(matmul(concat[axis=0](x, y), w)) where rank(w) = 2",
        {"concat-of-relu", "matmul-concat-shared-right"},
    ),
    "the transposed keys of attention": (
        "matmul(x, transpose(transpose[perm=(0, 2, 1, 3)](y))) => matmul(x, transpose[perm=(0, 2, 3, 1)](y))",
        {"transpose-of-heads"},
    ),
    "scores shifted by one number": (
        "matmul(softmax[axis=-1](add(x, broadcast(w))), y) => matmul(softmax[axis=-1](x), y) where rank(w) = 0",
        {"softmax-of-shift"},
    ),
    "gelu as exported in pieces, half by half": (
        (
            "split0[axis=a](mul(scale(x, full[value=1/2]()), "
            "add(ones(), erf(scale(x, full[value=6369051672525773/9007199254740992]()))))) => gelu(split0[axis=a](x))"
        ),
        {"gelu-by-erf", "split0-of-gelu"},
    ),
    "a chain of three pools is one": (
        (
            "maxpool[kernel=5, padding=same](maxpool[kernel=5, padding=same](maxpool[kernel=5, padding=same](x))) "
            "=> maxpool[kernel=13, padding=same](x)"
        ),
        {"maxpool-five-of-five-same", "maxpool-five-of-nine-same"},
    ),
    "a 1x1 and a 3x3 convolution of one input": (
        (
            "concat[axis=1](conv[stride=s](x, y), conv[stride=s, padding=(1, 1, 1, 1)](x, z)) "
            "=> conv[stride=s, padding=same](x, concat[axis=0](enlarge[kernel=3](y), z)) "
            "where groups(x, y) = 1, dim(y, 2) = 1, dim(y, 3) = 1, dim(z, 2) = 3, dim(z, 3) = 3"
        ),
        {"conv-concat-outputs", "conv-enlarge", "conv-pointwise-is-same", "conv-three-is-same"},
    ),
    "batch normalisation before a convolution": (
        (
            "conv[stride=s](affine[axis=1](x, a, b), w) "
            "=> bias_add[axis=1](conv[stride=s](x, channel_scale[axis=1](w, a)), kernel_response(w, b))"
        ),
        {"affine-definition", "conv-of-bias", "conv-scale-inputs"},
    ),
    "a bias before two convolutions": (
        (
            "concat[axis=0](kernel_response(x, v), kernel_response(enlarge[kernel=3](y), v)) "
            "=> kernel_response(concat[axis=0](enlarge[kernel=3](x), enlarge[kernel=3](y)), v) where channels(x) = dim(v, 0)"
        ),
        {"kernel-response-enlarged", "kernel-response-of-concat"},
    ),
    "channels last and back": (
        (
            "transpose[perm=(0, 3, 1, 2)](bias_add[axis=3](relu(transpose[perm=(0, 2, 3, 1)](x)), s)) "
            "=> bias_add[axis=1](relu(x), s)"
        ),
        {"transpose-of-relu"},
    ),
    "a window as large as the image": (
        "relu(avgpool[kernel=3](x)) => relu(global_avgpool(x)) where dim(x, 2) = 3, dim(x, 3) = 3",
        {"avgpool-of-everything"},
    ),
    "only every second result of a convolution": (
        "maxpool[kernel=1, stride=2](relu(conv[padding=same](x, y))) => conv[stride=2, padding=same, activation=relu](x, y)",
        {"conv-relu", "subsampled-conv"},
    ),
    "what is multiplied by zero": ("add(mul(x, full[value=0]()), y) => y", {"add-of-zeros", "mul-by-zeros"}),
    "halves of an image normalised per channel": (
        "split1[axis=0](relu(affine[axis=1](x, s, t))) => relu(affine[axis=1](split1[axis=0](x), s, t))",
        {"split1-across-affine"},
    ),
    "a constant factor below a maximum": (
        (
            "maxpool[kernel=k, stride=s, padding=p](relu(scale(x, full[value=2]()))) "
            "=> scale(maxpool[kernel=k, stride=s, padding=p](relu(x)), full[value=2]())"
        ),
        {"maxpool-of-scale", "relu-of-scale"},
    ),
}


@pytest.mark.parametrize("case", CONSEQUENCES)
def test_consequence_is_verified(case: str) -> None:
    text, expected = CONSEQUENCES[case]
    verdict = verify(parse_equation(text), load_axioms())
    assert verdict.status is Status.VERIFIED, verdict.counterexample or verdict.reason
    assert expected <= set(verdict.axioms_used), verdict.axioms_used


BEYOND_PROOF = {
    "a linear layer over a flattened batch": "relu(reshape[shape=s](matmul(reshape[shape=t](x), y))) => relu(matmul(x, y)) where rank(y) = 2, leading(s) = leading(x)",
    "an elementwise function between reshapes": "reshape[shape=s](relu(reshape[shape=t](x))) => relu(x) where shape(x) = s",
}
"""True, and they follow; but how five sizes can be five others with the same product has too many cases."""


@pytest.mark.parametrize("text", BEYOND_PROOF.values(), ids=BEYOND_PROOF)
def test_a_consequence_that_cannot_be_shown_for_all_sizes_is_unproved(text: str) -> None:
    verdict = verify(parse_equation(text), load_axioms())
    assert (verdict.status, verdict.reason) == (
        Status.UNPROVED,
        "at which sizes reshape is well-typed is not known",
    )
