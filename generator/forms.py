"""Operators seen as linear maps: fingerprints of all results of one operator by a matrix product.

Whether an operator is linear in all its arguments together (add, concat, transpose, a split), or linear in
each of two (matmul, mul, conv), is not listed but tried on random residues: a map that is additive at random
points of a prime field is linear but for a negligible chance. The key of f(a, b) is then a . Q_b, where Q_b
comes from evaluating f on unit tensors, so that results themselves are never made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache

import numpy as np

from generator.fingerprints import VECTORS, projected
from superopt.domains.small_field import SmallArray, SmallFieldDomain, Wide, exact_matmul, random_array
from superopt.errors import UnsupportedError
from superopt.ops import Operator

Shape = tuple[int, ...]

CHUNK_ELEMENTS = 1 << 18
"""Elements of results that one call computes."""

_DOMAIN = SmallFieldDomain()
_RESIDUES_ONLY = SmallArray(np.zeros(0, np.float32))
_POINTS = 2


class Form(Enum):
    """How an operator depends on its arguments."""

    LINEAR = "linear in all arguments together"
    BILINEAR = "linear in each of two arguments"
    OTHER = "neither"


@cache
def form_of(operator: Operator, shapes: tuple[Shape, ...]) -> Form:
    """What random residues show the operator to be at these shapes."""
    random = np.random.default_rng(len(shapes))
    x, y = ([random_array(random, _POINTS, s, like=_RESIDUES_ONLY) for s in shapes] for _ in range(2))
    both = [_DOMAIN.add(a, b) for a, b in zip(x, y, strict=True)]
    try:
        if _adds_up(evaluated(operator, both), evaluated(operator, x), evaluated(operator, y)):
            return Form.LINEAR
        if len(shapes) == 2 and all(
            _adds_up(
                evaluated(operator, [both[k] if k == place else x[k] for k in range(2)]),
                evaluated(operator, x),
                evaluated(operator, [y[k] if k == place else x[k] for k in range(2)]),
            )
            for place in range(2)
        ):
            return Form.BILINEAR
    except UnsupportedError:
        pass
    return Form.OTHER


def evaluated(operator: Operator, arguments: Sequence[SmallArray]) -> SmallArray:
    """The one result of an operator."""
    (result,) = operator.evaluate(_DOMAIN, *arguments)
    return result


def linear_forms(operator: Operator, shapes: Sequence[Shape], weights: Wide) -> tuple[Wide, ...]:
    """For each argument of a LINEAR operator, [vectors, elements]: ``weights`` of what it adds."""
    found: list[Wide] = []
    for place, shape in enumerate(shapes):
        zeros = [_zeros(1, s) for s in shapes]

        def on(units: SmallArray, place: int = place, zeros: list[SmallArray] = zeros) -> SmallArray:
            return evaluated(operator, [units if k == place else zero for k, zero in enumerate(zeros)])

        found.append(_on_units(on, shape, weights))
    return tuple(found)


def partner_forms(
    operator: Operator, shapes: Sequence[Shape], place: int, partners: SmallArray, weights: Wide
) -> Wide:
    """[vectors, elements, n]: ``weights`` of the results of a BILINEAR operator, as forms of its argument at
    ``place``, for each of n values of the other one."""
    count = len(partners.residue) // VECTORS
    elements = int(np.prod(shapes[1 - place], dtype=np.int64))
    values = partners.residue.reshape(VECTORS, count, elements)
    if count > elements:
        units = _units(np.arange(elements), shapes[1 - place])
        matrices = _against_units(operator, shapes[place], place, units, weights)
        return np.stack(
            [exact_matmul(m, v.T.astype(np.float64)) for m, v in zip(matrices, values, strict=True)]
        )
    found = [
        _against_units(
            operator, shapes[place], place, SmallArray(v.reshape(-1, *shapes[1 - place])), weights[m : m + 1]
        )[0]
        for m, v in enumerate(values)
    ]
    return np.stack(found)


def _against_units(operator: Operator, shape: Shape, place: int, others: SmallArray, weights: Wide) -> Wide:
    """[vectors, elements, n] forms of the results for unit tensors at ``place`` and n others."""
    elements = int(np.prod(shape, dtype=np.int64))
    count = len(others.residue)
    found = np.empty((len(weights), elements, count))
    step = max(1, CHUNK_ELEMENTS // (weights.shape[1] * elements))
    for start in range(0, count, step):
        block = others.residue[start : start + step]
        rows = max(1, min(elements, CHUNK_ELEMENTS // (weights.shape[1] * len(block))))
        for first in range(0, elements, rows):
            chosen = np.arange(first, min(first + rows, elements))
            units = SmallArray(np.repeat(_units(chosen, shape).residue, len(block), axis=0))
            partners = SmallArray(np.tile(block, (len(chosen), *(1,) * (block.ndim - 1))))
            pair = (units, partners) if place == 0 else (partners, units)
            forms = _forms(evaluated(operator, pair), weights)
            found[:, chosen, start : start + len(block)] = forms.reshape(
                len(weights), len(chosen), len(block)
            )
    return found


def _on_units(function: Callable[[SmallArray], SmallArray], shape: Shape, weights: Wide) -> Wide:
    elements = int(np.prod(shape, dtype=np.int64))
    step = max(1, CHUNK_ELEMENTS // max(weights.shape[1], elements))
    return np.concatenate(
        [
            _forms(function(_units(np.arange(start, min(start + step, elements)), shape)), weights)
            for start in range(0, elements, step)
        ],
        axis=1,
    )


def _forms(values: SmallArray, weights: Wide) -> Wide:
    """[vectors, n] every form of every one of n values."""
    flat = SmallArray(values.residue.reshape(1, len(values.residue), -1))
    return np.concatenate([projected(flat, row[np.newaxis]) for row in weights])


def _adds_up(whole: SmallArray, first: SmallArray, second: SmallArray) -> bool:
    return bool((whole.residue == _DOMAIN.add(first, second).residue).all())


def _units(places: np.ndarray[tuple[int], np.dtype[np.intp]], shape: Shape) -> SmallArray:
    elements = int(np.prod(shape, dtype=np.int64))
    units = np.zeros((len(places), elements), np.float32)
    units[np.arange(len(places)), places] = 1
    return SmallArray(units.reshape(len(places), *shape))


def _zeros(count: int, shape: Shape) -> SmallArray:
    return SmallArray(np.zeros((count, *shape), np.float32))
