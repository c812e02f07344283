"""Bulk matching of all patterns against a term bank, by joins that share common prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.structures import Rows
from superopt.generator.prune.bank import UNREACHED, Bank, Uses, ranges
from superopt.generator.prune.patterns import CONSTANT, Pattern

ROOTS = 1 << 14
"""Number of terms matched per batch."""

STATES = 1 << 19
"""Number of partial matches at once, more for one term of a large class: bounds memory."""


@dataclass(frozen=True, slots=True)
class Found:
    """[n] applications of patterns: at which term, the rows of their results [n, results] (of a class for a
    variable), the steps taken (one, and those inside), what these use, and the number of the pattern."""

    terms: Indices
    results: Indices
    steps: npt.NDArray[np.int8]
    uses: Uses
    patterns: Rows


@dataclass(frozen=True, slots=True)
class _State:
    terms: Indices
    nodes: Rows
    steps: npt.NDArray[np.int8]
    uses: Uses
    slots: Indices

    def take(self, rows: Rows | npt.NDArray[np.bool_] | slice) -> _State:
        return _State(self.terms[rows], self.nodes[rows], self.steps[rows], self.uses[rows], self.slots[rows])


class Matcher:
    """Patterns compiled into a tree of expansions and a table of lookups."""

    def __init__(self, bank: Bank, patterns: Sequence[Pattern]) -> None:
        self._bank = bank
        self._slots = max((p.slots for p in patterns), default=0) + bank.rows.arguments.shape[1]
        self._build(patterns)
        self._tabulate(patterns)

    def found(self, terms: Indices, most: int) -> Iterator[Found]:
        """Every application at these terms that takes at most so many steps."""
        terms = terms[np.flatnonzero(self._roots[self._bank.operators[terms]] + 1)]
        for start in range(0, len(terms), ROOTS):
            rows, arguments = self._bank.root_readings(terms[start : start + ROOTS])
            slots = np.full((len(rows), self._slots), -1, np.int32)
            slots[:, : arguments.shape[1]] = arguments
            nodes = self._roots[self._bank.operators[rows]]
            ones, none = np.ones(len(rows), np.int8), np.zeros(len(rows), np.int16)
            yield from self._from(_State(rows, nodes, ones, none, slots), most)

    def _from(self, state: _State, most: int) -> Iterator[Found]:
        if not len(state.terms):
            return
        counts = self._ends[state.nodes + 1] - self._ends[state.nodes]
        at = np.repeat(np.arange(len(counts)), counts)
        ends = ranges(self._ends[state.nodes], counts)
        if len(at):
            yield self._looked_up(state.take(at), self._ended[ends], most)
        for expanded in self._expanded(state, most):
            yield from self._from(expanded, most)

    def _expanded(self, state: _State, most: int) -> Iterator[_State]:
        """The partial matches with one more operator, about ``STATES`` at once."""
        children = self._below[state.nodes + 1] - self._below[state.nodes]
        rows = np.repeat(np.arange(len(children)), children)
        child = ranges(self._below[state.nodes], children)
        classes = state.slots[rows, self._child_slots[child]]
        known = np.flatnonzero(classes >= 0)
        rows, child, classes = rows[known], child[known], classes[known]
        first, counts = self._bank.readings(classes, self._child_operators[child])
        read = np.flatnonzero(counts)
        rows, child, first, counts = rows[read], child[read], first[read], counts[read]
        portions = np.cumsum(counts) // STATES
        cuts = np.flatnonzero(np.diff(portions)) + 1
        for start, stop in pairwise([0, *cuts.tolist(), len(rows)]):
            some = slice(start, stop)
            each = np.repeat(np.arange(start, stop), counts[some])
            places = ranges(first[some], counts[some])
            yield self._grown(state, rows[each], child[each], places, most)

    def _grown(self, state: _State, rows: Rows, child: Rows, places: Rows, most: int) -> _State:
        """The partial matches at these rows with readings in place of a slot, within the steps."""
        bank = self._bank
        terms, arguments = bank.read(places)
        steps = state.steps[rows] + bank.steps[terms]
        near = np.flatnonzero(steps <= most)
        rows, child, terms, arguments = rows[near], child[near], terms[near], arguments[near]
        slots = state.slots[rows]
        width = self._widths[state.nodes[rows]]
        for place in range(arguments.shape[1]):
            slots[np.arange(len(rows)), width + place] = arguments[:, place]
        uses = state.uses[rows] | bank.uses[terms]
        return _State(state.terms[rows], self._child_nodes[child], steps[near], uses, slots)

    def _looked_up(self, state: _State, patterns: Rows, most: int) -> Found:
        bank = self._bank
        for slot in range(self._slots):
            other, fixed = self._equal[patterns, slot], self._fixed[patterns, slot]
            if (other >= 0).any() or (fixed >= 0).any():
                value = state.slots[:, slot]
                same = state.slots[np.arange(len(patterns)), np.maximum(other, 0)]
                kept = np.flatnonzero(((other < 0) | (value == same)) & ((fixed < 0) | (value == fixed)))
                state, patterns = state.take(kept), patterns[kept]
        count = self._numbers.shape[1]
        values = np.full((len(patterns), self._slots + count), -1, np.int32)
        values[:, : self._slots] = state.slots
        rows = values.copy()
        steps, uses = state.steps.copy(), state.uses | self._uses[patterns]
        for number in range(count):
            here = np.flatnonzero(self._numbers[patterns, number] >= 0)
            if not len(here):
                break
            sources = self._sources[patterns[here], number]
            given = np.where(
                sources <= CONSTANT,
                CONSTANT - sources,
                np.take_along_axis(values[here], np.maximum(sources, 0).astype(np.intp), axis=1),
            )
            given = np.where(sources == -1, -1, given).astype(np.int32)
            found = bank.find(self._numbers[patterns[here], number], given)
            known = np.maximum(found, 0)
            inner = ~self._last[patterns[here], number]
            own = np.where(inner, bank.steps[known], 0).astype(np.int8)
            steps[here] += own
            uses[here] |= np.where(inner, bank.uses[known], 0).astype(np.int16)
            values[here, self._slots + number] = bank.classes[known]
            rows[here, self._slots + number] = found
            lost = np.zeros(len(patterns), bool)
            lost[here] = (found < 0) | (own >= UNREACHED)
            lost |= steps > most
            if lost.any():
                kept = np.flatnonzero(~lost)
                state, patterns, values, rows = state.take(kept), patterns[kept], values[kept], rows[kept]
                steps, uses = steps[kept], uses[kept]
        sources = self._results[patterns]
        results = np.where(
            sources <= CONSTANT,
            CONSTANT - sources,
            np.take_along_axis(rows, np.maximum(sources, 0).astype(np.intp), axis=1),
        )
        results = np.where(sources == -1, -1, results).astype(np.int32)
        return Found(state.terms, results, steps, uses, patterns)

    def _build(self, patterns: Sequence[Pattern]) -> None:
        """The tree of expansions; its nodes by number, the first ones are operators at roots."""
        instances = len(self._bank.rows.instances)
        arities = np.zeros(instances + 1, np.intp)
        for number, instance in self._bank.vocabulary:
            arities[number] = len(instance.signatures[0][0])
        children: list[dict[tuple[int, int], int]] = []
        widths: list[int] = []
        ends: list[list[int]] = []

        def node(width: int) -> int:
            children.append({})
            widths.append(width)
            ends.append([])
            return len(children) - 1

        self._roots = np.full(instances + 1, -1, np.intp)
        for index, pattern in enumerate(patterns):
            if self._roots[pattern.root] < 0:
                self._roots[pattern.root] = node(int(arities[pattern.root]))
            at = int(self._roots[pattern.root])
            for slot, number in pattern.expansions:
                below = children[at].get((slot, number))
                if below is None:
                    below = children[at][slot, number] = node(widths[at] + int(arities[number]))
                at = below
            ends[at].append(index)
        below = [(*key, number) for known in children for key, number in known.items()]
        self._below = np.cumsum([0, *map(len, children)])
        self._child_slots = np.array([slot for slot, _, _ in below], np.intp)
        self._child_operators = np.array([number for _, number, _ in below], np.intp)
        self._child_nodes = np.array([at for _, _, at in below], np.intp)
        self._widths = np.array(widths, np.intp)
        self._ends = np.cumsum([0, *(len(some) for some in ends)])
        self._ended = np.array([index for some in ends for index in some], np.intp)

    def _tabulate(self, patterns: Sequence[Pattern]) -> None:
        count = len(patterns)
        longest = max((len(p.lookups) for p in patterns), default=0)
        arity = self._bank.rows.arguments.shape[1]
        outputs = max((len(p.results) for p in patterns), default=1)
        self._equal = np.full((count, self._slots), -1, np.intp)
        self._fixed = np.full((count, self._slots), -1, np.int32)
        self._numbers = np.full((count, longest), -1, np.int32)
        self._sources = np.full((count, longest, arity), -1, np.int32)
        self._last = np.zeros((count, longest), bool)
        self._results = np.full((count, outputs), -1, np.int32)
        self._uses = np.array([p.uses for p in patterns], np.int16)
        for index, pattern in enumerate(patterns):

            def moved(source: int, slots: int = pattern.slots) -> int:
                return source if source < slots else source - slots + self._slots

            for slot, other in pattern.equal:
                self._equal[index, slot] = other
            for slot, row in pattern.fixed:
                self._fixed[index, slot] = row
            for place, (number, sources) in enumerate(pattern.lookups):
                self._numbers[index, place] = number
                self._sources[index, place, : len(sources)] = [moved(s) for s in sources]
            for place, source in enumerate(pattern.results):
                self._results[index, place] = moved(source)
                if source >= pattern.slots:
                    self._last[index, source - pattern.slots] = True
