"""Sliding windows over the last two axes: padding modes, output sizes, extraction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from superopt.domains import Array, Domain, arrays
from superopt.errors import UnfitTypesError
from superopt.ir.bounds import surely_below, surely_even
from superopt.ir.dimensions import Dimension, floor_divide
from superopt.ops.attributes import PADDING_WORDS

A = TypeVar("A")

Padding: TypeAlias = "str | tuple[int, int, int, int]"
"""``valid``, ``same`` (symmetric, for odd kernels), ``same_upper``, ``same_lower``; or margins as
(top, left, bottom, right)."""


@dataclass(frozen=True, slots=True)
class Window:
    """The sliding windows of an operator, each number for rows and for columns."""

    kernel: tuple[Dimension, Dimension]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: Padding

    @property
    def known_kernel(self) -> tuple[int, int] | None:
        """The kernel, if its sizes are numbers."""
        rows, columns = self.kernel
        return (rows, columns) if isinstance(rows, int) and isinstance(columns, int) else None

    def margins(self, sizes: tuple[int, int]) -> tuple[int, int, int, int]:
        """The padding as (top, left, bottom, right) for an image of known sizes and a known kernel."""
        assert self.known_kernel is not None, "sizes are known"
        return explicit_padding(sizes, self.known_kernel, self.stride, self.dilation, self.padding)

    def spellings(self) -> tuple[Padding, ...]:
        """All paddings that are equivalent to the given one at every size, the given one first."""
        if self.known_kernel is None:
            return (self.padding,)
        return padding_spellings(self.padding, self.known_kernel, self.stride, self.dilation)


@lru_cache(maxsize=65536)
def output_size(
    where: str,
    size: Dimension,
    kernel: Dimension,
    stride: Dimension,
    dilation: Dimension,
    padding: Padding,
    axis: int,
) -> Dimension:
    """The number of window positions along one of the two axes (0 is rows); raises IllTypedError. For
    symbolic sizes it is assumed that a window is odd, and that it fits."""
    if any(surely_below(number, 1) for number in (kernel, stride, dilation)):
        raise UnfitTypesError(
            f"{where}: expected positive kernel, stride and dilation, got {kernel}, {stride}, {dilation}"
        )
    extent = dilation * (kernel - 1) + 1
    if isinstance(padding, tuple):
        if any(surely_below(margin, 0) for margin in padding):
            raise UnfitTypesError(f"{where}: expected padding of at least 0, got {padding}")
        padded = size + padding[axis] + padding[axis + 2]
    elif padding == "valid":
        padded = size
    elif padding == "same":
        if surely_even(extent):
            raise UnfitTypesError(f"{where}: padding=same needs an odd kernel, got extent {extent}")
        padded = size + extent - 1
    elif padding in ("same_upper", "same_lower"):
        return floor_divide(size + stride - 1, stride)
    else:
        raise UnfitTypesError(
            f"{where}: unknown padding {padding}; known: valid, same, same_upper, same_lower, (t, l, b, r)"
        )
    room = padded - extent
    if surely_below(room, 0):
        raise UnfitTypesError(f"{where}: a window of {extent} does not fit in {padded}")
    return floor_divide(room, stride) + 1


def odd_windows(padding: Padding, extents: Iterable[Dimension]) -> frozenset[tuple[object, ...]]:
    """Windows of symbolic extent that ``same`` assumes to be odd."""
    return frozenset(
        ("odd", extent) for extent in extents if padding == "same" and not surely_even(extent + 1)
    )


def explicit_padding(
    sizes: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: Padding,
) -> tuple[int, int, int, int]:
    """The padding as (top, left, bottom, right) for known sizes."""
    if isinstance(padding, tuple):
        return padding
    if padding == "valid":
        return (0, 0, 0, 0)
    before: list[int] = []
    after: list[int] = []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        extent = d * (k - 1) + 1
        total = extent - 1 if padding == "same" else max((-(-size // s) - 1) * s + extent - size, 0)
        small, large = total // 2, total - total // 2
        before.append(large if padding == "same_lower" else small)
        after.append(small if padding == "same_lower" else large)
    return (before[0], before[1], after[0], after[1])


def windows(
    domain: Domain[A],
    array: A,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
    *,
    repeat_edge: bool,
) -> A:
    """[..., h, w] -> [..., rows, columns, kernel rows, kernel columns]. Padding is zeros; with
    ``repeat_edge`` it repeats the border, which preserves maxima of windows."""

    def extract(part: Array) -> Array:
        return arrays.windows(arrays.padded(part, padding, repeat_edge=repeat_edge), kernel, stride, dilation)

    return domain.rearrange(extract, array)


def window_counts(
    sizes: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
) -> Array:
    """[rows, columns]: how many positions of each window are inside the tensor."""
    widths = ((padding[0], padding[2]), (padding[1], padding[3]))
    inside = np.pad(np.ones(sizes, np.int64), widths)
    views = sliding_window_view(inside, kernel)
    return views[:: stride[0], :: stride[1]].sum(axis=(-2, -1))


@lru_cache(maxsize=4096)
def padding_spellings(
    padding: Padding, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[Padding, ...]:
    """All paddings that are equivalent to the given one at every input size, the given one first."""
    margins = _margins_at_every_size(padding, kernel, stride, dilation)
    if margins is None:
        return (padding,)
    words = (
        word for word in PADDING_WORDS if _margins_at_every_size(word, kernel, stride, dilation) == margins
    )
    return tuple(dict.fromkeys((padding, *words, margins)))


def _margins_at_every_size(
    padding: Padding, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[int, int, int, int] | None:
    """(top, left, bottom, right); None where it depends on the input size."""
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if padding == "same" and not all(extent % 2 for extent in extents):
        return None
    if padding in ("same_upper", "same_lower") and stride != (1, 1):
        return None
    large = max(extents)
    return explicit_padding((large, large), kernel, stride, dilation, padding)


def cut_or_pad(domain: Domain[A], image: A, start: tuple[int, int], size: tuple[int, int]) -> A:
    """The part of an image from ``start`` on; what is beyond its end is zeros."""
    height, width = domain.shape(image)[2:]
    missing = (0, 0, max(start[0] + size[0] - height, 0), max(start[1] + size[1] - width, 0))
    image = domain.rearrange(lambda part: arrays.padded(part, missing), image)
    rows = domain.slice(image, 2, start[0], start[0] + size[0])
    return domain.slice(rows, 3, start[1], start[1] + size[1])
