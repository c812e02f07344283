"""Placements: the devices of a tensor's shards, derived from the machine mapping of its operator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.ir.plan import Parallelism
from superopt.ops.sharded.splits import SplitKind, Splits
from superopt.optimizer.parallel.boxes import Region, regions_of_parts
from superopt.optimizer.parallel.terms import are_terms, completed


@dataclass(frozen=True, slots=True)
class Placement:
    """The shards of one tensor and the device of each.

    Axis i is divided into ``degrees[i]`` equal parts. Every part is there ``copies`` times. With ``partial``
    above 1 a part is the sum of that many terms, each on a device of its own. ``devices`` is row-major over
    ``(*degrees, partial, copies)``.
    """

    degrees: tuple[int, ...]
    devices: tuple[int, ...]
    partial: int = 1
    copies: int = 1

    def __post_init__(self) -> None:
        if len(self.devices) != math.prod(self.degrees) * self.partial * self.copies:
            raise ValueError(f"{len(self.devices)} devices for {self}")

    @property
    def is_whole(self) -> bool:
        """Whether every device that holds the tensor holds all of it."""
        return self.partial == 1 and all(degree == 1 for degree in self.degrees)

    def shard_bytes(self, tensor_bytes: int) -> int:
        """Bytes of one shard of a tensor of that many bytes."""
        return tensor_bytes // math.prod(self.degrees)

    def of_terms(self, terms: Sequence[int]) -> Placement:
        """The shards that are one of these terms; their sum where there are several."""
        if tuple(terms) == tuple(range(self.partial)):
            return self
        parts = np.array(self.devices).reshape(-1, self.partial, self.copies)[:, list(terms)]
        return Placement(self.degrees, tuple(parts.ravel().tolist()), len(terms), self.copies)

    def holders(self) -> Iterator[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]]:
        """For every part, by its index along the axes: the devices of its copies, for each term."""
        per_part = self.partial * self.copies
        for number, index in enumerate(itertools.product(*(range(degree) for degree in self.degrees))):
            devices = self.devices[number * per_part : (number + 1) * per_part]
            yield (
                index,
                tuple(devices[term * self.copies : (term + 1) * self.copies] for term in range(self.partial)),
            )


def regions_of(placement: Placement, shape: tuple[int, ...]) -> dict[int, Region]:
    """The box of a tensor that each device holds, wholly or as a term."""
    each = placement.partial * placement.copies
    return {
        device: region
        for number, region in enumerate(regions_of_parts(placement.degrees, shape))
        for device in placement.devices[number * each : (number + 1) * each]
    }


def needed(splits: Splits, how: Parallelism, slot: int) -> Placement:
    """Required placement of an input of an operator divided this way: a copy for each task that reads a
    part, or one term where tasks read terms."""
    terms = (n for n, dimension in enumerate(splits.dimensions) if are_terms(dimension, slot))
    return _placement(splits, how, splits.inputs[slot], tuple(terms))


def produced(splits: Splits, how: Parallelism, port: int) -> Placement:
    """Placement of an output of an operator divided this way."""
    axes = splits.outputs[port]
    summed = tuple(
        number
        for number, dimension in enumerate(splits.dimensions)
        if number not in axes and dimension.kind is SplitKind.REDUCTION
    )
    return _placement(splits, how, axes, summed)


def _placement(
    splits: Splits, how: Parallelism, axes: tuple[int | None, ...], summed: tuple[int, ...]
) -> Placement:
    count = len(splits.dimensions)
    degrees = completed(splits, how.degrees)
    followed = [axis for axis in axes if axis is not None]
    copied = [number for number in range(count) if number not in followed and number not in summed]
    devices = np.array(how.devices).reshape(*degrees, how.copies)
    ordered = devices.transpose(*followed, *summed, *copied, count)
    return Placement(
        degrees=tuple(1 if axis is None else degrees[axis] for axis in axes),
        devices=tuple(int(device) for device in ordered.ravel()),
        partial=math.prod(degrees[number] for number in summed),
        copies=math.prod(degrees[number] for number in copied) * how.copies,
    )
