"""Random small shapes for the operand of an operator, likely to fit the operands that are known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import cast

from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.roles import Product
from superopt.ops.traits import GROUPED, traits

_BATCHES, _CHANNELS = (1, 1, 2, 3), (1, 2, 2, 3, 4, 6)
_IMAGES, _KERNELS = (1, 2, 3, 4, 5, 6, 7), (1, 1, 2, 3, 3)
_PLAIN = (1, 2, 2, 3, 4)
_RANKS = (0, 1, 2, 2, 3, 4)

Shape = tuple[int, ...]


class SmallShapes:
    """Shapes from one random generator; nothing here decides whether operands fit."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator

    def declared(self, sizes: Sequence[int | str]) -> Shape:
        """A shape of declared sizes, names replaced by numbers."""
        return tuple(size if isinstance(size, int) else self._one(_PLAIN) for size in sizes)

    def operand(
        self, operator: str, position: int, siblings: Sequence[TensorType | None], axis: object
    ) -> Shape:
        """A shape for one operand; ``siblings`` are the types of all operands as far as they are known."""
        others = [cast("Shape", type_.shape) for type_ in siblings if type_ is not None]
        first = cast("Shape | None", siblings[0].shape) if siblings and siblings[0] else None
        own = traits(operator)
        if own.side_rank == 0 and position > 0:
            return ()
        if own.side_rank == 1 and position > 0:
            in_range = first is not None and isinstance(axis, int) and -len(first) <= axis < len(first)
            return (cast("Shape", first)[cast("int", axis)],) if in_range else (self._one(_PLAIN),)
        if own.equal_inputs and others:
            return others[0]
        if own.joins and others and isinstance(axis, int):
            return self._resized(others[0], axis)
        if own.product is Product.MATRIX and others:
            return self._factor(position, others[0])
        if operator in GROUPED:
            return self._of_convolution(own, position, others)
        return self._plain(self._one(own.ranks or _RANKS), kernel=own.kernel_input == position)

    def _one(self, choices: Sequence[int]) -> int:
        return self._random.choice(choices)

    def _plain(self, rank: int, *, kernel: bool = False) -> Shape:
        if rank < 4:
            return tuple(self._one(_PLAIN) for _ in range(rank))
        spatial = _KERNELS if kernel else _IMAGES
        return (self._one(_BATCHES), self._one(_CHANNELS), self._one(spatial), self._one(spatial))

    def _resized(self, shape: Shape, axis: int) -> Shape:
        if not -len(shape) <= axis < len(shape):
            return shape
        axis %= len(shape)
        return (*shape[:axis], self._one(_PLAIN), *shape[axis + 1 :])

    def _factor(self, position: int, other: Shape) -> Shape:
        """A matrix whose product with the other exists, or a stack of them."""
        if len(other) < 2:
            return self._plain(2)
        free = self._one((*_PLAIN, other[-1], other[-2]))
        own = (free, other[-2]) if position == 0 else (other[-1], free)
        batch = other[:-2] if len(other) > 2 and self._random.random() < 0.7 else ()
        if not batch and len(other) == 2 and self._random.random() < 0.2:
            batch = (self._one(_PLAIN),)
        return (*batch, *own)

    def _of_convolution(self, operator: type[Operator], position: int, others: Sequence[Shape]) -> Shape:
        """Data, vector or kernel whose channels are those of the other operand, or as many groups of them."""
        is_kernel = position == operator.kernel_input
        spatial = _KERNELS if is_kernel else _IMAGES
        size = (self._one(spatial), self._one(spatial))
        groups = self._one((1, 1, 2, 3))
        if is_kernel:
            ranks = {4: 1, 1: 0}
            known = others[0] if others and len(others[0]) in ranks else None
            channels = self._one(_CHANNELS) if known is None else known[ranks[len(known)]]
            divides = channels % groups == 0
            per_group = channels // groups if divides else channels
            return (self._one((1, 2, 3)) * (groups if divides else 1), per_group, *size)
        per_group = others[0][1] if others and len(others[0]) == 4 else self._one((1, 2, 3))
        channels = per_group * groups
        return (self._one(_BATCHES), channels, *size) if operator.windowed else (channels,)
