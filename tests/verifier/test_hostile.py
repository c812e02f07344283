"""Rules made to deceive the verifier: true at most ranks, sizes and values, or vacuous, or oddly named."""

# ruff: noqa: E501

from __future__ import annotations

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.errors import InvalidEquationError
from superopt.verifier import Status, verify

REFUTED = {
    "an axiom whose condition no positive number breaks": "hard_sigmoid[alpha=a](maxpool[kernel=2](x)) => maxpool[kernel=2](hard_sigmoid[alpha=a](x))",
    "axes that coincide in matrices only": "concat[axis=-1](concat[axis=1](x, y), concat[axis=1](z, w)) => concat[axis=1](concat[axis=-1](x, z), concat[axis=-1](y, w))",
    "axes that coincide at rank 4 only": "concat[axis=2](concat[axis=-2](x, y), concat[axis=-2](z, w)) => concat[axis=-2](concat[axis=2](x, z), concat[axis=2](y, w))",
    "axes that are equal by choice": "concat[axis=a](concat[axis=b](x, y), concat[axis=b](z, w)) => concat[axis=b](concat[axis=a](x, z), concat[axis=a](y, w))",
    "axes that differ as written": "softmax[axis=a](bias_add[axis=b](x, y)) => softmax[axis=a](x) where a != b",
    "associativity with halves that have no size": "split0[axis=0](concat[axis=0](concat[axis=0](x, y), z)) => x",
    "as many groups and other outputs": "concat[axis=1](conv(x, y), conv(z, w)) => conv(concat[axis=1](x, z), concat[axis=0](y, w)) where groups(x, y) = groups(z, w)",
    "one position of several": "avgpool[kernel=k, stride=s](x) => global_avgpool(x)",
    "a pool that is all of some images": "avgpool[kernel=2, stride=2](x) => global_avgpool(x)",
    "a broadcast square": "transpose(broadcast(x)) => broadcast(x)",
    "one symbol for constants of all shapes": "matmul(ones(), ones()) => ones()",
    "a vector along the wrong axis of a square": "add(x, broadcast(s)) => bias_add[axis=0](x, s)",
    "halves that must be equal": "(split0[axis=0](x), split1[axis=0](x)) => (split1[axis=0](x), split0[axis=0](x))",
    "the middle of a tensor": "split1[axis=0](split0[axis=0](x)) => split0[axis=0](split1[axis=0](x))",
    "paddings that agree for odd kernels": "conv[padding=same_lower](x, w) => conv[padding=same_upper](x, w)",
    "paddings that agree at odd sizes": "conv[stride=s, padding=same_upper](x, w) => conv[stride=s, padding=same](x, w)",
    "enlarging at stride 2 and even sizes": "conv[stride=s, padding=same_upper](x, enlarge[kernel=k](w)) => conv[stride=s, padding=same_upper](x, w)",
    "dilated kernels enlarged": "conv[padding=p, dilation=d](x, enlarge[kernel=3](w)) => conv[padding=p, dilation=d](x, w)",
    "padding that counts at the border only": "avgpool[kernel=k, padding=p](x) => avgpool[kernel=k, padding=p, includes_padding=1](x)",
    "a root of a square": "sqrt(mul(x, x)) => x",
    "a square of a root, undefined below 0": "relu(x) => mul(sqrt(x), sqrt(x))",
    "roots of factors of one sign": "sqrt(mul(x, y)) => mul(sqrt(x), sqrt(y))",
    "powers of factors of one sign": "power[exponent=a](mul(x, y)) => mul(power[exponent=a](x), power[exponent=a](y))",
    "a quotient by zero": "mul(x, y) => mul(div(mul(x, y), y), y)",
    "a factor of unknown sign": "relu(scale(x, s)) => scale(relu(x), s)",
    "a maximum of multiples of unknown sign": "maxpool[kernel=2](channel_scale[axis=1](x, s)) => channel_scale[axis=1](maxpool[kernel=2](x), s)",
    "a constant that is 1 modulo the prime": "scale(x, full[value=2147483648]) => x",
    "sizes named like the search's own symbols": "transpose(x: f32[cut0, cut0]) => x",
    "groups named like the search's own symbols": "conv(x: f32[1, groups0, 3, 3], y: f32[outputs0, channels0, 1, 1]) => conv(x, transpose[perm=(1, 0, 2, 3)](y))",
    "tensors named like words of the solver": "matmul(T, true) => matmul(true, T)",
    "outputs in another order": "(relu(x), relu(y)) => (relu(y), relu(x))",
    "equal shapes only": "matmul(x, y) => matmul(y, x) where shape(x) = shape(y)",
    "a rank at which nothing was tried yet": "relu(x) => x where rank(x) = 5",
    "a size at which nothing was tried yet": "relu(x) => x where dim(x, 0) = 97",
    "a sum with a term of unknown sign": "relu(add(relu(x), y)) => add(relu(x), relu(y))",
    "a difference of what is not negative": "relu(sub(relu(x), relu(y))) => sub(relu(x), relu(y))",
    "a product of two negatives": "relu(mul(x, y)) => mul(relu(x), relu(y))",
    "a square that is a matrix product": "relu(matmul(x, x)) => matmul(x, x)",
    "a kernel of unknown sign": "relu(conv(relu(x), y)) => conv(relu(x), y)",
    "a constant of unknown sign": "relu(full[value=v]()) => full[value=v]()",
    "a mean of unknown sign": "relu(avgpool[kernel=k, padding=p](x)) => avgpool[kernel=k, padding=p](relu(x))",
    "a diagonal only": "mul(identity_matrix(), x) => mul(x, transpose(x))",
    "elements that are not 0 or 1": "mul(avgpool_kernel[kernel=3], avgpool_kernel[kernel=3]) => avgpool_kernel[kernel=3]",
    "a constant of another size": "conv[padding=valid](x, identity_kernel[kernel=3]) => x",
    "a mean of one position": "enlarge[kernel=3](avgpool_kernel[kernel=1]) => avgpool_kernel[kernel=3]",
    "one extent of two": "enlarge[kernel=3](x) => x where dim(x, 2) = 3",
    "extents that are alike": "enlarge[kernel=3](x) => x where dim(x, 2) = dim(x, 3)",
    "an identity beside one factor of two": "concat[axis=-1](x, matmul(y, z)) => matmul(x, concat[axis=-1](identity_matrix(), z))",
    "columns of a matrix, heads of a batch": "concat[axis=1](x, matmul(x, y)) => matmul(x, concat[axis=1](identity_matrix(), y))",
    "a product that is 1 modulo the prime": "scale(scale(x, full[value=65536]), full[value=32768]) => x",
    "a window of windows at the border": "avgpool[kernel=3, padding=same](avgpool[kernel=3, padding=same](x)) => avgpool[kernel=5, padding=same](x)",
    "groups of two kernels that are joined": "(conv(x, y), conv(x, z)) => (split0[axis=1](conv(x, concat[axis=0](y, z))), split1[axis=1](conv(x, concat[axis=0](y, z))))",
    "a difference in the ninth digit": "add(x, scale(y, full[value=1/1000000000])) => x",
    "odd, said by what it is not": "relu(x) => x where even(dim(x, 0)) = 0",
    "a size that only its condition names": "relu(x) => x where dim(x, 0) > 50",
    "halves of a broadcast": "split0[axis=0](broadcast(x)) => broadcast(split0[axis=0](x))",
}
RARELY_SEEN = "split0[axis=1](conv(x, y)) => conv(x, split0[axis=0](y)) where groups(x, y) != 2"
UNPROVED = {
    "vacuous: no elements": "add(x: f32[0], y: f32[0]) => mul(x, y)",
    "vacuous: some without elements": "add(x: f32[0, n], y) => mul(x, y)",
    "vacuous: a size out of reach": "relu(x) => x where dim(x, 0) > 50000",
    "vacuous: types that never agree": "concat[axis=0](ones(), ones()) => ones()",
    "a difference that floats do not show": "add(exp(x), scale(y, full[value=1/100000000000000000000])) => exp(x)",
    "one name for an axis and a kernel": "channel_scale[axis=k](maxpool[kernel=k](x), y) => maxpool[kernel=k](x)",
}

C = "conv[stride=s, padding=p, dilation=d]"
NOT_STATED = {
    "groups of one convolution of two": f"add({C}(x, y), {C}(z, w)) <=> {C}(concat[axis=1](x, z), concat[axis=1](y, w)) where groups(z, w) = 1",
    "one kernel and other numbers of groups": "(conv(x, y), conv(z, y)) => (split0[axis=1](conv(concat[axis=1](x, z), concat[axis=0](y, y))), split1[axis=1](conv(concat[axis=1](x, z), concat[axis=0](y, y))))",
    "numbers of groups left out one by one": "concat[axis=1](conv(x, y), conv(x, z)) => conv(x, concat[axis=0](y, z)) where groups(x, y) != 2, groups(x, y) != 3, groups(x, y) != 4, groups(x, y) != 5",
    "channels left out one by one": "conv(channel_scale[axis=1](x, v), y) => conv(x, channel_scale[axis=0](y, v)) where channels(y) != 2, channels(y) != 3, channels(y) != 4, channels(y) != 5",
    "ranks left out one by one": "channel_scale[axis=0](matmul(x, y), s) => matmul(channel_scale[axis=0](x, s), y) where rank(y) != 3, rank(y) != 4, rank(y) != 5",
    "an open kernel of which one size is odd": "avgpool[kernel=k, padding=same_upper](x) => avgpool[kernel=k, padding=same_lower](x) where dim(k, 0) = 3",
    "an open kernel beside paddings that few fit": "add(maxpool[kernel=k, padding=(4, 0, 4, 0)](y), maxpool[kernel=k, padding=same_upper](x)) => add(maxpool[kernel=k, padding=(4, 0, 4, 0)](y), maxpool[kernel=k, padding=same_lower](x))",
    "open dilations": "conv[padding=same_upper, dilation=d](x, w) => conv[padding=same_lower, dilation=d](x, w) where dim(d, 0) > 1, dim(d, 1) > 1",
    "a stride longer than the kernel": "conv[stride=s, padding=same_upper](x, w) => conv[stride=s, padding=same_upper](x, enlarge[kernel=7](w)) where dim(w, 2) = 5, dim(w, 3) = 5",
    "an open shape": "reshape[shape=s](softmax[axis=-1](x)) => softmax[axis=-1](reshape[shape=s](x)) where rank(x) = 3, dim(s, 1) = 1, dim(s, 3) = dim(x, 2)",
}
"""False for values that nobody tries: a rule must state what its proof needs of such choices."""

SELDOM = {
    "axes of both signs that meet at rank 6": "softmax[axis=-3](concat[axis=3](x, y)) => concat[axis=3](softmax[axis=-3](x), softmax[axis=-3](y))",
    "axes of both signs that meet at rank 7": "reduce_sum[axis=-3](concat[axis=4](x, y)) => concat[axis=4](reduce_sum[axis=-3](x), reduce_sum[axis=-3](y))",
    "five groups": "conv(conv(x, y: f32[5, 3, 1, 1]), z) => conv(x, conv(z, transpose[perm=(1, 0, 2, 3)](y)))",
    "seven groups": "conv(conv(x, y: f32[7, 2, 1, 1]), z) => conv(x, conv(z, transpose[perm=(1, 0, 2, 3)](y)))",
}
"""False at ranks and in numbers of groups that sampling seldom meets: a proof goes through every case."""


@pytest.mark.parametrize("text", REFUTED.values(), ids=REFUTED)
def test_a_counterexample_is_found(text: str) -> None:
    verdict = verify(parse_equation(text), load_axioms())
    assert verdict.status is Status.REFUTED, verdict


@pytest.mark.parametrize("text", UNPROVED.values(), ids=UNPROVED)
def test_what_nothing_supports_is_not_verified(text: str) -> None:
    verdict = verify(parse_equation(text), load_axioms())
    assert verdict.status is Status.UNPROVED, verdict
    assert verdict.reason


def test_a_condition_that_rules_out_what_is_common_deceives_no_one() -> None:
    verdict = verify(parse_equation(RARELY_SEEN), load_axioms())
    assert verdict.status is not Status.VERIFIED


@pytest.mark.parametrize("text", SELDOM.values(), ids=SELDOM)
def test_what_is_false_in_a_case_that_is_seldom_met_is_not_verified(text: str) -> None:
    assert verify(parse_equation(text), load_axioms()).status is not Status.VERIFIED


@pytest.mark.parametrize("text", NOT_STATED.values(), ids=NOT_STATED)
def test_what_a_proof_needs_must_be_stated(text: str) -> None:
    assert verify(parse_equation(text), load_axioms()).status is not Status.VERIFIED


@pytest.mark.parametrize(
    "text", ["softmax[axis=x](x) => x", "relu(relu) => relu", "conv[stride=k](x, k) => conv(x, k)"]
)
def test_names_with_two_meanings_are_no_rule(text: str) -> None:
    with pytest.raises(InvalidEquationError):
        parse_equation(text)
