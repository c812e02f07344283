"""The bound: ranks, sizes, and for every attribute the finite set of values that validation goes through."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from superopt.ir.types import TensorType
from superopt.ops.activation import APPROXIMATIONS
from superopt.ops.base import OPERATORS

MAX_RANK = 4
STRIDES = (1, 2, 3)
DILATIONS = (1, 2)
MARGINS = ((0, 0), (1, 1), (0, 1), (1, 0), (2, 1))
"""Padding before and after along one axis."""
PADDING_WORDS = ("valid", "same", "same_upper", "same_lower")
ANY_ACTIVATION = "sigmoid"
"""With a free ``exp`` this is an arbitrary function, in place of all ACTIVATIONS."""

_POSITIVE = (1, 2, Fraction(1, 2), Fraction(3, 4))
_NUMBERS = {
    "alpha": (Fraction(1, 5), -2, 0),
    "beta": (Fraction(1, 2), -1),
    "epsilon": (Fraction(1, 100000), 1),
    "exponent": (3, Fraction(1, 2), Fraction(1, 3), -1),
    "value": (0, 1, -1, 2, Fraction(1, 2)),
}


@dataclass(frozen=True)
class Bound:
    """Every dimension of every input is 1 to ``max_dim``, every rank 0 to ``max_rank``.

    Kernels, cuts and implicit sizes are 1 to ``max_dim`` too.
    """

    max_dim: int = 4
    max_rank: int = MAX_RANK

    @property
    def sizes(self) -> range:
        """All sizes of one dimension."""
        return range(1, self.max_dim + 1)

    def values(self, operator: str, attribute: str, inputs: Sequence[TensorType]) -> Sequence[object]:
        """All values of an attribute variable where an operator meets it first, for inputs of these types."""
        rank = inputs[0].rank if inputs else 0
        match attribute:
            case "axis":
                return range(-rank, rank)
            case "perm":
                return [*itertools.permutations(range(rank)), *(((),) if rank > 1 else ())]
            case "shape":
                return tuple(dict.fromkeys(self._shapes(inputs[0].elements)))
            case "kernel":
                return list(itertools.product(self.sizes, repeat=2))
            case "stride" | "dilation":
                choices = STRIDES if attribute == "stride" else DILATIONS
                return list(itertools.product(choices, repeat=2))
            case "padding":
                return [*PADDING_WORDS, *(joined(a, b) for a, b in itertools.product(MARGINS, repeat=2))]
            case "activation":
                return (ANY_ACTIVATION,)
            case "includes_padding":
                return (0, 1)
            case "approximate":
                return APPROXIMATIONS
            case "size":
                return self.sizes
            case "degree":
                return self.sizes[1:]
            case _:
                return OPERATORS[operator].typical.get(attribute) or _NUMBERS.get(attribute, _POSITIVE)

    def _shapes(self, elements: object) -> Iterator[tuple[int, ...]]:
        """All shapes of so many elements within the bound, matrices with such rows, and the vector."""
        if not isinstance(elements, int):
            return
        for rank in range(self.max_rank + 1):
            yield from _factorisations(elements, rank, self.max_dim)
        for columns in self.sizes:
            if elements % columns == 0:
                yield (elements // columns, columns)
        yield (elements,)


def joined(rows: tuple[int, int], columns: tuple[int, int]) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right)."""
    return (rows[0], columns[0], rows[1], columns[1])


def _factorisations(elements: int, rank: int, largest: int) -> Iterator[tuple[int, ...]]:
    if rank == 0:
        if elements == 1:
            yield ()
        return
    for size in range(1, min(largest, elements) + 1):
        if elements % size == 0:
            for rest in _factorisations(elements // size, rank - 1, largest):
                yield (size, *rest)
