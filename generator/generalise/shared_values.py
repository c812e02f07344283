"""Values of subterms shared between equations: what was evaluated once for the same arrays is not again."""

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
"""What arrays may carry, least first: residues, what decides their order, exponents as well."""


class SharedValues:
    """Arrays over the prime field by number; equal applications have one number.

    The array of a variable depends on its name, its shape and the sample alone, so that equations which
    have a subterm in common at equal shapes share its value. All is forgotten when it gets too much. Arrays
    carry what the operators need that are said to be used, as far as is known by then.
    """

    def __init__(self) -> None:
        self._domain = SmallFieldDomain()
        self._arrays: list[SmallArray] = []
        self._needed: dict[str, int] = {}
        self._leaves: dict[tuple[str, tuple[int, ...], int, int], ValueId] = {}
        self._applications: dict[tuple[Operator, tuple[ValueId, ...]], ValueId] = {}
        self._elements = 0

    def forget_much(self) -> None:
        """Makes room; numbers given before mean nothing any more."""
        if self._elements > _MOST_ELEMENTS:
            self._arrays.clear()
            self._leaves.clear()
            self._applications.clear()
            self._elements = 0

    def carried(self, operators: Iterable[Operator]) -> int:
        """The number of what variables have to carry for these operators."""
        return max((self._needed.get(operator.name, 0) for operator in operators), default=0)

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
        """The value of an operator; None where it needs what is not carried, which is known from then on.

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
                self._needed[own.name] = carried + 1
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
