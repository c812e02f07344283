"""State of pairs during pruning: which are true, which follow from rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.rows import TermBuilder
from superopt.generator.enumerate.structures import Rows
from superopt.generator.pair.pairing import ALWAYS, Pairing
from superopt.generator.prune.bank import CLOSED, OPEN, Uses
from superopt.generator.prune.closure import STEPS, Closure
from superopt.ir.terms import Term
from superopt.rewriting.derivability import SMALL

UNKNOWN, TRUE, OTHER = 0, 1, 2
"""The known status of a pair; OTHER: false, or true only under conditions."""


@dataclass
class PairSource:
    """A pairing being pruned, with the status of each pair."""

    pairing: Pairing
    builder: TermBuilder
    closure: Closure
    state: np.ndarray[tuple[int], np.dtype[np.int8]] = field(init=False)
    starts: np.ndarray[tuple[int], np.dtype[np.intp]] = field(init=False)

    def __post_init__(self) -> None:
        self.state = np.zeros(len(self.pairing), np.int8)
        self.starts = np.searchsorted(self.pairing.reductions.instances, np.arange(len(self.pairing) + 1))

    def begin(self, numbers: Rows) -> None:
        """Prepares queries about these pairs."""
        self.closure.begin(self._classes(numbers))

    def weight(self, numbers: Rows) -> int:
        """The number of terms in the classes of these pairs."""
        return int(self.closure.bank.class_sizes(self._classes(numbers)).sum())

    def portions(self, numbers: Rows, most: int) -> list[Rows]:
        """The pairs in groups, those of one class together, whose classes have about ``most`` terms."""
        first = self.pairing.terms.classes[self.pairing.left[numbers, 0]]
        order = np.argsort(first, kind="stable")
        fresh = np.diff(first[order], prepend=-1) != 0
        sizes = np.where(fresh, self.closure.bank.class_sizes(first[order]), 0)
        portion = np.cumsum(sizes) // most
        cuts = np.flatnonzero(np.diff(portion)) + 1
        return [np.sort(rows) for rows in np.split(numbers[order], cuts)]

    def _classes(self, numbers: Rows) -> Indices:
        sides = [self.pairing.left[numbers]]
        if self._is_merge:
            sides.append(self._wholes(numbers)[:, None])
        return np.unique(np.concatenate([self.pairing.terms.classes[side.reshape(-1)] for side in sides]))

    def follows(self, numbers: Rows, uses: int) -> npt.NDArray[np.bool_]:
        """[n] which pairs follow from rules of at most such ``uses``."""
        return self.uses(numbers, uses) >= 0

    def uses(self, numbers: Rows, uses: int) -> Uses:
        """[n] the ``uses`` of rules from which each pair follows, at most ``uses``; -1 without any."""
        left, right = self.pairing.left[numbers], self.pairing.right[numbers]
        closure = self.closure
        if self._is_merge:
            cuts = closure.bank.operators[right]
            follow = closure.merged(self._wholes(numbers), left, cuts, uses)
            return np.where(follow, uses, -1).astype(np.int16)
        left, right = left[:, 0], right[:, 0]
        sizes = closure.bank.sizes
        small = np.minimum(sizes[left], sizes[right]) <= SMALL
        small &= ~closure.shrinks(left) & ~closure.shrinks(right)
        steps, used = closure.ways(left, right, uses)
        return np.where(steps <= np.where(small, 1, STEPS), used, -1).astype(np.int16)

    def instances(self, numbers: Rows) -> npt.NDArray[np.bool_]:
        """[n] whether the pairs of which each is an instance are known to be true."""
        return np.array([self._is_instance(number) for number in numbers.tolist()], bool)

    def sides(self, number: int) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """The terms of a pair."""
        rows = (self.pairing.left[number].tolist(), self.pairing.right[number].tolist())
        left, right = (tuple([self.builder.term(row) for row in side]) for side in rows)
        return left, right

    def follows_at_once(self, numbers: Rows) -> npt.NDArray[np.bool_]:
        """[n] which pairs follow from rules with all attributes open, or from one rule."""
        if self._is_merge:
            return self.follows(numbers, CLOSED)
        left, right = self.pairing.left[numbers, 0], self.pairing.right[numbers, 0]
        return self.follows(numbers, OPEN) | (self.closure.steps(left, right, CLOSED) == 1)

    def touched(self, number: int) -> bool:
        """Whether the last rules that were added may say more about a pair."""
        return self._is_merge or bool(self.closure.touched(self.pairing.left[number]).any())

    @property
    def _is_merge(self) -> bool:
        return self.pairing.left.shape[1] > 1

    def _wholes(self, numbers: Rows) -> Indices:
        return self.pairing.terms.arguments[self.pairing.right[numbers, 0], 0]

    def _is_instance(self, number: int) -> bool:
        reductions = self.pairing.reductions
        return any(
            self._is_true(int(reductions.first[at])) and self._is_true(int(reductions.second[at]))
            for at in range(int(self.starts[number]), int(self.starts[number + 1]))
        )

    def _is_true(self, number: int) -> bool:
        return number == ALWAYS or bool(self.state[number] == TRUE)


Place: TypeAlias = "tuple[PairSource, int]"
"""A pair, by its number in a source."""

Portion: TypeAlias = "list[tuple[PairSource, Rows]]"
"""Some pairs of each source."""


def by_size(pairings: Sequence[Pairing]) -> Iterator[list[list[Rows]]]:
    """For each size, smallest first, the pairs of each pairing in batches: those of most variables first."""
    orders = [pairing.orders for pairing in pairings]
    for size in sorted({int(size) for order in orders for size in np.unique(order[:, 0])}):
        here = [np.flatnonzero(order[:, 0] == size) for order in orders]
        used = sorted({int(n) for order, rows in zip(orders, here, strict=True) for n in order[rows, 1]})
        yield [[rows[order[rows, 1] == n] for n in used] for order, rows in zip(orders, here, strict=True)]


def in_portions(sources: Sequence[PairSource], batch: Sequence[Rows], most: int) -> Iterator[Portion]:
    """The pairs of each source in portions whose classes have about ``most`` terms."""
    portions = [source.portions(rows, most) for source, rows in zip(sources, batch, strict=True)]
    for number in range(max(map(len, portions))):
        yield [
            (source, own[number]) for source, own in zip(sources, portions, strict=True) if number < len(own)
        ]


def by_source(
    places: Iterable[tuple[str, Sequence[Place]]],
) -> Iterator[tuple[PairSource, list[tuple[str, int]]]]:
    """(source, texts with numbers of pairs in it)."""
    found: dict[int, tuple[PairSource, list[tuple[str, int]]]] = {}
    for text, known in places:
        for source, number in known:
            found.setdefault(id(source), (source, []))[1].append((text, number))
    yield from found.values()
