"""Products of matrices: the most accurate algorithm of several walks, and those with fewer additions."""

from __future__ import annotations

import pytest

from superopt.equations import abbreviated, format_equation
from superopt.errors import InvalidOptionError
from superopt.generator.bilinear import product_map, product_rules, products
from superopt.generator.bilinear.products import ProductAlgorithm
from superopt.ops.bilinear.product_algorithms import sizes_of


@pytest.fixture(scope="module")
def found() -> tuple[ProductAlgorithm, ...]:
    """What all walks find for products of two by two."""
    return products((2, 2, 2), target=7)


def test_algorithms_differ_in_rounding_and_additions(found: tuple[ProductAlgorithm, ...]) -> None:
    """Strassen's errors and additions of data and results, and 4 + 7 additions, as few as Winograd's form
    has, with smaller errors than its 3.0."""
    assert [each.algorithm.multiplications for each in found] == [7, 7]
    assert [each.additions for each in found] == [13, 11]
    assert [each.amplification for each in found] == pytest.approx([6**0.5, 7**0.5])
    assert all(each.algorithm.computes(product_map(2, 2, 2)) for each in found)


def test_a_bias_is_added_to_products_and_no_sum_has_to_be_negated(
    found: tuple[ProductAlgorithm, ...],
) -> None:
    for each in found:
        assert each.schedule.bias is not None
        assert each.schedule.negations == 0


def test_the_same_are_found_again(found: tuple[ProductAlgorithm, ...]) -> None:
    again = products((2, 2, 2), target=7)
    assert [each.found.seed for each in again] == [each.found.seed for each in found]
    other = products((2, 2, 2), target=7, seed=100, walks=4)
    assert other[0].found.seed >= 100


def test_walks_share_their_flips() -> None:
    (only,) = products((2, 2, 2), flips=10, target=7)
    assert only.algorithm.multiplications == 8


def test_a_rule_for_each(found: tuple[ProductAlgorithm, ...]) -> None:
    rules = list(product_rules(products((2, 1, 2), walks=1, flips=1000)))
    assert [(abbreviated(format_equation(rule.equation)), rule.provenance) for rule in rules] == [
        (
            "matmul(x, y) => bilinear_matmul[algorithm=2x1x2:4](x, product_transform[algorithm=2x1x2:4](y))",
            "2x1x2",
        )
    ]
    for rule in product_rules(found):
        algorithm = dict(rule.equation.right[0].attributes)["algorithm"]
        assert sizes_of("", algorithm) == (2, 2, 2)


def test_sizes_are_positive() -> None:
    with pytest.raises(InvalidOptionError, match="expected sizes of at least 1, got 0"):
        products((2, 0, 2))
