"""Values of attributes: likely ones, all up to a bound, all words, a few."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from superopt.ir.dimensions import product
from superopt.ir.terms import AttributeTerm
from superopt.ir.types import ShardedType, TensorType
from superopt.ops.attributes import PADDING_WORDS
from superopt.ops.base import OPERATORS
from superopt.ops.elementwise.activation import ACTIVATIONS, APPROXIMATIONS
from superopt.ops.elementwise.precision import PRECISIONS

MAX_RANK = 4
STRIDES = (1, 2, 3)
DILATIONS = (1, 2)
MARGINS = ((0, 0), (1, 1), (0, 1), (1, 0), (2, 1))
"""Padding before and after along one axis."""
ANY_ACTIVATION = "sigmoid"
"""With a free ``exp`` this is an arbitrary function, in place of all activations."""

_FRACTIONS = (1, 2, 3, Fraction(1, 2), Fraction(3, 4), Fraction(1, 3), Fraction(5, 4))
_SIGNED = (*_FRACTIONS, -1, Fraction(-1, 2), Fraction(-2, 3))
_POSITIVE = (1, 2, Fraction(1, 2), Fraction(3, 4))


def joined(rows: tuple[int, int], columns: tuple[int, int]) -> tuple[int, int, int, int]:
    """Padding as (top, left, bottom, right)."""
    return (rows[0], columns[0], rows[1], columns[1])


@dataclass(frozen=True)
class AttributeValues:
    """``likely`` values to draw from, those that validation goes through ``up_to_bound``.

    ``every``: all, where that is a few words. ``partial``: those to look at for undefined elements, with
    numbers at which operators are partial.
    """

    likely: Sequence[object] = _FRACTIONS
    up_to_bound: Sequence[object] = _POSITIVE
    partial: Sequence[object] = ()
    every: Sequence[object] = ()


def _words(*every: object) -> AttributeValues:
    return AttributeValues(every, every, every=every)


ATTRIBUTE_VALUES: Mapping[str, AttributeValues] = {
    "activation": AttributeValues(ACTIVATIONS, (ANY_ACTIVATION,), every=ACTIVATIONS),
    "alpha": AttributeValues(_SIGNED, (Fraction(1, 5), -2, 0), (Fraction(1, 5), -2, 0)),
    "approximate": _words(*APPROXIMATIONS),
    "beta": AttributeValues(_SIGNED, (Fraction(1, 2), -1), (Fraction(3, 4), 2, 0, -1)),
    "bias": AttributeValues((0, *_SIGNED), _POSITIVE, (1, 0, -1)),
    "degree": AttributeValues((2, 2, 3, 4)),
    "dilation": AttributeValues(
        ((1, 1), (1, 1), (2, 2), (1, 2), (3, 1)), tuple(itertools.product(DILATIONS, repeat=2))
    ),
    "epsilon": AttributeValues(_FRACTIONS, (Fraction(1, 100000), 1), (Fraction(1, 100000), 0, -1)),
    "exponent": AttributeValues(
        _SIGNED,
        (3, Fraction(1, 2), Fraction(1, 3), -1),
        (2, 0, -1, Fraction(1, 2), Fraction(1, 3), Fraction(-3, 4)),
    ),
    "high": AttributeValues(_SIGNED, (1, Fraction(-1, 2)), (1, 0)),
    "includes_padding": _words(0, 1),
    "kernel": AttributeValues(((1, 1), (3, 3), (2, 2), (3, 1), (1, 3), (5, 3), (2, 3), (4, 4))),
    "low": AttributeValues((0, *_SIGNED), (0, Fraction(-2, 3)), (0, -1)),
    "padding": AttributeValues(
        (*PADDING_WORDS, (1, 1, 1, 1), (0, 1, 2, 1)),
        (*PADDING_WORDS, *(joined(a, b) for a, b in itertools.product(MARGINS, repeat=2))),
    ),
    "size": AttributeValues((1, 2, 3, 5)),
    "stride": AttributeValues(
        ((1, 1), (2, 2), (1, 2), (3, 1), (3, 3), (4, 2)), tuple(itertools.product(STRIDES, repeat=2))
    ),
    "to": _words(*PRECISIONS),
    "value": AttributeValues((0, *_SIGNED), (0, 1, -1, 2, Fraction(1, 2)), (0, 1, -1, 2, Fraction(1, 2))),
}
"""Of attributes whose values do not depend on the types of inputs; sizes of the bound are added to it."""

FEW_VALUES: Mapping[str, tuple[AttributeTerm, ...]] = {
    "stride": ((1, 1), (2, 2), (2, 1)),
    "padding": ("valid", "same", "same_upper", (1, 0, 2, 1)),
    "dilation": ((1, 1), (2, 1)),
    "kernel": ((3, 3), (1, 1), (3, 2), (5, 5)),
    "axis": (0, 1, 2, 3),
    "activation": ACTIVATIONS,
    "includes_padding": (0, 1),
    "degree": (2, 3, 4),
}
"""A few values that tell apart what holds for any value of an attribute and what does not."""

FEW_INTEGERS: tuple[AttributeTerm, ...] = (3, 5, 2)
FEW_FRACTIONS: tuple[AttributeTerm, ...] = (Fraction(1, 2), Fraction(3, 4), Fraction(2, 7))
"""The same for attributes that are numbers."""

_OTHER = AttributeValues()


def likely_values(attribute: str, inputs: Sequence[TensorType]) -> Sequence[object]:
    """Values to try; empty when the operator accepts none for these inputs."""
    rank = inputs[0].rank if inputs else 0
    if attribute == "axis":
        return range(-rank, rank)
    if attribute == "degree" and inputs and isinstance(inputs[0], ShardedType):
        known = (inputs[0].replicas, *(n for d in inputs[0].divisions for n in (d.degree, d.batches)))
        return tuple(dict.fromkeys((*(degree for degree in known if degree > 1), 2)))
    if attribute == "perm":
        return _permutations(rank, 24)
    if attribute == "shape":
        return _likely_shapes(inputs[0]) if inputs else ((), (2,), (2, 3), (1, 3, 2))
    return ATTRIBUTE_VALUES.get(attribute, _OTHER).likely


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
                return _permutations(rank)
            case "shape":
                return tuple(dict.fromkeys(self._shapes(inputs[0].elements)))
            case "kernel":
                return list(itertools.product(self.sizes, repeat=2))
            case "size":
                return self.sizes
            case "degree":
                return self.sizes[1:]
            case _:
                usual = ATTRIBUTE_VALUES.get(attribute, _OTHER).up_to_bound
                return OPERATORS[operator].typical.get(attribute) or usual

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


@dataclass(frozen=True)
class PartialBound(Bound):
    """The bound with numbers at which operators are partial."""

    max_dim: int = 2

    def values(self, operator: str, attribute: str, inputs: Sequence[TensorType]) -> Sequence[object]:
        """Numbers of both kinds; other attributes as everywhere."""
        partial = ATTRIBUTE_VALUES.get(attribute, _OTHER).partial
        return partial or super().values(operator, attribute, inputs)


def _permutations(rank: int, most: int | None = None) -> Sequence[object]:
    """So many of the permutations of the axes, and the swap of the last two without saying of how many."""
    return (*itertools.islice(itertools.permutations(range(rank)), most), *(((),) if rank > 1 else ()))


def _likely_shapes(type_: TensorType) -> tuple[object, ...]:
    """Shapes with as many elements: flattened, two axes merged, an axis of 1 put in, the axes reversed."""
    shape = type_.shape
    merged = [(*shape[:i], product(shape[i : i + 2]), *shape[i + 2 :]) for i in range(len(shape) - 1)]
    widened = [(*shape[:i], 1, *shape[i:]) for i in range(len(shape) + 1)]
    return ((product(shape),), shape, tuple(reversed(shape)), *merged, *widened)


def _factorisations(elements: int, rank: int, largest: int) -> Iterator[tuple[int, ...]]:
    if rank == 0:
        if elements == 1:
            yield ()
        return
    for size in range(1, min(largest, elements) + 1):
        if elements % size == 0:
            for rest in _factorisations(elements // size, rank - 1, largest):
                yield (size, *rest)
