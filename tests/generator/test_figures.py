"""The substitutions of the dissertation's figures: each step is found by a preset, and proved."""

from __future__ import annotations

import pytest

from superopt.axioms import load_axioms
from superopt.verifier import Status, verify
from tests.generator.generations import Where, found

PRODUCTS = ("matrix", 3, "matmul", "add", "mul")
MERGED = ("matrix", 2, "matmul", "concat", "split0", "split1")
TURNED = ("matrix", 2, "matmul", "transpose")
KERNELS = ("kernels", 2)
SUMS = ("convolution", 3, "conv", "add", "enlarge")
SIDE_BY_SIDE = ("convolution", 3, "conv", "add", "concat")
CONVOLUTIONS_MERGED = ("convolution", 2, "conv", "concat", "split0", "split1")

CONV = "conv[stride=s, padding=p, dilation=d]"
ACTIVE = "conv[stride=s, padding=p, dilation=d, activation=c]"
SAME = "conv[stride=s, padding=same, dilation=d, activation=c]"

FIGURES: dict[str, tuple[Where, str]] = {
    "2.2a: matrix products are associative": (
        PRODUCTS,
        "matmul(matmul(x, y), z) <=> matmul(x, matmul(y, z))",
    ),
    "2.2b: two products with a common input merged": (
        MERGED,
        (
            "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), "
            "split1[axis=-1](matmul(x, concat[axis=-1](y, z))))"
        ),
    ),
    "2.5: a product of transposes": (
        TURNED,
        "matmul(transpose(x), transpose(y)) <=> transpose(matmul(y, x))",
    ),
    "2.5: the transpose undone": (TURNED, "transpose(transpose(x)) => x"),
    "2.8b: average pooling as a depthwise convolution": (
        KERNELS,
        (
            "conv[stride=s, padding=p](x, avgpool_kernel[kernel=k]) "
            "<=> avgpool[kernel=k, stride=s, padding=p, includes_padding=1](x)"
        ),
    ),
    "2.8b: depthwise convolutions of one image as one": (
        SUMS,
        f"add({CONV}(x, y), {CONV}(x, z)) <=> {CONV}(x, add(y, z))",
    ),
    "2.8b: depthwise convolutions with one kernel as one": (
        SUMS,
        f"add({CONV}(x, y), {CONV}(z, y)) <=> {CONV}(add(x, z), y)",
    ),
    "2.8c: a kernel enlarged": (SUMS, f"{SAME}(x, enlarge[kernel=3](y)) <=> {SAME}(x, y)"),
    "2.8c: convolutions of two images summed as one": (
        SIDE_BY_SIDE,
        (
            f"add({CONV}(x, y), {CONV}(z, w)) <=> {CONV}(concat[axis=1](x, z), concat[axis=1](y, w)) "
            "where groups(x, y) = 1, groups(z, w) = 1"
        ),
    ),
    "2.8c: two convolutions of one image merged": (
        CONVOLUTIONS_MERGED,
        (
            f"({ACTIVE}(x, y), {ACTIVE}(x, z)) => (split0[axis=1]({ACTIVE}(x, concat[axis=0](y, z))), "
            f"split1[axis=1]({ACTIVE}(x, concat[axis=0](y, z)))) where groups(x, z) = 1"
        ),
    ),
    "2.8c, 2.9: convolutions side by side as one with the groups of both": (
        SIDE_BY_SIDE,
        (
            f"concat[axis=1]({ACTIVE}(x, y), {ACTIVE}(z, w)) "
            f"<=> {ACTIVE}(concat[axis=1](x, z), concat[axis=0](y, w)) "
            "where outputs_per_group(x, y) = outputs_per_group(z, w)"
        ),
    ),
}


@pytest.mark.parametrize(("where", "rule"), FIGURES.values(), ids=FIGURES)
def test_is_found_and_proved(where: Where, rule: str) -> None:
    assert verify(found(where, rule), load_axioms()).status is Status.VERIFIED
