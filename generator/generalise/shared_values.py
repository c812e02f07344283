"""Cache of subterm values shared between equations."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from superopt.domains.small_field import SmallArray, SmallFieldDomain, random_array
from superopt.errors import UnsupportedError
from superopt.ops import Operator
from superopt.ops.bound import BoundOperator

ValueId: TypeAlias = int

TEST_VECTORS = 4
_MOST_ELEMENTS = 1 << 20

_FULL = SmallFieldDomain().rational(0)
_CARRIED = (SmallArray(_FULL.residue), SmallArray(_FULL.residue, _FULL.shadow), _FULL)
"""Components of arrays, fewest first: residues; with an order; with exponents."""


class SharedValues:
    """Arrays over the prime field by number; equal applications have one number.

    The array of a variable depends on its name, its shape and the sample alone, so that equations which have
    a common subterm at equal shapes share its value. The cache is cleared when it gets too large. Arrays
    carry the components needed by the operators seen so far.
    """

    def __init__(self) -> None:
        self._domain = SmallFieldDomain()
        self._arrays: list[SmallArray] = []
        self._needed: dict[Operator, int] = {}
        self._leaves: dict[tuple[str, tuple[int, ...], int, int], ValueId] = {}
        self._applications: dict[tuple[Operator, tuple[ValueId, ...]], ValueId] = {}
        self._elements = 0

    def forget_much(self) -> None:
        """Clears the cache; earlier numbers become invalid."""
        if self._elements > _MOST_ELEMENTS:
            self._arrays.clear()
            self._leaves.clear()
            self._applications.clear()
            self._elements = 0

    def carried(self, operators: Iterable[Operator]) -> int:
        """The index of the components that variables need for these operators."""
        return max((self._needed.get(operator, 0) for operator in operators), default=0)

    def variable(self, name: str, shape: tuple[int, ...], sample: int, carried: int) -> ValueId:
        """Random arrays for a variable."""
        key = (name, shape, sample, carried)
        known = self._leaves.get(key)
        if known is None:
            random = np.random.default_rng(zlib.crc32(repr(key[:3]).encode()))
            made = random_array(random, TEST_VECTORS, shape, like=_CARRIED[carried])
            known = self._leaves[key] = self._added(made)
        return known

    def applied(self, operator: Operator, inputs: tuple[ValueId, ...], carried: int) -> ValueId | None:
        """The value of an operator; None if it needs components that are not carried (recorded for later
        calls).

        Raises IllTypedError where it cannot be applied.
        """
        key = (operator, inputs)
        known = self._applications.get(key)
        if known is None:
            try:
                (value,) = operator.evaluate(self._domain, *[self._arrays[i] for i in inputs])
            except UnsupportedError:
                if carried + 1 == len(_CARRIED):
                    raise
                own = operator.operator if isinstance(operator, BoundOperator) else operator
                self._needed[own] = carried + 1
                return None
            known = self._applications[key] = self._added(value)
        return known

    def equal(self, left: ValueId, right: ValueId) -> bool:
        """Whether the residues are equal."""
        if left == right:
            return True
        a, b = self._arrays[left].residue, self._arrays[right].residue
        return a.shape[1:] == b.shape[1:] and bool((a == b).all())

    def _added(self, value: SmallArray) -> ValueId:
        self._arrays.append(value)
        self._elements += value.residue.size
        return len(self._arrays) - 1
