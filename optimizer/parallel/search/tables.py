"""Cost tables over the choices of one node or two; equal tables are shared, so that they are solved once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[np.float64]
Choices = NDArray[np.int32]

_ROWS_AT_ONCE = 1 << 21
"""Maximum elements of the temporary array of a product."""


@dataclass(frozen=True, eq=False)
class Table:
    """Costs by the choice of one node, or of two; equal tables of one ``Tables`` are the same object."""

    costs: Costs
    key: bytes

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.key == other.key


@dataclass(frozen=True, slots=True)
class Product:
    """Result of eliminating a node between two others: the remaining costs, and its best choice for each
    pair."""

    table: Table
    best: Choices


@dataclass
class Tables:
    """Creates tables, and caches every sum and product of them across blocks and candidates. ``products`` and
    ``repeated`` count the products computed and the cache hits."""

    products: int = 0
    repeated: int = 0
    _known: dict[bytes, Table] = field(default_factory=dict[bytes, "Table"])
    _sums: dict[tuple[bytes, bytes], Table] = field(default_factory=dict[tuple[bytes, bytes], "Table"])
    _turned: dict[bytes, Table] = field(default_factory=dict[bytes, "Table"])
    _products: dict[tuple[bytes, bytes, bytes], Product] = field(
        default_factory=dict[tuple[bytes, bytes, bytes], "Product"]
    )

    def table(self, costs: Costs) -> Table:
        """The unique table with those costs."""
        costs = np.ascontiguousarray(costs, dtype=np.float64)
        shape = repr(costs.shape).encode()
        key = hashlib.blake2b(shape + costs.tobytes(), digest_size=16).digest()
        return self._known.setdefault(key, Table(costs, key))

    def added(self, first: Table, second: Table) -> Table:
        """The sum of two tables of equal shape."""
        names = (first.key, second.key) if first.key < second.key else (second.key, first.key)
        found = self._sums.get(names)
        if found is None:
            found = self._sums[names] = self.table(first.costs + second.costs)
        return found

    def turned(self, table: Table) -> Table:
        """The transposed table."""
        found = self._turned.get(table.key)
        if found is None:
            found = self._turned[table.key] = self.table(table.costs.T)
        return found

    def product(self, left: Table, own: Table, right: Table) -> Product:
        """Eliminates a node with costs ``own`` between a left one ([left, node]) and a right one ([node,
        right])."""
        names = (left.key, own.key, right.key)
        found = self._products.get(names)
        if found is not None:
            self.repeated += 1
            return found
        self.products += 1
        found = self._products[names] = self._product(left.costs + own.costs, right.costs)
        return found

    def _product(self, left: Costs, right: Costs) -> Product:
        rows, columns = len(left), right.shape[1]
        best = np.empty((rows, columns), np.int32)
        costs = np.empty((rows, columns))
        step = max(1, _ROWS_AT_ONCE // max(1, right.size))
        turned = np.ascontiguousarray(right.T)
        for start in range(0, rows, step):
            total = left[start : start + step, None, :] + turned[None, :, :]
            chosen = total.argmin(axis=2)
            best[start : start + step] = chosen
            costs[start : start + step] = np.take_along_axis(total, chosen[:, :, None], axis=2)[:, :, 0]
        return Product(self.table(costs), best)
