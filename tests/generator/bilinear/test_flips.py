"""Products of matrices with fewer multiplications, found by random walks from the definition."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.generator.bilinear import BilinearMap, filter_map, product_map, reduced
from superopt.generator.bilinear.flips import definition


@pytest.mark.parametrize(
    ("sizes", "multiplications"), [((1, 1, 1), 1), ((1, 2, 2), 4), ((2, 2, 2), 7), ((2, 2, 3), 11)]
)
def test_products_reach_the_fewest_known_multiplications(
    sizes: tuple[int, int, int], multiplications: int
) -> None:
    """7 for 2x2x2 is Strassen's number; the walk starts from the definition."""
    wanted = product_map(*sizes)
    found = reduced(wanted, target=multiplications, flips=2_000_000).algorithm
    assert found.multiplications == multiplications
    assert found.computes(wanted)
    left, right = np.arange(1, wanted.tensor.shape[0] + 1), np.arange(3, wanted.tensor.shape[1] + 3)
    product = found.result.T @ ((found.left @ left) * (found.right @ right))
    rows, inner, columns = sizes
    expected = left.reshape(rows, inner) @ right.reshape(inner, columns)
    assert product.tolist() == expected.ravel().tolist()


def test_a_single_product_stays() -> None:
    assert reduced(product_map(1, 1, 1), flips=50_000).algorithm.multiplications == 1


def test_the_walk_is_the_same_for_the_same_seed() -> None:
    wanted = product_map(2, 2, 2)
    first, again, other = (reduced(wanted, target=7, flips=500_000, seed=seed) for seed in (3, 3, 4))
    assert first.flips == again.flips != other.flips
    assert np.array_equal(first.algorithm.left, again.algorithm.left)


def test_a_filter_over_channels_needs_fewer_multiplications() -> None:
    """F(2,2) of two input and two output channels: 12 of 16."""
    wanted = filter_map(2, 2).nested(product_map(1, 2, 2))
    assert reduced(wanted, target=12, flips=1_000_000).algorithm.multiplications == 12


def test_strassen_twice_is_49_for_four_by_four() -> None:
    one = reduced(product_map(2, 2, 2), target=7, flips=1_000_000).algorithm
    twice = one.nested(one)
    assert twice.multiplications == 49
    assert twice.computes(product_map(2, 2, 2).nested(product_map(2, 2, 2)))


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    reduced(product_map(2, 2, 2), flips=250_000, progress=lambda flips, best: told.append((flips, best)))
    assert [flips for flips, _ in told] == [100_000, 200_000]
    assert all(best in (7, 8) for _, best in told)


def test_other_coefficients_are_refused() -> None:
    twice = BilinearMap("twice", 2 * product_map(1, 1, 1).tensor)
    with pytest.raises(ValueError, match="expected coefficients -1, 0 and 1"):
        definition(twice)
