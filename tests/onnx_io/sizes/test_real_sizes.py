"""Sizes in floating point, against single precision at many sizes."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.ir.dimensions import Dimension, substitute, symbol
from superopt.onnx_io.sizes.real_sizes import InexactError, RealSize

SIZES = np.concatenate([np.arange(1, 3000), np.arange(65_000, 65_537)])


def at(size: Dimension, number: int) -> int:
    found = substitute(size, {"n": number})
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("factor", [0.5, 0.25, 1.5, 2, 3, 0.015625, 1.984375])
def test_products_are_exact(factor: float) -> None:
    product = RealSize.of(symbol("n")) * factor
    exact = SIZES.astype(np.float32) * np.float32(factor)
    assert [at(product.floor(), int(size)) for size in SIZES] == np.floor(exact).astype(int).tolist()
    assert [at(product.ceil(), int(size)) for size in SIZES] == np.ceil(exact).astype(int).tolist()


@pytest.mark.parametrize("divisor", [2, 3, 7, 10, 48, 255])
def test_quotients_are_rounded_to_the_right_side(divisor: int) -> None:
    quotient = RealSize.of(symbol("n")) / divisor
    rounded = SIZES.astype(np.float32) / np.float32(divisor)
    assert [at(quotient.floor(), int(size)) for size in SIZES] == np.floor(rounded).astype(int).tolist()
    assert [at(quotient.ceil(), int(size)) for size in SIZES] == np.ceil(rounded).astype(int).tolist()


@pytest.mark.parametrize("factor", [0.1, 1 / 3, 0.0, -1.0, float("nan"), float("inf"), 1 / 128, 257, "2"])
def test_factors_that_are_rounded_are_refused(factor: object) -> None:
    with pytest.raises(InexactError):
        _ = RealSize.of(symbol("n")) * factor


def test_a_quotient_is_not_used_further() -> None:
    third = RealSize.of(symbol("n")) / 3
    with pytest.raises(InexactError):
        _ = third * 3
    with pytest.raises(InexactError):
        _ = third / 2
    with pytest.raises(InexactError):
        _ = RealSize.of(symbol("n")) / 0.5


def test_what_may_be_negative_is_refused() -> None:
    with pytest.raises(InexactError, match=r"n - 2 may be negative"):
        RealSize.of(symbol("n") - 2)
