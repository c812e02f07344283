"""Cache of subterm values shared between equations."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from superopt.domains.small_field import SmallArray, SmallFieldDomain, random_array
from superopt.errors import UnsupportedError
from superopt.generator.generalise.shared_types import OperatorId
from superopt.ops import Operator

ValueId: TypeAlias = int

TEST_VECTORS = 4
_MOST_ELEMENTS = 1 << 22

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
        self._needed: dict[OperatorId, int] = {}
        self._leaves: dict[tuple[str, tuple[int, ...], int, int], ValueId] = {}
        self._applications: dict[tuple[OperatorId, tuple[ValueId, ...]], ValueId] = {}
        self._elements = 0

    def forget_much(self) -> None:
        """Clears the cache where it is large; earlier numbers become invalid."""
        if self._elements > _MOST_ELEMENTS:
            self._arrays.clear()
            self._leaves.clear()
            self._applications.clear()
            self._elements = 0

    def forget_operators(self) -> None:
        """Clears what is known about operators by number, as other ones will have these numbers."""
        self._needed.clear()
        self._applications.clear()

    def carried(self, operators: Iterable[OperatorId]) -> int:
        """The index of the components that variables need for these operators."""
        return max((self._needed.get(operator, 0) for operator in operators), default=0)

    def need(self, operator: OperatorId, carried: int) -> None:
        """Records that an operator needs the components of this index."""
        self._needed[operator] = carried

    def variable(self, name: str, shape: tuple[int, ...], sample: int, carried: int) -> ValueId:
        """Random arrays for a variable."""
        key = (name, shape, sample, carried)
        known = self._leaves.get(key)
        if known is None:
            random = np.random.default_rng(zlib.crc32(repr(key[:3]).encode()))
            made = random_array(random, TEST_VECTORS, shape, like=_CARRIED[carried])
            known = self._leaves[key] = self._added(made)
        return known

    def applied(
        self, number: OperatorId, operator: Operator, inputs: tuple[ValueId, ...], carried: int
    ) -> ValueId | None:
        """The value of an operator, which has this number; None if it needs components that are not carried
        (to be recorded by ``need``).

        Raises IllTypedError where it cannot be applied.
        """
        key = (number, inputs)
        known = self._applications.get(key)
        if known is None:
            try:
                (value,) = operator.evaluate(self._domain, *[self._arrays[i] for i in inputs])
            except UnsupportedError:
                if carried + 1 == len(_CARRIED):
                    raise
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
