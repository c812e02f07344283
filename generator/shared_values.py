"""Values of subterms shared between equations: what was evaluated once for the same arrays is not again."""

from __future__ import annotations

import zlib
from typing import TypeAlias

import numpy as np

from superopt.domains import FieldArray, PrimeFieldDomain
from superopt.ops import Operator

ValueId: TypeAlias = int

TEST_VECTORS = 4
_MOST_ELEMENTS = 1 << 20


class SharedValues:
    """Arrays over the prime field by number; equal applications have one number.

    The array of a variable depends on its name, its shape and the sample alone, so that equations which
    have a subterm in common at equal shapes share its value. All is forgotten when it gets too much.
    """

    def __init__(self) -> None:
        self._domain = PrimeFieldDomain()
        self._arrays: list[FieldArray] = []
        self._leaves: dict[tuple[str, tuple[int, ...], int], ValueId] = {}
        self._applications: dict[tuple[Operator, tuple[ValueId, ...]], ValueId] = {}
        self._elements = 0

    def forget_much(self) -> None:
        """Makes room; numbers given before mean nothing any more."""
        if self._elements > _MOST_ELEMENTS:
            self._arrays.clear()
            self._leaves.clear()
            self._applications.clear()
            self._elements = 0

    def variable(self, name: str, shape: tuple[int, ...], sample: int) -> ValueId:
        """Random arrays for a variable."""
        key = (name, shape, sample)
        known = self._leaves.get(key)
        if known is None:
            random = np.random.default_rng(zlib.crc32(repr(key).encode()))
            known = self._leaves[key] = self._added(self._domain.random(random, TEST_VECTORS, shape))
        return known

    def applied(self, operator: Operator, inputs: tuple[ValueId, ...]) -> ValueId:
        """The value of an operator; raises IllTypedError where it cannot be applied."""
        key = (operator, inputs)
        known = self._applications.get(key)
        if known is None:
            (value,) = operator.evaluate(self._domain, *[self._arrays[i] for i in inputs])
            known = self._applications[key] = self._added(value)
        return known

    def equal(self, left: ValueId, right: ValueId) -> bool:
        """Whether the residues are equal."""
        if left == right:
            return True
        a, b = self._arrays[left].residue, self._arrays[right].residue
        return a.shape[1:] == b.shape[1:] and bool((a == b).all())

    def _added(self, value: FieldArray) -> ValueId:
        self._arrays.append(value)
        self._elements += value.residue.size
        return len(self._arrays) - 1
