"""Sizes to try, one at a time, for the channels of a convolution in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from superopt.instances.search import IMPLICIT
from superopt.ir.dimensions import Dimension, as_symbol, symbols_of
from superopt.ir.types import TensorType


@dataclass(frozen=True)
class Sizes:
    """Sizes to try: images along rows and columns, kernels there, outputs of kernels, everything else."""

    plain: tuple[int, ...] = (1, 2, 3, 4)
    image: tuple[int, ...] = (1, 2, 3, 4, 5)
    kernel: tuple[int, ...] = (1, 2, 3)
    outputs: tuple[int, ...] = (1, 2, 3, 4, 6)


def channel_sizes(inputs: Sequence[TensorType], sizes: Sizes) -> list[Mapping[str, Dimension]] | None:
    """Sizes for one symbol in the channels of a convolution of images; None when there is none.

    Channels of the weight divide those of the data into groups, outputs are divided by their number. What
    a constant's types leave open is no decision here.
    """
    if [type_.rank for type_ in inputs] != [4, 4]:
        return None
    data, weight = inputs
    channels, per_group, outputs = data.shape[1], weight.shape[1], weight.shape[0]
    for place, dimension in enumerate((channels, per_group, outputs)):
        name = next((n for n in sorted(symbols_of(dimension)) if not n.startswith(IMPLICIT)), None)
        if name is not None:
            is_bare = as_symbol(dimension) is not None
            fitting = _fitting(place, channels, per_group, sizes) if is_bare else sizes.plain
            return [{name: size} for size in fitting]
    return None


def _fitting(place: int, channels: Dimension, per_group: Dimension, sizes: Sizes) -> Sequence[int]:
    """Sizes of channels, of those of a group, or of outputs, where what comes before is known."""
    plain, few = sizes.plain, (1, 2, 3)
    if not isinstance(channels, int):
        more = [per_group * groups for groups in few] if isinstance(per_group, int) else []
        return sorted({*plain, *more})
    if place == 1:
        fitting = {*plain, *(channels // groups for groups in few)} - {0}
        return sorted(size for size in fitting if channels % size == 0)
    groups = max(1, channels // max(1, per_group)) if isinstance(per_group, int) else 1
    divisible = [size for size in sizes.outputs if size % groups == 0]
    return divisible or [groups * multiple for multiple in few]
