"""Plausible values of attribute variables, given the types that the operator is applied to."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction

from superopt.ir.dimensions import product
from superopt.ir.types import ShardedType, TensorType
from superopt.ops.activation import ACTIVATIONS, APPROXIMATIONS

_CONSTANTS: Mapping[str, tuple[object, ...]] = {
    "stride": ((1, 1), (2, 2), (1, 2), (3, 1), (3, 3), (4, 2)),
    "dilation": ((1, 1), (1, 1), (2, 2), (1, 2), (3, 1)),
    "padding": ("valid", "same", "same_upper", "same_lower", (1, 1, 1, 1), (0, 1, 2, 1)),
    "kernel": ((1, 1), (3, 3), (2, 2), (3, 1), (1, 3), (5, 3), (2, 3), (4, 4)),
    "activation": ACTIVATIONS,
    "includes_padding": (0, 1),
    "approximate": APPROXIMATIONS,
    "size": (1, 2, 3, 5),
    "degree": (2, 2, 3, 4),
}
_NUMBERS = (1, 2, 3, Fraction(1, 2), Fraction(3, 4), Fraction(1, 3), Fraction(5, 4))
_SIGNED = frozenset(("alpha", "beta", "bias", "exponent", "value"))
_SIGNED_NUMBERS = (*_NUMBERS, -1, Fraction(-1, 2), Fraction(-2, 3))


def plausible_values(attribute: str, inputs: Sequence[TensorType]) -> tuple[object, ...]:
    """Values to try; empty when the operator accepts none for these inputs."""
    rank = inputs[0].rank if inputs else 0
    if attribute == "axis":
        return tuple(range(-rank, rank))
    if attribute == "degree" and inputs and isinstance(inputs[0], ShardedType):
        known = (inputs[0].replicas, *(n for d in inputs[0].divisions for n in (d.degree, d.batches)))
        return tuple(dict.fromkeys((*(degree for degree in known if degree > 1), 2)))
    if attribute == "perm":
        return tuple(itertools.islice(itertools.permutations(range(rank)), 24)) + ((),) * (rank > 1)
    if attribute == "shape":
        return _shapes(inputs[0]) if inputs else ((), (2,), (2, 3), (1, 3, 2))
    if attribute in _SIGNED:
        return _SIGNED_NUMBERS
    return _CONSTANTS.get(attribute, _NUMBERS)


def _shapes(type_: TensorType) -> tuple[object, ...]:
    """Shapes with as many elements: flattened, two axes merged, an axis of 1 put in, the axes reversed."""
    shape = type_.shape
    merged = [(*shape[:i], product(shape[i : i + 2]), *shape[i + 2 :]) for i in range(len(shape) - 1)]
    widened = [(*shape[:i], 1, *shape[i:]) for i in range(len(shape) + 1)]
    return ((product(shape),), shape, tuple(reversed(shape)), *merged, *widened)
