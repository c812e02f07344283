"""Derivability of many pairs at once, as short paths in a graph of rewrites by kept rules.

The terms of an enumeration are nodes of an e-graph with known classes. Applying a rule adds edges between
terms of one class; terms connected by few enough edges are derivable from each other. An argument stands for
any reached term of its class, at the cost of the steps needed.

``superopt.rewriting.derivability`` asks for a derivation of one equation; here the question is which of
millions of rows are connected, as array operations without a graph or a typing of any, since the enumeration
has typed every row and its values show which are equal. A term that is not enumerated is not reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.structures import Rows
from superopt.generator.prune.bank import CLOSED, OPEN, Bank, Uses, ranges
from superopt.generator.prune.matching import Found, Matcher
from superopt.generator.prune.patterns import Pattern, Rule, Vocabulary

STEPS = 5
"""Maximum number of rewrites, anywhere in a term, of a derivation."""

MERGE_STEPS = 5
"""Maximum number of rewrites for a merge, including the known merge: of both outputs and the whole."""

FAR = 100
"""Distance of underivable pairs."""

EDGES_JOINED = 1 << 21
"""Edges, equal ones among them, that are found before equal ones are dropped."""

REACHED_AT_ONCE = 1 << 18
"""Terms of the classes whose derivations are looked at together: bounds memory."""


@dataclass(frozen=True, slots=True)
class _Edges:
    """Rewritings in both directions, sorted by their start."""

    starts: Indices
    ends: Indices
    steps: npt.NDArray[np.int8]
    uses: Uses

    @classmethod
    def none(cls) -> _Edges:
        empty = np.empty(0, np.int32)
        return cls(empty, empty, np.empty(0, np.int8), np.empty(0, np.int16))

    def take(self, rows: Rows) -> _Edges:
        """Some of them."""
        return _Edges(self.starts[rows], self.ends[rows], self.steps[rows], self.uses[rows])

    def joined(self, others: Sequence[_Edges]) -> _Edges:
        """All of them, of equal ones the shortest."""
        parts = (self, *others)
        starts = np.concatenate([p.starts for p in parts])
        ends = np.concatenate([p.ends for p in parts])
        steps = np.concatenate([p.steps for p in parts])
        uses = np.concatenate([p.uses for p in parts])
        order = np.lexsort((steps, uses, ends, starts))
        starts, ends, uses = starts[order], ends[order], uses[order]
        first = np.ones(len(starts), bool)
        first[1:] = (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1]) | (uses[1:] != uses[:-1])
        return _Edges(starts[first], ends[first], steps[order][first], uses[first])


@dataclass(frozen=True, slots=True)
class _Reached:
    """[n] terms with the source from which each is reached, the number of steps, and their uses."""

    sources: Indices
    terms: Indices
    steps: npt.NDArray[np.int8]
    uses: Uses

    def places(self, sources: Indices, terms: Indices) -> Rows:
        """[n] the place here of each term as reached from its source, -1 where it is not reached."""
        count = int(self.terms.max(initial=0)) + 1
        codes = self.sources.astype(np.int64) * count + self.terms
        order = np.argsort(codes)
        wanted = sources.astype(np.int64) * count + terms
        at = order[np.minimum(np.searchsorted(codes[order], wanted), len(codes) - 1)]
        return np.where((self.sources[at] == sources) & (self.terms[at] == terms), at, -1)


@dataclass(frozen=True, slots=True)
class _Merges:
    """[n] terms whose halves are the outputs [n, 2] by a known merge."""

    cut: tuple[int, ...]
    terms: Indices
    outputs: Indices
    steps: npt.NDArray[np.int8]
    uses: Uses


class Closure:
    """Derivability in a bank by the rules added so far."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self._vocabulary = Vocabulary(bank)
        self._patterns: list[Pattern] = []
        self._active: Indices = np.empty(0, np.int32)
        self._classes: Indices = np.empty(0, np.int32)
        self._edges = _Edges.none()
        self._shrinking = np.zeros(len(bank.classes), bool)
        self._chosen: dict[int, tuple[_Edges, _Edges]] = {}
        self._merges: list[_Merges] = []
        self._touched = np.zeros(len(bank.classes), bool)

    def begin(self, classes: Indices) -> None:
        """Prepares queries about these classes; records and drops the results of others."""
        self._note()
        self._classes = classes
        self._active = self.bank.members(classes)
        self._edges = _Edges.none()
        self._chosen.clear()
        self._merges = []
        self.bank.look()
        self._apply(self._patterns)

    def add(self, rules: Sequence[Rule]) -> None:
        """Adds rules."""
        self._touched[:] = False
        numbers = set[int]().union(*(self._vocabulary.commuting(rule) for rule in rules))
        if numbers:
            self.bank.commute(numbers)
            self._active = self.bank.members(self._classes)
            self._moved()
            self._touched[:] = True
        new = list(dict.fromkeys(p for rule in rules for p in self._vocabulary.patterns(rule)))
        self._patterns += new
        self._apply(new)

    def steps(self, left: Indices, right: Indices, uses: int) -> npt.NDArray[np.int8]:
        """[n] the number of steps between terms by rules within ``uses``, or FAR."""
        return self.ways(left, right, uses)[0]

    def ways(self, left: Indices, right: Indices, uses: int) -> tuple[npt.NDArray[np.int8], Uses]:
        """``steps`` with the uses of each derivation."""
        left, right = self.bank.same[left], self.bank.same[right]
        found = np.where(left == right, 0, FAR).astype(np.int8)
        used = np.zeros(len(found), np.int16)
        asked = np.flatnonzero(found)
        asked = asked[np.argsort(left[asked], kind="stable")]
        for some in self._portions(left[asked]):
            pairs = asked[some]
            reached = self._reached(np.unique(left[pairs]), uses)
            at = reached.places(left[pairs], right[pairs])
            here = at >= 0
            found[pairs[here]] = reached.steps[at[here]]
            used[pairs[here]] = reached.uses[at[here]]
        return found, used

    def merged(self, whole: Indices, outputs: Indices, cuts: Indices, uses: int) -> npt.NDArray[np.bool_]:
        """[n] whether a known merge of a term equal to the whole, with these splitting operators [n, 2],
        gives terms equal to the outputs [n, 2] within the step limit.
        """
        found = np.zeros(len(whole), bool)
        order = np.argsort(self.bank.same[whole], kind="stable")
        for some in self._portions(self.bank.same[whole[order]]):
            rows = order[some]
            found[rows] = self._merged(whole[rows], outputs[rows], cuts[rows], uses)
        return found

    def _merged(self, whole: Indices, outputs: Indices, cuts: Indices, uses: int) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(whole), bool)
        whole = self.bank.same[whole]
        near = self._reached(np.unique(whole), uses)
        for merges in self._merges:
            asked = np.flatnonzero((cuts == merges.cut).all(axis=1) & ~found)
            known = np.flatnonzero((merges.uses & ~uses) == 0)
            if not len(asked) or not len(known):
                continue
            pairs, at = _joined_on(whole[asked], near.sources)
            pairs, total = asked[pairs], near.steps[at].astype(np.int16)
            then, merge = _joined_on(near.terms[at], self.bank.same[merges.terms[known]])
            merge = known[merge]
            pairs, total = pairs[then], total[then] + merges.steps[merge]
            for place in range(2):
                total += self.steps(outputs[pairs, place], merges.outputs[merge, place], uses)
            found[pairs[total <= MERGE_STEPS]] = True
        return found

    def shrinks(self, rows: Indices) -> npt.NDArray[np.bool_]:
        """[n] whether a strictly shrinking rule applies at the root of each term."""
        return self._shrinking[self.bank.same[rows]]

    def touched(self, rows: Indices) -> npt.NDArray[np.bool_]:
        """[n] whether the last rules that were added may say more about the class of each row; ``merged`` may
        know more anyway."""
        return self._touched[self.bank.classes[rows]]

    def _apply(self, patterns: Sequence[Pattern]) -> None:
        if not len(self._active):
            return
        for cut in dict.fromkeys(pattern.cut for pattern in patterns if pattern.cut):
            chosen = [pattern for pattern in patterns if pattern.cut == cut]
            for found in Matcher(self.bank, chosen).found(self._active, STEPS):
                self._merges.append(_Merges(cut, found.terms, found.results, found.steps, found.uses))
        singles = [pattern for pattern in patterns if not pattern.cut]
        if not singles:
            return
        shrinking = np.array([pattern.shrinks for pattern in singles])
        edges: list[_Edges] = []
        for found in Matcher(self.bank, singles).found(self._active, STEPS):
            edges.append(self._edges_of(found, shrinking))
            if sum(len(each.starts) for each in edges) > EDGES_JOINED:
                self._edges, edges = self._edges.joined(edges), []
        self._edges = self._edges.joined(edges)

    def _edges_of(self, found: Found, shrinking: npt.NDArray[np.bool_]) -> _Edges:
        bank = self.bank
        ends = bank.same[found.results[:, 0]]
        good = np.flatnonzero((bank.classes[ends] == bank.classes[found.terms]) & (ends != found.terms))
        terms, ends, steps, uses = found.terms[good], ends[good], found.steps[good], found.uses[good]
        at_once = shrinking[found.patterns[good]] & (steps == 1)
        self._shrinking[terms[at_once]] = True
        self._touched[bank.classes[terms]] = True
        return _Edges(
            np.concatenate((terms, ends)),
            np.concatenate((ends, terms)),
            np.concatenate((steps, steps)),
            np.concatenate((uses, uses)),
        )

    def _moved(self) -> None:
        """Edges between the current canonical rows of terms."""
        same, edges = self.bank.same, self._edges
        self._shrinking[same[self._shrinking]] = True
        self._edges = _Edges.none().joined(
            [_Edges(same[edges.starts], same[edges.ends], edges.steps, edges.uses)]
        )

    def _portions(self, sources: Indices) -> Iterator[slice]:
        """Ranges of these ascending rows, equal ones together, whose classes have few terms in all."""
        first = np.flatnonzero(np.diff(sources, prepend=-1))
        sizes = self.bank.class_sizes(self.bank.classes[sources[first]])
        portion = np.cumsum(sizes) // REACHED_AT_ONCE
        starts = first[np.flatnonzero(np.diff(portion, prepend=-1))]
        for start, stop in pairwise([*starts.tolist(), len(sources)]):
            yield slice(start, stop)

    def _reached(self, sources: Indices, uses: int) -> _Reached:
        """All terms within the step limit of these."""
        edges = self._within(uses)
        count = len(sources)
        found = _Reached(sources, sources, np.zeros(count, np.int8), np.zeros(count, np.int16))
        frontier: Rows = np.arange(count)
        for _ in range(STEPS):
            found, frontier = _stepped(found, frontier, edges)
            if not len(frontier):
                break
        return found

    def _within(self, uses: int) -> _Edges:
        """The edges by rules within ``uses``."""
        edges, known = self._chosen.get(uses, (None, None))
        if edges is not self._edges or known is None:
            known = self._edges.take(np.flatnonzero((self._edges.uses & ~uses) == 0))
            self._chosen[uses] = self._edges, known
        return known

    def _note(self) -> None:
        """Notes how far the terms of the classes that were asked about are from their representatives."""
        if not len(self._classes):
            return
        bank = self.bank
        sources = np.unique(bank.same[self._classes])
        for uses in (OPEN, CLOSED):
            for some in self._portions(sources):
                found = self._reached(sources[some], uses)
                better = np.flatnonzero(found.steps < bank.steps[found.terms])
                bank.steps[found.terms[better]] = found.steps[better]
                bank.uses[found.terms[better]] = found.uses[better]


def _stepped(reached: _Reached, frontier: Rows, edges: _Edges) -> tuple[_Reached, Rows]:
    """The terms reached by one edge from the frontier, and which of them are new."""
    rows, at = _joined_on_sorted(reached.terms[frontier], edges.starts)
    before = frontier[rows]
    total = reached.steps[before] + edges.steps[at]
    near = np.flatnonzero(total <= STEPS)
    before, at = before[near], at[near]
    sources = np.concatenate((reached.sources, reached.sources[before]))
    terms = np.concatenate((reached.terms, edges.ends[at]))
    steps = np.concatenate((reached.steps, total[near].astype(np.int8)))
    uses = np.concatenate((reached.uses, reached.uses[before] | edges.uses[at]))
    order = np.lexsort((uses, steps, terms, sources))
    first = np.ones(len(order), bool)
    first[1:] = (terms[order][1:] != terms[order][:-1]) | (sources[order][1:] != sources[order][:-1])
    chosen = order[first]
    nearer = _Reached(sources[chosen], terms[chosen], steps[chosen], uses[chosen])
    return nearer, np.flatnonzero(chosen >= len(reached.terms))


def _joined_on(left: Indices, right: Indices) -> tuple[Rows, Rows]:
    """(row, row) of all that are equal."""
    order = np.argsort(right, kind="stable")
    rows, at = _joined_on_sorted(left, right[order])
    return rows, order[at]


def _joined_on_sorted(left: Indices, right: Indices) -> tuple[Rows, Rows]:
    """(row, row) of all that are equal, where the right ones ascend."""
    first = np.searchsorted(right, left, "left")
    counts = np.searchsorted(right, left, "right") - first
    return np.repeat(np.arange(len(left)), counts), ranges(first, counts)
