"""Estimated cost of moving a tensor from its producer's placement to that needed by its consumer.

The estimate covers all pairs of choices in closed form over the mesh axes, so that a table takes a few array
operations. Plans found with it are evaluated by the simulator afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from superopt.ops.sharded.splits import SplitKind
from superopt.optimizer.parallel.communication import CollectiveKind
from superopt.optimizer.parallel.search.choices import ALONE, COPIED, Choice
from superopt.optimizer.parallel.search.subject import Operation
from superopt.optimizer.parallel.terms import are_terms

WHOLE = -1
"""Along this mesh axis all devices hold the same data."""

ONE = -2
"""Along this axis one device holds the data."""

TERM = -3
"""Along this axis every device holds a term of a sum."""

States = NDArray[np.int64]
"""[choices, axes]: the tensor axis divided along a mesh axis, or one of the constants above."""

Costs = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CollectivePrices:
    """Microseconds of a collective run by all groups along some axes at once, by the cheapest of several
    algorithms, each with a latency and a time per byte. Indexed by the algorithm and the set of axes as a bit
    mask (bit i for axis i). Bytes are those of a group's whole region; for an all-to-all those held by one
    device."""

    sizes: tuple[int, ...]
    start: dict[CollectiveKind, Costs]
    per_byte: dict[CollectiveKind, Costs]

    def of(self, kind: CollectiveKind, axes: NDArray[np.bool_], region: Costs) -> Costs:
        """The costs, for arrays of axis sets ([..., axes]) and region sizes in bytes ([...])."""
        numbers = axes @ (1 << np.arange(len(self.sizes)))
        first, *others = zip(self.start[kind], self.per_byte[kind], strict=True)
        best = first[0][numbers] + first[1][numbers] * region
        for start, per_byte in others:
            best = np.minimum(best, start[numbers] + per_byte[numbers] * region)
        return best


def made(operation: Operation, choices: Sequence[Choice], port: int) -> States:
    """Placement of the output after the operation."""
    axes = operation.splits.outputs[port]
    kinds = [dimension.kind for dimension in operation.splits.dimensions]
    otherwise = [TERM if kind is SplitKind.REDUCTION else WHOLE for kind in kinds]
    return _states(choices, [_axis(axes, d, other) for d, other in enumerate(otherwise)])


def read(operation: Operation, choices: Sequence[Choice], slot: int) -> States:
    """Required placement of the input: whole along dimensions that it does not follow, in terms along those
    of its terms."""
    axes = operation.splits.inputs[slot]
    meanings = [
        TERM if are_terms(dimension, slot) else _axis(axes, number, WHOLE)
        for number, dimension in enumerate(operation.splits.dimensions)
    ]
    return _states(choices, meanings)


def redistribution(have: States, want: States, tensor_bytes: int, prices: CollectivePrices) -> Costs:
    """[choices of the producer, choices of the consumer]: microseconds."""
    sizes = np.array(prices.sizes, dtype=np.float64)
    before, after = have[:, None, :], want[None, :, :]
    local = tensor_bytes / _product(sizes, have >= 0)[:, None]
    local = local / _product(sizes, (before == WHOLE) & (after >= 0))
    total = np.zeros((len(have), len(want)))

    def step(kind: CollectiveKind, axes: NDArray[np.bool_], region: Costs) -> None:
        if axes.any():
            np.add(total, prices.of(kind, axes, np.broadcast_to(region, total.shape)), out=total)

    scattered = (before == TERM) & (after >= 0)
    step(CollectiveKind.REDUCE_SCATTER, scattered, local)
    local = local / _product(sizes, scattered)
    step(CollectiveKind.ALL_REDUCE, (before == TERM) & (after == WHOLE), local)
    step(CollectiveKind.REDUCE_SCATTER, (before == TERM) & (after == ONE), local)
    step(CollectiveKind.ALL_TO_ALL, (before >= 0) & (after >= 0) & (before != after), local)
    collected = (before >= 0) & ((after == ONE) | (after == TERM))
    step(CollectiveKind.ALL_GATHER, collected, local * _product(sizes, collected))
    dealt = (before == ONE) & (after >= 0)
    step(CollectiveKind.BROADCAST, dealt, local)
    local = local / _product(sizes, dealt)
    gathered = (before >= 0) & (after == WHOLE)
    local = local * _product(sizes, gathered)
    step(CollectiveKind.ALL_GATHER, gathered, local)
    step(CollectiveKind.BROADCAST, (before == ONE) & (after == WHOLE), local)
    return total


def part(states: States, sizes: Sequence[int]) -> Costs:
    """[choices]: the fraction of a tensor that each device holds."""
    return 1.0 / _product(np.array(sizes, dtype=np.float64), states >= 0)


def _product(sizes: Costs, axes: NDArray[np.bool_]) -> Costs:
    return np.where(axes, sizes, 1.0).prod(axis=-1)


def _axis(axes: tuple[int | None, ...], dimension: int, otherwise: int) -> int:
    return axes.index(dimension) if dimension in axes else otherwise


def _states(choices: Sequence[Choice], meanings: Sequence[int]) -> States:
    table = np.array([*meanings, WHOLE, ONE], dtype=np.int64)
    labels = np.array(choices, dtype=np.int64).reshape(len(choices), -1)
    assert COPIED == -1
    assert ALONE == -2
    return table[np.where(labels >= 0, labels, len(meanings) - 1 - labels)]
