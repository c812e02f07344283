"""Larger algorithms from smaller ones: nested, strided, of split taps, tiled."""

from __future__ import annotations

import pytest

from superopt.generator.bilinear import BilinearAlgorithm, filter_map, filters, split_taps, strided, tiled


def best(outputs: int, taps: int) -> BilinearAlgorithm:
    """The most accurate algorithm."""
    return filters(outputs, taps)[0].algorithm


def test_two_axes_multiply_their_counts() -> None:
    """F(2x2, 3x3): 16 multiplications instead of 36."""
    nested = best(2, 3).nested(best(2, 3))
    assert nested.multiplications == 16
    assert nested.computes(filter_map(2, 3).nested(filter_map(2, 3)))


@pytest.mark.parametrize(
    ("outputs", "taps", "stride", "multiplications"),
    [(2, 3, 2, 3 + 2), (4, 3, 2, 5 + 4), (2, 1, 2, 2), (2, 7, 2, 5 + 4), (2, 5, 3, 3 + 3 + 2), (3, 3, 1, 5)],
)
def test_a_stride_splits_into_phases(outputs: int, taps: int, stride: int, multiplications: int) -> None:
    algorithm = strided(outputs, taps, stride, best)
    assert algorithm.multiplications == multiplications
    assert algorithm.computes(filter_map(outputs, taps, stride))


def test_taps_are_split_and_outputs_tiled() -> None:
    assert split_taps(2, (3, 2), best).multiplications == 4 + 3
    assert tiled(3, 2, 3, best).multiplications == 3 * 4
    assert tiled(3, 2, 3, best).computes(filter_map(6, 3))


def test_parts_that_compute_something_else_are_refused() -> None:
    def reversed_outputs(outputs: int, taps: int) -> BilinearAlgorithm:
        right = best(outputs, taps)
        return BilinearAlgorithm(right.left, right.right, right.result[:, ::-1])

    with pytest.raises(AssertionError, match=r"does not compute F\(2,3\) by 2"):
        strided(2, 3, 2, reversed_outputs)
