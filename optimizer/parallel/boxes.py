"""Boxes: the axis-aligned regions into which a placement divides a tensor; intersection and cover tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

Region = tuple[tuple[int, int], ...]
"""A box of a tensor: (start, stop) for each axis."""


def meet(left: Region, right: Region) -> Region | None:
    """Intersection of two regions; None if empty."""
    if left == right:
        return left if all(start < stop for start, stop in left) else None
    shared: list[tuple[int, int]] = []
    for own, other in zip(left, right, strict=True):
        low = own[0] if own[0] > other[0] else other[0]
        high = own[1] if own[1] < other[1] else other[1]
        if low >= high:
            return None
        shared.append((low, high))
    return tuple(shared)


def cut(region: Region, count: int) -> list[Region | None]:
    """A region divided along its longest axis into pieces whose sizes differ by at most one; None for an
    empty one."""
    axis = max(range(len(region)), key=lambda number: region[number][1] - region[number][0], default=None)
    if axis is None:
        return [region, *(None for _ in range(count - 1))]
    start, stop = region[axis]
    cuts = [start + (stop - start) * number // count for number in range(count + 1)]
    return [
        (*region[:axis], (low, high), *region[axis + 1 :]) if low < high else None
        for low, high in itertools.pairwise(cuts)
    ]


def volume(region: Region) -> int:
    """Number of elements."""
    return math.prod(stop - start for start, stop in region)


def regions_of_parts(degrees: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[Region]:
    """All parts of a tensor, row-major."""
    cuts = [
        [(number * (size // degree), (number + 1) * (size // degree)) for number in range(degree)]
        for degree, size in zip(degrees, shape, strict=True)
    ]
    return itertools.product(*cuts)


def bounds(regions: Sequence[Region]) -> Region | None:
    """The smallest region that contains them all."""
    if not regions:
        return None
    return tuple(
        (min(start for start, _ in axis), max(stop for _, stop in axis))
        for axis in zip(*regions, strict=True)
    )


def is_same_or_tiling(wanted: Sequence[Region | None], whole: Region) -> bool:
    """Whether all non-empty regions equal the whole, or are disjoint and cover it."""
    regions = [region for region in wanted if region is not None]
    if all(region == whole for region in wanted):
        return True
    return sum(map(volume, regions)) == volume(whole) and not any(
        meet(left, right) for left, right in itertools.combinations(regions, 2)
    )
