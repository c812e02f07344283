"""Fingerprints of linear and bilinear operators by matrix products.

Whether an operator is linear in all its arguments together (add, concat, transpose, a split), or linear in
each of two (matmul, mul, conv), is not listed but tested on random residues: a map that is additive at random
points of a prime field is linear except with negligible probability. The key of f(a, b) is then a . Q_b,
where Q_b comes from evaluating f on unit tensors; the results themselves are never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import Device, namespace, reshaped
from superopt.domains.small_field import (
    Residues,
    SmallArray,
    SmallFieldDomain,
    Wide,
    exact_matmul,
    random_array,
    reduced_in_place,
)
from superopt.errors import UnsupportedError
from superopt.generator.enumerate.fingerprints import projected
from superopt.ops import Operator

Shape: TypeAlias = "tuple[int, ...]"
Places: TypeAlias = "npt.NDArray[np.int32]"

CHUNK_ELEMENTS = 1 << 18
"""Number of result elements per call."""

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
    """The form of an operator at these shapes, tested on random residues."""
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


def evaluated(
    operator: Operator, arguments: Sequence[SmallArray], domain: SmallFieldDomain = _DOMAIN
) -> SmallArray:
    """The one result of an operator, on the device of the domain: the host if none is given."""
    (result,) = operator.evaluate(domain, *arguments)
    return result


def linear_forms(operator: Operator, shapes: Sequence[Shape], weights: Wide) -> tuple[Wide, ...]:
    """For each argument of a LINEAR operator, [vectors, elements]: ``weights`` of its contribution."""
    found: list[Wide] = []
    for place, shape in enumerate(shapes):
        zeros = [_zeros(1, s) for s in shapes]

        def on(units: SmallArray, place: int = place, zeros: list[SmallArray] = zeros) -> SmallArray:
            return evaluated(operator, [units if k == place else zero for k, zero in enumerate(zeros)])

        found.append(_on_units(on, shape, weights))
    return tuple(found)


def partner_forms(
    operator: Operator,
    shapes: tuple[Shape, ...],
    place: int,
    partners: SmallArray,
    weights: Wide,
    device: Device,
) -> Wide:
    """[vectors, elements, n]: ``weights`` of the results of a BILINEAR operator, as forms of its argument at
    ``place``, for each of n values of the other one; these and the result are on the device."""
    matrices = bilinear_forms(operator, shapes, weights)
    matrices = device.put(matrices if place == 0 else matrices.transpose(0, 2, 1))
    xp = namespace(matrices)
    values = reshaped(partners.residue, (len(weights), -1, matrices.shape[2]))
    return xp.stack(
        [
            exact_matmul(
                matrices[vector, ...],
                xp.astype(xp.permute_dims(values[vector, ...], (1, 0)), xp.float64),
            )
            for vector in range(len(weights))
        ]
    )


def bilinear_forms(operator: Operator, shapes: tuple[Shape, ...], weights: Wide) -> Wide:
    """[vectors, elements, elements]: ``weights`` of the results of a BILINEAR operator, for unit tensors."""
    sizes = [_elements(shape) for shape in shapes]
    products = products_of(operator, shapes)
    if products is None:
        return _every_unit(operator, shapes, weights)
    cells = products.first.astype(np.int64) * sizes[1] + products.second
    found = np.zeros((len(weights), sizes[0] * sizes[1]))
    for row, sums in zip(weights, found, strict=True):
        np.add.at(sums, cells, reduced_in_place(products.coefficients * row[products.results]))
    return reduced_in_place(found).reshape(len(weights), *sizes)


@dataclass(frozen=True, slots=True)
class Products:
    """A bilinear map: result ``results`` adds ``coefficients`` times element ``first`` times ``second``."""

    first: Places
    second: Places
    results: Places
    coefficients: Residues


@cache
def products_of(operator: Operator, shapes: tuple[Shape, ...]) -> Products | None:
    """A BILINEAR operator as a sum of products, if no result uses an element of one argument twice; else
    None.

    Each unit tensor of the smaller argument is combined with ones (gives coefficients), a ramp (gives
    partners) and random residues (must confirm both).
    """
    sizes = [_elements(shape) for shape in shapes]
    place = 0 if sizes[0] <= sizes[1] else 1
    size, other = sizes[place], sizes[1 - place]
    random = random_array(np.random.default_rng(size), 1, (other,), like=_RESIDUES_ONLY).residue[0]
    probes = np.stack((np.ones(other, np.float32), np.arange(1, other + 1, dtype=np.float32), random))
    answers: list[npt.NDArray[np.float32]] = []
    step = max(1, CHUNK_ELEMENTS // (3 * max(other, size)))
    for start in range(0, size, step):
        chosen = np.arange(start, min(start + step, size))
        units = SmallArray(np.repeat(_units(chosen, shapes[place]).residue, 3, axis=0))
        others = SmallArray(np.tile(probes, (len(chosen), 1)).reshape(-1, *shapes[1 - place]))
        pair = (units, others) if place == 0 else (others, units)
        answers.append(evaluated(operator, pair).residue.reshape(len(chosen), 3, -1))
    ones, ramps, confirmed = np.concatenate(answers).transpose(1, 0, 2)
    mine, results = np.nonzero(ones)
    coefficients = ones[mine, results]
    steps = _DOMAIN.divide(SmallArray(ramps[mine, results]), SmallArray(coefficients)).residue
    theirs = steps.astype(np.int64) - 1
    if len(theirs) and not 0 <= theirs.min() <= theirs.max() < other:
        return None
    expected = np.zeros_like(confirmed)
    expected[mine, results] = _DOMAIN.multiply(SmallArray(coefficients), SmallArray(random[theirs])).residue
    if not (expected == confirmed).all():
        return None
    first, second = (mine, theirs) if place == 0 else (theirs, mine)
    return Products(first.astype(np.int32), second.astype(np.int32), results.astype(np.int32), coefficients)


def _every_unit(operator: Operator, shapes: tuple[Shape, ...], weights: Wide) -> Wide:
    """``bilinear_forms`` from all pairs of unit tensors."""
    sizes = [_elements(shape) for shape in shapes]
    found = np.empty((len(weights), sizes[0] * sizes[1]))
    step = max(1, CHUNK_ELEMENTS // max(weights.shape[1], *sizes))
    for start in range(0, sizes[0] * sizes[1], step):
        cells = np.arange(start, min(start + step, sizes[0] * sizes[1]))
        pair = (_units(cells // sizes[1], shapes[0]), _units(cells % sizes[1], shapes[1]))
        found[:, cells] = _forms(evaluated(operator, pair), weights)
    return found.reshape(len(weights), *sizes)


def _on_units(function: Callable[[SmallArray], SmallArray], shape: Shape, weights: Wide) -> Wide:
    elements = _elements(shape)
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


def _units(places: npt.NDArray[np.intp], shape: Shape) -> SmallArray:
    units = np.zeros((len(places), _elements(shape)), np.float32)
    units[np.arange(len(places)), places] = 1
    return SmallArray(units.reshape(len(places), *shape))


def _elements(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _zeros(count: int, shape: Shape) -> SmallArray:
    return SmallArray(np.zeros((count, *shape), np.float32))
