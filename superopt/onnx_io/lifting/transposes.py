"""Transposes that ONNX Runtime runs faster as two.

It copies blocks, or transposes matrices, where a permutation moves a single axis; any other permutation is
done element by element, which takes about ten times as long. The constants are nanoseconds for an element of
four bytes, fitted to ONNX Runtime 1.31 with one thread (``benchmarks composed`` measures whole nodes).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from superopt.ir.types import ElementType, TensorType
from superopt.ops.matrix import keeps_order

_OPEN = 32
"""The size assumed for an open axis."""

_NODES = 4500.0
"""Nanoseconds of the nodes that are added."""

_GAIN = 0.7
"""The share of the time of one node up to which two transposes are used."""

_BLOCKS = 2.0
"""Nanoseconds for an element of DepthToSpace."""

Permutation = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """Two permutations that together are another one, and their estimated time; the second one only changes
    the shape where ``is_shape``."""

    first: Permutation
    second: Permutation
    is_shape: bool
    nanoseconds: float


def faster_steps(type_: TensorType, permutation: Sequence[int]) -> Steps | None:
    """The two permutations that are faster than this one of a tensor; None if it is fastest itself."""
    if type_.element is not ElementType.FLOAT or 0 in type_.shape:
        return None
    return _faster_steps(assumed_sizes(type_), tuple(permutation))


def moves_blocks_faster(type_: TensorType, permutation: Sequence[int]) -> bool:
    """Whether two transposes, between Reshapes, are faster than a DepthToSpace that permutes the axes of
    blocks so."""
    steps = faster_steps(type_, permutation)
    if steps is None:
        return False
    sizes = assumed_sizes(type_)
    return steps.nanoseconds + 2 * _NODES < _GAIN * _BLOCKS * prod(sizes)


def assumed_sizes(type_: TensorType) -> tuple[int, ...]:
    """The sizes of a tensor, with a number for each that is open."""
    return tuple(size if isinstance(size, int) else _OPEN for size in type_.shape)


@lru_cache(maxsize=4096)
def _faster_steps(sizes: tuple[int, ...], permutation: Permutation) -> Steps | None:
    least = _GAIN * _nanoseconds(sizes, permutation)
    found: Steps | None = None
    for first in _moves(len(sizes)):
        if keeps_order(first, sizes):
            continue
        second = tuple(first.index(axis) for axis in permutation)
        between = tuple(sizes[axis] for axis in first)
        together = _nanoseconds(sizes, first) + _nanoseconds(between, second) + _NODES
        if together < least:
            least, found = together, Steps(first, second, keeps_order(second, between), together)
    return found


def _nanoseconds(sizes: Sequence[int], permutation: Permutation) -> float:
    """The estimated time of one Transpose."""
    elements = prod(sizes)
    if keeps_order(permutation, sizes):
        return 0.05 * elements
    sizes, permutation = _joined(sizes, permutation)
    move = _single_move(permutation)
    if move is None:
        block = prod(sizes[_kept_from(permutation) :])
        return (0.2 + 4.5 / block) * elements
    start, end = move
    passed = prod(sizes[min(start, end) : max(start, end) + 1]) // sizes[start]
    block = prod(sizes[max(start, end) + 1 :])
    if block > 2:
        return (0.15 + 10 / block) * elements
    rows, columns = (passed, sizes[start]) if start > end else (sizes[start], passed)
    return (0.2 + 4 / (rows * columns) + 1 / rows) * elements


def _joined(sizes: Sequence[int], permutation: Permutation) -> tuple[Sequence[int], Permutation]:
    """The same with axes that stay together as one, as ONNX Runtime takes them."""
    places = range(1, len(permutation))
    starts = [0, *(place for place in places if permutation[place] != permutation[place - 1] + 1)]
    groups = [permutation[a:b] for a, b in itertools.pairwise([*starts, len(permutation)])]
    order = sorted(groups)
    return [prod(sizes[axis] for axis in group) for group in order], tuple(map(order.index, groups))


def _moves(rank: int) -> Iterator[Permutation]:
    """All permutations that move one axis."""
    for start in range(rank):
        for end in range(rank):
            if start != end:
                yield _moved(rank, start, end)


def _moved(rank: int, start: int, end: int) -> Permutation:
    axes = [axis for axis in range(rank) if axis != start]
    return (*axes[:end], start, *axes[end:])


def _single_move(permutation: Permutation) -> tuple[int, int] | None:
    """The axis that the permutation moves and its new place; None if it moves several."""
    wrong = [place for place, axis in enumerate(permutation) if place != axis]
    low, high = wrong[0], wrong[-1]
    for start, end in ((low, high), (high, low)):
        if permutation == _moved(len(permutation), start, end):
            return start, end
    return None


def _kept_from(permutation: Permutation) -> int:
    """The first of the axes that stay at the end."""
    return max(place for place, axis in enumerate(permutation) if place != axis) + 1


__all__ = ["Steps", "assumed_sizes", "faster_steps", "moves_blocks_faster"]
