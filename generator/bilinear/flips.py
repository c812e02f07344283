"""Search for algorithms with fewer multiplications by random walks on a flip graph.

A state is an exact way to write the tensor of a map as a sum of products a * b * c of three vectors. Two
products with an equal vector can be replaced by two others (a flip); where a vector becomes 0, a
multiplication is saved. The walk starts from the definition of the map. (Kauers and Moosbauer 2022, Flip
graphs for matrix multiplication; the step that adds a product is from Arai, Ichikawa and Hukushima 2024,
Adaptive flip graph algorithm for matrix multiplication.) All coefficients are -1, 0 and 1.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from superopt.generator.bilinear.algorithms import BilinearAlgorithm
from superopt.generator.bilinear.maps import BilinearMap

Vector: TypeAlias = tuple[int, int]
"""Entries 1 and entries -1, as the bits of two numbers."""

Product: TypeAlias = tuple[Vector, Vector, Vector]

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the flips so far and the fewest multiplications."""

STAGNATION = 20_000
"""Flips without improvement after which a product is added, to leave a part of the graph without way on."""

_ZERO: Vector = (0, 0)
_MOST_ADDED = 2
_LEAST_PATIENCE = 1_000_000
_PATIENCE = 3
"""A walk starts again after so many times the flips that its last improvement took."""

_REPORTED = 100_000
"""Flips between reports of progress."""


@dataclass(frozen=True)
class Found:
    """The algorithm with the fewest multiplications that was found, after how many flips, and the seed."""

    algorithm: BilinearAlgorithm
    flips: int
    seed: int


def reduced(
    wanted: BilinearMap,
    *,
    target: int = 0,
    flips: int = 20_000_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Found:
    """The algorithm with the fewest multiplications that random walks of so many flips in all find; the
    search ends early at ``target`` multiplications. It was checked to compute the map. The same for the same
    arguments.

    Raises ValueError for a map with other coefficients than -1, 0 and 1.
    """
    generator = random.Random(seed)
    best: list[Product] = definition(wanted)
    taken = last = 0
    while taken < flips and len(best) > target:
        walk = _Walk(definition(wanted), generator)
        improved = 0
        while taken < flips and walk.flips < max(_LEAST_PATIENCE, (1 + _PATIENCE) * improved):
            if walk.step():
                improved = walk.flips
                if len(walk.products) < len(best):
                    best, last = list(walk.products.values()), taken
                    if len(best) <= target:
                        break
            taken += 1
            if progress is not None and taken % _REPORTED == 0:
                progress(taken, len(best))
    algorithm = _algorithm(best, wanted)
    if not algorithm.computes(wanted):
        raise AssertionError(f"flips led to an algorithm that does not compute {wanted.name}")
    return Found(algorithm, last, seed)


def definition(wanted: BilinearMap) -> list[Product]:
    """One product for each coefficient; raises ValueError for other coefficients than -1, 0 and 1."""
    if np.any(np.abs(wanted.tensor) > 1):
        raise ValueError(f"{wanted.name}: expected coefficients -1, 0 and 1")
    return [
        (
            (1 << left, 0),
            (1 << right, 0),
            (1 << out, 0) if wanted.tensor[left, right, out] > 0 else (0, 1 << out),
        )
        for left, right, out in np.argwhere(wanted.tensor).tolist()
    ]


class _Walk:
    """A walk: the products by number, and which of them have a vector in common, up to its sign."""

    def __init__(self, products: list[Product], generator: random.Random) -> None:
        self.products: dict[int, Product] = {}
        self.flips = 0
        self._sharing: tuple[dict[Vector, list[int]], ...] = ({}, {}, {})
        self._generator = generator
        self._next = 0
        self._numbers: list[int] = []
        for product in products:
            self._put(product)
        self._least = len(self.products)
        self._improved = 0

    def step(self) -> bool:
        """Tries a random flip; whether the number of products is less than ever."""
        self.flips += 1
        draw = self._generator.random
        first = self._numbers[int(draw() * len(self._numbers))]
        shared = int(draw() * 3)
        group = self._sharing[shared][_unsigned(self.products[first][shared])]
        if len(group) == 1:
            if self.flips - self._improved > STAGNATION and len(self.products) < self._least + _MOST_ADDED:
                self._improved = self.flips
                self._split()
            return False
        second = group[int(draw() * len(group))]
        if second != first:
            self._flip(first, second, shared, int(draw() * 4))
        if len(self.products) >= self._least:
            return False
        self._least, self._improved = len(self.products), self.flips
        return True

    def _flip(self, first: int, second: int, shared: int, form: int) -> None:
        """a*b*c + a*d*e = a*(b + d)*c + a*d*(e - c), where the coefficients allow it; there are four forms,
        which of the other vectors is ``b`` and whether ``d*e`` is read as ``-d*-e``."""
        summed, other = (shared + 1 + form // 2) % 3, (shared + 2 - form // 2) % 3
        one, two = self.products[first], self.products[second]
        if one[shared] != two[shared]:
            two = _negated(two, shared, other)
        if form % 2:
            two = _negated(two, summed, other)
        total = _sum(one[summed], two[summed])
        difference = _sum(two[other], _negative(one[other]))
        if total is None or difference is None:
            return
        self._take(first)
        self._take(second)
        self._put(_with(one, summed, total))
        self._put(_with(two, other, difference))

    def _split(self) -> None:
        """a*b*c + d*e*f = a*(b + e)*c + a*e*(f - c) + (d - a)*e*f: one product more."""
        if len(self._numbers) < 2:
            return
        first, second = self._generator.sample(self._numbers, 2)
        (a, b, c), (d, e, f) = self.products[first], self.products[second]
        sums = _sum(b, e), _sum(f, _negative(c)), _sum(d, _negative(a))
        total, result, rest = sums
        if total is None or result is None or rest is None or _ZERO in sums:
            return
        self._take(first)
        self._take(second)
        for product in ((a, total, c), (a, e, result), (rest, e, f)):
            self._put(product)

    def _put(self, product: Product) -> None:
        if _ZERO in product:
            return
        number = self._next
        self._next += 1
        self.products[number] = product
        self._numbers.append(number)
        for sharing, vector in zip(self._sharing, product, strict=True):
            sharing.setdefault(_unsigned(vector), []).append(number)

    def _take(self, number: int) -> None:
        product = self.products.pop(number)
        self._numbers.remove(number)
        for sharing, vector in zip(self._sharing, product, strict=True):
            key = _unsigned(vector)
            sharing[key].remove(number)
            if not sharing[key]:
                del sharing[key]


def _sum(left: Vector, right: Vector) -> Vector | None:
    """The sum; None where an entry would be 2 or -2."""
    if left[0] & right[0] or left[1] & right[1]:
        return None
    return (left[0] & ~right[1]) | (right[0] & ~left[1]), (left[1] & ~right[0]) | (right[1] & ~left[0])


def _negative(vector: Vector) -> Vector:
    return vector[1], vector[0]


def _unsigned(vector: Vector) -> Vector:
    """The vector or its negative, whichever has the larger positive part."""
    return vector if vector[0] > vector[1] else (vector[1], vector[0])


def _with(product: Product, place: int, vector: Vector) -> Product:
    changed = list(product)
    changed[place] = vector
    return changed[0], changed[1], changed[2]


def _negated(product: Product, one: int, other: int) -> Product:
    """The same product, with two of its vectors negated."""
    return _with(_with(product, one, _negative(product[one])), other, _negative(product[other]))


def _algorithm(products: list[Product], wanted: BilinearMap) -> BilinearAlgorithm:
    matrices = [
        np.array([[_entry(product[place], index) for index in range(length)] for product in products], object)
        for place, length in enumerate(wanted.tensor.shape)
    ]
    return BilinearAlgorithm(*matrices)


def _entry(vector: Vector, index: int) -> int:
    return (vector[0] >> index & 1) - (vector[1] >> index & 1)


__all__ = ["STAGNATION", "Found", "Progress", "definition", "reduced"]
