"""Sets that iterate in sorted order, for random draws per element.

The import is the only change in ``superopt.instances.sampler``, because a change of its definitions would
make every stored proof stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet


class SortedSet(frozenset[str]):
    """A frozen set of names that iterates in their order, as do its differences."""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))

    def __sub__(self, other: AbstractSet[object]) -> SortedSet:
        return SortedSet(super().__sub__(other))


__all__ = ["SortedSet"]
