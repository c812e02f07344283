"""Term bank: recorded terms as nodes of an e-graph whose classes are terms of equal value.

A class is identified by the row of its representative, on which terms of higher levels are built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.rows import TermRows
from superopt.generator.enumerate.structures import Hashes, Rows, hashed_rows
from superopt.generator.presets.preset import Instance
from superopt.ir.terms import Application, Term

UNREACHED = 64
"""Unreachable: no kept rule leads from the class's representative to the term."""

Uses: TypeAlias = "npt.NDArray[np.int16]"
"""Bits for what derivations use: fixed attributes of rules, by name; conditions."""

OPEN = 0
CLOSED = (1 << 9) - 1
UNDER_CONDITIONS = 1 << 9
CONDITIONAL = CLOSED | UNDER_CONDITIONS


class Bank:
    """[n] terms with their classes (rows of representatives), and how far each is from its representative."""

    def __init__(self, rows: TermRows) -> None:
        self.rows = rows
        self.classes = classes = rows.classes
        count = len(classes)
        self.operators: Indices = _distinct(rows.instances)[rows.numbers]
        """[n] the operator of each term, of those that differ in roles alone the first one; -1: a leaf."""
        self.same: Indices = np.arange(count, dtype=np.int32)
        """[n] the first row equal to this term up to the order of commuting arguments."""
        self.steps = np.full(count, UNREACHED, np.int8)
        """[n] rewritings that lead from the representative of the class to the term."""
        self.uses: Uses = np.zeros(count, np.int16)
        """[n] what those use."""
        self.steps[classes] = 0
        self.sizes = self._tree_sizes()
        self._commutative: set[int] = set()
        self._applied = np.flatnonzero(rows.numbers >= 0).astype(np.int32)
        order = np.argsort(classes, kind="stable").astype(np.int32)
        self._members = order
        self._starts = np.searchsorted(classes[order], np.arange(count + 1))
        self._index()
        self.look()

    def commute(self, numbers: set[int]) -> None:
        """Declares these operators commutative."""
        if numbers <= self._commutative:
            return
        self._commutative |= numbers
        self._index()
        self.same[self._applied] = self.find(
            self.operators[self._applied], self.rows.arguments[self._applied]
        )
        alike = self.same[self.classes]
        self.steps[self.same == alike] = 0

    def find(self, numbers: Indices, arguments: Indices) -> Indices:
        """[n] the row of each application to classes, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(numbers), -1, np.int32)
        keys = self._keys_of(numbers, arguments)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._keyed[at], np.int32(-1)).astype(np.int32)

    def class_sizes(self, classes: Indices) -> Rows:
        """[n] the number of terms in each class."""
        return self._starts[classes + 1] - self._starts[classes]

    def members(self, classes: Indices) -> Indices:
        """The applications in these distinct classes, each once."""
        counts = self._starts[classes + 1] - self._starts[classes]
        rows = self._members[ranges(self._starts[classes], counts)]
        return np.unique(self.same[rows[self.operators[rows] >= 0]])

    def look(self) -> None:
        """Restricts ``readings`` to the terms reached so far."""
        rows = self._applied[(self.steps[self._applied] < UNREACHED)]
        rows = np.unique(self.same[rows])
        terms, arguments = self.root_readings(rows)
        keys = self.classes[terms].astype(np.int64) * len(self.rows.instances) + self.operators[terms]
        order = np.argsort(keys, kind="stable")
        self._reading_rows, self._reading_arguments = terms[order], arguments[order]
        first = np.flatnonzero(np.diff(keys[order], prepend=-1))
        self._reading_keys = np.append(keys[order][first], np.iinfo(np.int64).max)
        self._reading_starts = np.append(first, len(keys))

    def root_readings(self, rows: Indices) -> tuple[Indices, Indices]:
        """(terms, arguments) of these terms, twice where arguments commute."""
        swapped = self._swappable(rows)
        return (
            np.concatenate((rows, rows[swapped])),
            np.concatenate((self.rows.arguments[rows], _swapped(self.rows.arguments[rows[swapped]]))),
        )

    def readings(self, classes: Indices, operators: Rows) -> tuple[Rows, Rows]:
        """[n] where the readings of each class with this operator begin, and how many there are: terms of
        the class reached so far, twice where arguments commute."""
        keys = classes.astype(np.int64) * len(self.rows.instances) + operators
        at = np.searchsorted(self._reading_keys, keys)
        known = self._reading_keys[at] == keys
        first = self._reading_starts[at]
        return first, np.where(known, self._reading_starts[at + known] - first, 0)

    def read(self, places: Rows) -> tuple[Indices, Indices]:
        """(terms, arguments) of readings."""
        return self._reading_rows[places], self._reading_arguments[places]

    def leaf(self, term: Term) -> int | None:
        """The row of an input or constant; None if the bank lacks it."""
        if term not in self.rows.leaves:
            return None
        index = self.rows.leaves.index(term)
        found = np.flatnonzero((self.rows.numbers < 0) & (self.rows.arguments[:, 0] == index))
        return int(found[0]) if len(found) else None

    @property
    def vocabulary(self) -> tuple[tuple[int, Instance], ...]:
        """The operators with their numbers."""
        chosen = np.unique(_distinct(self.rows.instances)[:-1])
        return tuple((number, self.rows.instances[number]) for number in map(int, chosen))

    @property
    def constants(self) -> tuple[Application, ...]:
        """The leaves that are constants."""
        return tuple(term for term in self.rows.leaves if isinstance(term, Application))

    def _swappable(self, rows: Indices) -> npt.NDArray[np.bool_]:
        commuting = np.isin(self.operators[rows], np.array(sorted(self._commutative), np.int32))
        arguments = self.rows.arguments[rows]
        return commuting & (arguments[:, 0] != arguments[:, 1])

    def _index(self) -> None:
        keys = self._keys_of(self.operators[self._applied], self.rows.arguments[self._applied])
        order = np.argsort(keys, kind="stable")
        self._keys: Hashes = keys[order]
        self._keyed: Indices = self._applied[order]

    def _keys_of(self, numbers: Indices, arguments: Indices) -> Hashes:
        commuting = np.isin(numbers, np.array(sorted(self._commutative), np.int32))
        if commuting.any():
            arguments = arguments.copy()
            arguments[commuting, :2] = np.sort(arguments[commuting, :2], axis=1)
        return hashed_rows(numbers, arguments)

    def _tree_sizes(self) -> Indices:
        """[n] the operators of each term, constants among them, shared work counted each time."""
        applied = self.rows.numbers >= 0
        constant = np.array([isinstance(leaf, Application) for leaf in self.rows.leaves])
        own = constant[np.where(applied, 0, self.rows.arguments[:, 0])] & ~applied
        sizes = own.astype(np.int32)
        arguments = np.where(applied[:, None], self.rows.arguments, -1)
        while True:
            inner = np.where(arguments >= 0, sizes[np.maximum(arguments, 0)], 0).sum(axis=1)
            found = np.where(applied, inner + 1, own).astype(np.int32)
            if (found == sizes).all():
                return sizes
            sizes = found


def _distinct(instances: Sequence[Instance]) -> Indices:
    """[instances + 1] the first one of the same operator and attributes; -1 at the end."""
    first: dict[tuple[object, ...], int] = {}
    numbers = [first.setdefault((i.name, i.attributes), number) for number, i in enumerate(instances)]
    return np.array([*numbers, -1], np.int32)


def ranges(starts: Rows, counts: Rows) -> Rows:
    """The concatenated indices of ranges."""
    total = np.cumsum(counts)
    return np.repeat(starts - (total - counts), counts) + np.arange(int(total[-1]) if len(total) else 0)


def _swapped(arguments: Indices) -> Indices:
    turned = arguments.copy()
    turned[:, :2] = turned[:, 1::-1]
    return turned
