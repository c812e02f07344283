"""Units of simulation: an operation under its machine mapping, with its exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from superopt.ir.plan import Parallelism
from superopt.ir.types import TensorType
from superopt.optimizer.parallel.simulator.exchange import Exchange, Times
from superopt.optimizer.parallel.task_costs import Types

Key = tuple[int, int]
"""A port, and the number of the placement in which its tensor is required."""


@dataclass(frozen=True, slots=True, eq=False)
class Duration:
    """Microseconds by device, 0 for devices without work; ``common`` if equal on all devices; the ``longest``
    of all."""

    each: Times
    common: float | None
    longest: float

    @staticmethod
    def of(each: Times, works: NDArray[np.bool_]) -> Duration:
        """A duration from times; ``works`` marks the devices with work."""
        is_common = bool(works.all() and (each == each[0]).all())
        return Duration(each, float(each[0]) if is_common else None, float(each.max()))


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """A division of an operation: the numbers of the placements of its operands and results, and of its
    results with partial sums reduced. ``works`` marks the devices with work; ``takes_time`` is false where a
    tensor is only renamed. ``shapes`` are those of a microbatch's outputs."""

    how: Parallelism
    needs: tuple[int, ...]
    makes: tuple[int, ...]
    reduces: tuple[int, ...]
    duration: Duration
    works: NDArray[np.bool_]
    takes_time: bool
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One operation of a plan. ``arrivals`` are the tensors that it waits for, as producer and key, except
    those produced on its own devices, which run sequentially. ``sends``: the exchange of each key that some
    pass waits for, None where nothing is sent. ``settled``: those of graph outputs; ``final``: all placements
    in which they end, sent or not. ``fetches``: exchanges of inputs that are issued after it; ``awaits``:
    those that it waits for, as the operation after which they are issued and the key."""

    division: Division
    arrivals: tuple[tuple[int, Key], ...]
    sends: tuple[tuple[Key, Exchange | None], ...]
    settled: tuple[Key, ...]
    final: tuple[Key, ...]
    fetches: tuple[tuple[Key, Exchange], ...]
    awaits: tuple[tuple[int, Key], ...]

    def is_like(self, other: Unit) -> bool:
        """Whether its passes have the same timing and memory as another unit's."""
        return (
            self.division is other.division
            and self.arrivals == other.arrivals
            and self.sends == other.sends
            and self.final == other.final
            and self.fetches == other.fetches
            and self.awaits == other.awaits
        )


def bytes_of(type_: TensorType) -> int:
    """Bytes of a tensor of concrete size."""
    elements = type_.elements
    assert isinstance(elements, int), "sizes are known when a plan is simulated"
    return elements * type_.element.bytes_per_element


def parts_of(types: Types, axes: tuple[tuple[int | None, ...], ...], parts: Sequence[int]) -> Types:
    """The types of parts of tensors whose axes follow task dimensions; each of these has so many parts."""
    return tuple(
        type_.with_shape(
            tuple(
                size if axis is None or not isinstance(size, int) else size // parts[axis]
                for size, axis in zip(type_.shape, followed, strict=True)
            )
        )
        for type_, followed in zip(types, axes, strict=True)
    )
