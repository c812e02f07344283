"""Windows: sizes, paddings, and paddings that mean the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from superopt.domains import FloatDomain
from superopt.errors import IllTypedError
from superopt.ir import ElementType, TensorType, symbol
from superopt.ops import Operator
from superopt.ops.images.convolution import Conv
from superopt.ops.images.pooling import AveragePool, MaxPool
from superopt.ops.images.windows import Padding, explicit_padding, padding_spellings, window_counts

IMAGE = TensorType(ElementType.FLOAT, (1, 2, 5, 5))
KERNEL = TensorType(ElementType.FLOAT, (2, 2, 3, 3))


@pytest.mark.parametrize("padding", ["valid", "same", "same_upper", "same_lower", (1, 0, 2, 1)])
def test_the_size_that_is_inferred_is_the_number_of_windows(padding: Padding) -> None:
    tried = 0
    for size, k, s, d in itertools.product(range(1, 9), (1, 2, 3, 5), (1, 2, 3), (1, 2)):
        conv = Conv((s, s), padding, (d, d))
        data, weight = np.ones((1, 1, 1, size, size)), np.ones((1, 1, 1, k, k))
        try:
            (type_,) = conv.infer(
                *(TensorType(ElementType.FLOAT, array.shape[1:]) for array in (data, weight))
            )
        except IllTypedError:
            continue
        (result,) = conv.evaluate(FloatDomain(), data, weight)
        assert result.shape[1:] == type_.shape
        if d == 1:
            margins = explicit_padding((size, size), (k, k), (s, s), (1, 1), padding)
            counts = window_counts((size, size), (k, k), (s, s), margins)
            np.testing.assert_array_equal(result[0, 0, 0], counts)
        tried += 1
    assert tried > 90


@pytest.mark.parametrize(
    ("padding", "kernel", "stride", "dilation", "spellings"),
    [
        ("same", (1, 1), (1, 1), (1, 1), "same valid same_upper same_lower (0, 0, 0, 0)"),
        ("valid", (1, 1), (2, 2), (1, 1), "valid same (0, 0, 0, 0)"),
        ("same", (3, 3), (1, 1), (1, 1), "same same_upper same_lower (1, 1, 1, 1)"),
        ("same_upper", (3, 3), (2, 2), (1, 1), "same_upper"),
        ((1, 1, 1, 1), (3, 3), (2, 2), (1, 1), "(1, 1, 1, 1) same"),
        ((2, 1, 2, 1), (3, 3), (1, 1), (2, 1), "(2, 1, 2, 1) same same_upper same_lower"),
        ("valid", (3, 3), (1, 1), (1, 1), "valid (0, 0, 0, 0)"),
        ((0, 0, 1, 1), (2, 2), (1, 1), (1, 1), "(0, 0, 1, 1) same_upper"),
        ("same", (2, 2), (1, 1), (1, 1), "same"),
    ],
)
def test_spellings_of_a_padding(
    padding: Padding,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    spellings: str,
) -> None:
    assert " ".join(map(str, padding_spellings(padding, kernel, stride, dilation))) == spellings


def test_a_padded_maximum_ignores_the_padding() -> None:
    data = -np.ones((1, 1, 1, 3, 3))
    (result,) = MaxPool((3, 3), padding="same").evaluate(FloatDomain(), data)
    np.testing.assert_array_equal(result, data)


def test_a_mean_counts_padding_only_when_it_says_so() -> None:
    data = np.ones((1, 1, 1, 3, 3))
    (without,) = AveragePool((3, 3), padding="same").evaluate(FloatDomain(), data)
    (counted,) = AveragePool((3, 3), padding="same", includes_padding=1).evaluate(FloatDomain(), data)
    np.testing.assert_allclose(without, 1)
    np.testing.assert_allclose(counted[0, 0, 0], np.array([[4, 6, 4], [6, 9, 6], [4, 6, 4]]) / 9)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (Conv((0, 1)), "conv: expected positive kernel, stride and dilation, got 3, 0, 1"),
        (Conv(dilation=(1, -1)), "conv: expected positive kernel, stride and dilation, got 3, 1, -1"),
        (Conv(padding=(0, 0, -1, 0)), "conv: expected padding of at least 0, got (0, 0, -1, 0)"),
        (
            Conv(padding="sme"),
            "conv: unknown padding sme; known: valid, same, same_upper, same_lower, (t, l, b, r)",
        ),
        (Conv(dilation=(3, 3)), "conv: a window of 7 does not fit in 5"),
        (MaxPool((2, 2), padding="same"), "maxpool: padding=same needs an odd kernel, got extent 2"),
        (
            MaxPool((2, 2), padding=(2, 0, 0, 0)),
            "maxpool: expected padding (2, 0, 0, 0) smaller than the kernel (2, 2)",
        ),
        (AveragePool((2, 9)), "avgpool: a window of 9 does not fit in 5"),
    ],
)
def test_impossible_windows_are_named(operator: Operator, message: str) -> None:
    types = (IMAGE, KERNEL) if isinstance(operator, Conv) else (IMAGE,)
    with pytest.raises(IllTypedError) as error:
        operator.infer(*types)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("channels", "weight", "groups"),
    [
        (4, (6, 4, 1, 1), 1),
        (4, (6, 2, 1, 1), 2),
        (4, (4, 1, 1, 1), 4),
        (4, (8, 1, 1, 1), 4),
        (4, (5, 2, 1, 1), None),
        (4, (6, 3, 1, 1), None),
    ],
)
def test_groups_follow_from_the_weight(channels: int, weight: tuple[int, ...], groups: int | None) -> None:
    data = TensorType(ElementType.FLOAT, (1, channels, 3, 3))
    kernel = TensorType(ElementType.FLOAT, weight)
    if groups is None:
        with pytest.raises(IllTypedError):
            Conv().infer(data, kernel)
    else:
        assert Conv().groups(data, kernel) == groups
        assert Conv().infer(data, kernel)[0].shape[1] == weight[0]


def test_symbolic_sizes_stay_symbolic() -> None:
    data = TensorType(ElementType.FLOAT, (symbol("n"), 2, symbol("h"), 5))
    (result,) = Conv((2, 2), "same").infer(data, KERNEL)
    assert str(result) == "f32[n, 2, floor((h + 1) / (2)), 3]"
