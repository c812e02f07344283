"""Discovery over convolutions, activations, kernels and normalisation: what pays in networks comes out."""

from __future__ import annotations

import pytest

from superopt.generator.generalise.sampling import Sampler
from tests.generator.generations import candidate_of, generation

CONV = "conv[stride=s, padding=p, dilation=d]"
ACTIVE = "conv[stride=s, padding=p, dilation=d, activation=c]"
MERGES = ("convolution", 2, "conv", "concat", "split0", "split1")
SUMS = ("convolution", 3, "conv", "add", "enlarge")
STEPS = ("convolution", 3, "conv", "relu", "maxpool", "avgpool", "channel_scale", "bias_add")
VECTORS = ("elementwise", 3, "affine", "channel_scale", "mul", "add")
GATES = ("elementwise", 2, "mul", "hard_sigmoid", "hard_swish", "relu", "identity")
BIASES = ("folding", 3, "conv", "channel_scale", "bias_add", "affine")
FOLDS = ("folding", 4, "conv", "kernel_response", "channel_scale", "bias_add", "affine")
FIRST = ("kernels", 2)
NORM = ("vision", 5)
RESIDUALS = ("residuals", 2)
EXPONENTIALS = ("exponentials", 7)
SOFTMAXES = ("softmaxes", 7)
AFFINE = ("affine", 2)
CENTRED = ("centred", 4)
TURNED = ("turned", 4)
PAIRS_ALONG_ROWS = "maxpool[kernel=(1, 2), stride=(1, 2)]"
TURN = "transpose[perm=(0, 1, 3, 2)]"

FOUND: dict[str, tuple[tuple[str | int, ...], str]] = {
    "softplus without overflow": (
        EXPONENTIALS,
        "add(relu(x), log(add(exp(scale(absolute(x), full[value=-1])), ones()))) <=> softplus(x)",
    ),
    "elu in its parts": (
        EXPONENTIALS,
        "add(relu(x), sub(exp(minimum(x, full[value=0])), ones())) <=> elu(x)",
    ),
    "softmax without overflow": (
        SOFTMAXES,
        (
            "div(exp(sub(x, broadcast(reduce_max[axis=a](x)))), "
            "broadcast(reduce_sum[axis=a](exp(sub(x, broadcast(reduce_max[axis=a](x))))))) "
            "<=> softmax[axis=a](x)"
        ),
    ),
    "layer normalisation without a bias": (
        CENTRED,
        (
            "layer_normalization[epsilon=epsilon](x, y, full[value=0]) <=> "
            "rms_normalization[epsilon=epsilon](sub(x, broadcast(reduce_mean[axis=-1](x))), y)"
        ),
    ),
    "a convolution with rows and columns exchanged, with symmetric padding": (
        TURNED,
        f"conv[padding=same](x, y) <=> {TURN}(conv[padding=same]({TURN}(x), {TURN}(y)))",
    ),
    "the same for a kernel of any size": (
        TURNED,
        f"conv[padding=same_upper](x, y) <=> {TURN}(conv[padding=same_upper]({TURN}(x), {TURN}(y)))",
    ),
    "the same without padding, and with a step along the rows": (
        TURNED,
        f"conv[stride=(2, 1)](x, y) <=> {TURN}(conv[stride=(1, 2)]({TURN}(x), {TURN}(y)))",
    ),
    "maxima of pairs of rows": (
        TURNED,
        f"maxpool[kernel=(2, 1), stride=(2, 1)](x) <=> {TURN}({PAIRS_ALONG_ROWS}({TURN}(x)))",
    ),
    "a sum with a vector as an affine step": (
        AFFINE,
        "affine[axis=a](x, ones(), y) <=> bias_add[axis=a](x, y)",
    ),
    "a product with a number as one with a vector": (
        AFFINE,
        "channel_scale[axis=1](x, scale(ones(), y)) <=> scale(x, y)",
    ),
    "a sum that is not fused": (
        RESIDUALS,
        (
            "layer_normalization[epsilon=epsilon](add(x, y), z, w)"
            " <=> layer_normalization[epsilon=epsilon](sum(x, y), z, w)"
        ),
    ),
    "convolutions of one image merged": (
        MERGES,
        (
            f"({ACTIVE}(x, y), {ACTIVE}(x, z)) => (split0[axis=1]({ACTIVE}(x, concat[axis=0](y, z))), "
            f"split1[axis=1]({ACTIVE}(x, concat[axis=0](y, z)))) where groups(x, z) = 1"
        ),
    ),
    "convolutions with one kernel merged": (
        MERGES,
        (
            f"({ACTIVE}(x, y), {ACTIVE}(z, y)) => (split0[axis=0]({ACTIVE}(concat[axis=0](x, z), y)), "
            f"split1[axis=0]({ACTIVE}(concat[axis=0](x, z), y)))"
        ),
    ),
    "kernels summed": (SUMS, f"add({CONV}(x, y), {CONV}(x, z)) <=> {CONV}(x, add(y, z))"),
    "images summed": (SUMS, f"add({CONV}(x, y), {CONV}(z, y)) <=> {CONV}(add(x, z), y)"),
    "a kernel made larger": (
        SUMS,
        (
            "conv[stride=s, padding=same, dilation=d, activation=c](x, enlarge[kernel=3](y)) "
            "<=> conv[stride=s, padding=same, dilation=d, activation=c](x, y)"
        ),
    ),
    "outputs side by side": (
        MERGES,
        (
            f"concat[axis=1]({ACTIVE}(x, y), {ACTIVE}(x, z)) <=> {ACTIVE}(x, concat[axis=0](y, z)) "
            "where groups(x, z) = 1"
        ),
    ),
    "relu inside": (
        STEPS,
        f"relu({CONV}(x, y)) <=> conv[stride=s, padding=p, dilation=d, activation=relu](x, y)",
    ),
    "factors of outputs": (
        STEPS,
        f"channel_scale[axis=1]({CONV}(x, y), z) <=> {CONV}(x, channel_scale[axis=0](y, z))",
    ),
    "factors of inputs": (
        STEPS,
        f"{ACTIVE}(channel_scale[axis=1](x, y), z) <=> {ACTIVE}(x, channel_scale[axis=1](z, y))",
    ),
    "maximum after relu": (
        STEPS,
        "maxpool[kernel=k, stride=s, padding=p](relu(x)) <=> relu(maxpool[kernel=k, stride=s, padding=p](x))",
    ),
    "average of a biased image": (
        STEPS,
        (
            "avgpool[kernel=k, stride=s, padding=p](bias_add[axis=1](x, y)) "
            "<=> bias_add[axis=1](avgpool[kernel=k, stride=s, padding=p](x), y)"
        ),
    ),
    "batch normalisation into a kernel and a bias": (
        BIASES,
        (
            "bias_add[axis=1](conv[stride=s](x, channel_scale[axis=0](y, z)), w) "
            "<=> affine[axis=1](conv[stride=s](x, y), z, w)"
        ),
    ),
    "batch normalisation before a convolution": (
        FOLDS,
        (
            "bias_add[axis=1](conv[stride=s, dilation=d](x, channel_scale[axis=1](y, z)), "
            "kernel_response(y, w)) "
            "<=> conv[stride=s, dilation=d](affine[axis=1](x, z, w), y)"
        ),
    ),
    "affine after affine": (
        VECTORS,
        "affine[axis=a](x, mul(y, z), add(w, mul(u, z))) <=> affine[axis=a](affine[axis=a](x, y, u), z, w)",
    ),
    "factor after affine": (
        VECTORS,
        "affine[axis=a](x, mul(y, z), mul(w, y)) <=> channel_scale[axis=a](affine[axis=a](x, z, w), y)",
    ),
    "hard swish": (GATES, "mul(x, hard_sigmoid[alpha=1/6](x)) <=> hard_swish(x)"),
    "pooling as a convolution": (
        FIRST,
        (
            "conv[stride=s, padding=p](x, avgpool_kernel[kernel=k]) "
            "<=> avgpool[kernel=k, stride=s, padding=p, includes_padding=1](x)"
        ),
    ),
    "pooling past a pointwise convolution": (
        FIRST,
        (
            "avgpool[kernel=k, padding=same, includes_padding=i](conv[padding=same, dilation=d](x, y)) "
            "<=> conv[padding=same, dilation=d](avgpool[kernel=k, padding=same, includes_padding=i](x), y) "
            "where dim(y, 2) = 1, dim(y, 3) = 1"
        ),
    ),
    "local response normalisation by a convolution": (
        NORM,
        (
            "div(x, power[exponent=b](bias_add[axis=1](conv(mul(x, x), band_kernel[size=n, alpha=a]), "
            "full[value=c]))) "
            "<=> lrn[size=n, alpha=a, beta=b, bias=c](x)"
        ),
    ),
}


@pytest.mark.parametrize(("where", "rule"), FOUND.values(), ids=FOUND)
def test_is_found(where: tuple[str | int, ...], rule: str) -> None:
    preset, max_ops, *operators = where
    made = generation(str(preset), int(max_ops), *map(str, operators))
    assert candidate_of(made, rule) is not None, "\n".join(candidate.text for candidate in made.candidates)


@pytest.mark.parametrize("where", [MERGES, SUMS, STEPS, GATES, FIRST, NORM], ids=str)
def test_every_candidate_holds_at_other_shapes(where: tuple[str | int, ...]) -> None:
    preset, max_ops, *operators = where
    for candidate in generation(str(preset), int(max_ops), *map(str, operators)).candidates:
        shapes = {
            name: tuple(size + 2 if axis > 1 else size for axis, size in enumerate(shape))
            for name, shape in candidate.shapes.items()
        }
        assert Sampler().holds(candidate.equation, shapes, samples=3) is not False, candidate.text


def test_the_normalisation_is_all_that_its_preset_finds() -> None:
    assert generation("vision", 5).kept == 1
