"""Products of matrices with few multiplications: the best of several walks, by additions and by rounding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from superopt.generator.bilinear.algorithms import BilinearAlgorithm, amplification
from superopt.generator.bilinear.flips import Found, Progress, reduced
from superopt.generator.bilinear.maps import Coefficients, product_map
from superopt.ops.bilinear.filter_algorithms import Matrix
from superopt.ops.bilinear.product_schedule import ProductSchedule

Sizes: TypeAlias = tuple[int, int, int]
"""Rows, inner size and columns."""

WALKS = 32
"""Walks for one product, with successive seeds."""

_DIGITS = 9
"""Digits of an amplification that decide between algorithms."""


@dataclass(frozen=True)
class ProductAlgorithm:
    """An algorithm for products of matrices of these sizes, with the order of its additions."""

    sizes: Sizes
    found: Found
    amplification: float
    schedule: ProductSchedule

    @property
    def additions(self) -> int:
        """Additions of blocks of data and of products."""
        return self.schedule.additions

    @property
    def algorithm(self) -> BilinearAlgorithm:
        """Its matrices."""
        return self.found.algorithm


def products(
    sizes: Sizes,
    *,
    target: int = 0,
    flips: int = 20_000_000,
    seed: int = 0,
    walks: int = WALKS,
    progress: Progress | None = None,
) -> tuple[ProductAlgorithm, ...]:
    """The best algorithms with the fewest multiplications that walks of so many flips in all find: first the
    one with the least error amplification, then those with fewer additions; of equal ones, one whose products
    take a bias. A walk ends at ``target``
    multiplications. The same for the same arguments.

    Raises InvalidOptionError for sizes below 1.
    """
    wanted = product_map(*sizes)
    found: list[ProductAlgorithm] = []
    taken = 0
    for number in range(walks):
        if taken >= flips:
            break
        walk = reduced(wanted, target=target, flips=flips - taken, seed=seed + number, progress=progress)
        taken += walk.flips if walk.algorithm.multiplications <= target else flips
        walk = replace(walk, algorithm=with_few_negations(walk.algorithm, sizes))
        schedule = _schedule(walk.algorithm, sizes)
        error = round(amplification(walk.algorithm, wanted), _DIGITS)
        found.append(ProductAlgorithm(sizes, walk, error, schedule))
    least = min(each.algorithm.multiplications for each in found)
    best = [each for each in found if each.algorithm.multiplications == least]
    best.sort(key=lambda each: (each.amplification, each.additions, each.schedule.bias is None))
    return tuple(_improving(best))


def with_few_negations(algorithm: BilinearAlgorithm, sizes: Sizes) -> BilinearAlgorithm:
    """The same algorithm with signs moved from results to weights, which are combined beforehand, so that
    fewer sums of products subtract both of their terms."""
    algorithm = BilinearAlgorithm(algorithm.left, algorithm.right.copy(), algorithm.result.copy())
    least = _schedule(algorithm, sizes).negations
    improved = True
    while improved:
        improved = False
        for row in range(algorithm.multiplications):
            _negate(algorithm, row)
            count = _schedule(algorithm, sizes).negations
            if count < least:
                least, improved = count, True
            else:
                _negate(algorithm, row)
    return algorithm


def _improving(found: Sequence[ProductAlgorithm]) -> Iterator[ProductAlgorithm]:
    """Those with fewer additions than all before them."""
    least: int | None = None
    for each in found:
        if least is None or each.additions < least:
            least = each.additions
            yield each


def _negate(algorithm: BilinearAlgorithm, row: int) -> None:
    for matrix in (algorithm.right, algorithm.result):
        matrix[row] = -matrix[row]


def _schedule(algorithm: BilinearAlgorithm, sizes: Sizes) -> ProductSchedule:
    return ProductSchedule(_rows(algorithm.left), _rows(algorithm.result), sizes[2])


def _rows(matrix: Coefficients) -> Matrix:
    return tuple(map(tuple, matrix.tolist()))


__all__ = ["WALKS", "ProductAlgorithm", "Sizes", "products", "with_few_negations"]
