"""Units of simulation: an operation under its machine mapping, with its forward and backward exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from superopt.ir.plan import Parallelism
from superopt.ir.types import TensorType
from superopt.optimizer.parallel.placement import Placement
from superopt.optimizer.parallel.simulator.exchange import Exchange, Times
from superopt.optimizer.parallel.task_costs import Types

Key = tuple[int, int]
"""A port, and the number of the placement in which its tensor is required."""


@dataclass(frozen=True, slots=True, eq=False)
class Duration:
    """Microseconds by device, 0 for devices without work; ``common`` if equal on all devices."""

    each: Times
    common: float | None

    @staticmethod
    def of(each: Times, works: NDArray[np.bool_]) -> Duration:
        """A duration from times; ``works`` marks the devices with work."""
        is_common = bool(works.all() and (each == each[0]).all())
        return Duration(each, float(each[0]) if is_common else None)


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """A division of an operation: the numbers of the placements of its operands and results, and of the
    gradients that its backward pass produces (of inputs) and reads (of outputs). ``works`` marks the devices
    with work; ``takes_time`` is false where a tensor is only renamed. ``shapes`` are those of a microbatch's
    outputs."""

    how: Parallelism
    needs: tuple[int, ...]
    makes: tuple[int, ...]
    gives_back: tuple[int, ...]
    takes_back: tuple[int, ...]
    forward: Duration
    backward: Duration
    works: NDArray[np.bool_]
    takes_time: bool
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One operation of a plan. ``arrivals`` are the tensors that it waits for, as producer and key, except
    those produced on its own devices, which run sequentially. ``sends``: the exchange of each key that some
    pass waits for, None where nothing is sent. ``settled``: those of graph outputs; ``final``: all placements
    in which they end, sent or not. ``returns``: gradients that it waits for: the exchange, and the readers
    whose backward passes produce them. ``synchronised``: exchanges of weight gradients whose last backward
    pass is this one, and whether this is the only one.
    ``fetches``: exchanges of inputs that are issued after it; ``awaits``: those that it waits for, as the
    operation after which they are issued and the key."""

    division: Division
    arrivals: tuple[tuple[int, Key], ...]
    sends: tuple[tuple[Key, Exchange | None], ...]
    settled: tuple[Key, ...]
    final: tuple[Key, ...]
    returns: tuple[tuple[Exchange | None, tuple[int, ...]], ...]
    synchronised: tuple[tuple[Exchange, bool], ...]
    fetches: tuple[tuple[Key, Exchange], ...]
    awaits: tuple[tuple[int, Key], ...]

    def is_like(self, other: Unit) -> bool:
        """Whether its passes have the same timing and memory as another unit's."""
        return (
            self.division is other.division
            and self.arrivals == other.arrivals
            and self.sends == other.sends
            and self.final == other.final
            and self.returns == other.returns
            and self.synchronised == other.synchronised
            and self.fetches == other.fetches
            and self.awaits == other.awaits
        )


def gradient_made(place: Placement, copies: int) -> Placement:
    """Placement of the gradient of an input: tasks that read copies of a part produce terms of its gradient;
    with ``copies`` each copy of a task produces the same, and so do tasks that read terms of a sum."""
    others = place.copies // copies
    devices = np.array(place.devices).reshape(-1, place.partial, others, copies).transpose(0, 2, 1, 3)
    return Placement(
        place.degrees, tuple(devices.ravel().tolist()), partial=others, copies=place.partial * copies
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
