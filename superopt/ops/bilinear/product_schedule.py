"""How a bilinear algorithm for products of matrices is computed block by block, with few additions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from superopt.ops.bilinear.filter_algorithms import Matrix
from superopt.ops.bilinear.product_algorithms import ProductAlgorithm, sizes_of
from superopt.ops.bilinear.shared_sums import SharedSums, shared_sums

_TOLERANCE = 1e-9
_DIGITS = 12


@dataclass(frozen=True)
class ProductSchedule:
    """The sums of an algorithm: of blocks of data, and of products to blocks of the result, which has that
    many ``columns`` of blocks."""

    left: Matrix
    result: Matrix
    columns: int

    @staticmethod
    def of(algorithm: ProductAlgorithm) -> ProductSchedule:
        """The sums of an algorithm; raises IllTypedError if it computes no product."""
        left, _, result = algorithm
        return ProductSchedule(left, result, sizes_of("product", algorithm)[2])

    @cached_property
    def data(self) -> SharedSums:
        """One combination of blocks for each multiplication; factors of the whole are left out."""
        return shared_sums(self.left)

    @cached_property
    def scaled(self) -> Matrix:
        """[multiplications, blocks]: the factors of products in the result, times those left out of the
        data."""
        factors = (Fraction(0) if each is None else each.factor for each in self.data.results)
        return tuple(
            tuple(factor * entry for entry in row) for factor, row in zip(factors, self.result, strict=True)
        )

    @cached_property
    def products(self) -> SharedSums:
        """One combination of products for each block of the result."""
        return shared_sums(tuple(zip(*self.scaled, strict=True))).settled()

    @cached_property
    def added(self) -> Mapping[int, int]:
        """The product that is computed where it is added, by number of the sum: one that no other sum and no
        result contains."""
        found: dict[int, int] = {}
        for number, pair in enumerate(self.products.sums):
            once = [e.term for e in pair if e.term < len(self.left) and self.products.uses(e.term) == 1]
            if once:
                found[number] = once[-1]
        return found

    @cached_property
    def alone(self) -> tuple[int, ...]:
        """The products that are not computed where they are added: a vector may be added to them."""
        chained = set(self.added.values())
        return tuple(product for product in range(len(self.left)) if product not in chained)

    @cached_property
    def bias(self) -> NDArray[np.float64] | None:
        """[alone, columns]: the parts of a bias to add to these products so that each block of the result has
        its own part added; None where there are no such factors."""
        wanted = np.tile(np.eye(self.columns), (len(self.result[0]) // self.columns, 1))
        scaled = np.array([[float(entry) for entry in row] for row in self.scaled])
        factors = scaled[list(self.alone)].T
        found = np.linalg.lstsq(factors, wanted, rcond=None)[0].astype(np.float64)
        return found.round(_DIGITS) if np.abs(factors @ found - wanted).max() < _TOLERANCE else None

    @property
    def additions(self) -> int:
        """Sums of two blocks."""
        return len(self.data.sums) + len(self.products.sums)

    @property
    def negations(self) -> int:
        """Sums of products that subtract both terms, and results that are a multiple of a sum."""
        subtracted = sum(one.factor < 0 and other.factor < 0 for one, other in self.products.sums)
        return subtracted + sum(each is not None and each.factor != 1 for each in self.products.results)


__all__ = ["ProductSchedule"]
