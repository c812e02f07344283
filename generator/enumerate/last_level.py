"""External merge of the keys of the last level: sorted runs in memory or files, merged by key range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.fingerprints import Keys
from superopt.generator.enumerate.spill import Overflow, Written

MERGED_KEYS = 1 << 22
"""Approximate number of keys merged at once."""


@dataclass(frozen=True, slots=True)
class LastLevel:
    """A part of the last level: its keys in ascending order, the position of each term in the part, and
    whether its two halves along some axis are known classes.
    """

    part: int
    keys: Keys
    places: npt.NDArray[np.uint32]
    halved: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Terms to record: [n] part, position, key; ordered by part and position."""

    parts: npt.NDArray[np.int32]
    places: npt.NDArray[np.uint32]
    keys: Keys


@dataclass(frozen=True, slots=True)
class _Written:
    part: int
    keys: Written
    places: Written
    halved: Written


class Membership:
    """Membership test of keys with a hash filter that rejects most unknown keys."""

    def __init__(self, known: Keys) -> None:
        bits = min(28, max(10, int(len(known) * 16).bit_length()))
        self._known = known
        self._mask = np.int64((1 << bits) - 1)
        self._table = np.zeros(1 << bits, bool)
        self._table[known & self._mask] = True

    def contains(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """[n] whether each key is known."""
        found = self._table[keys & self._mask]
        likely = np.flatnonzero(found)
        at = np.searchsorted(self._known, keys[likely])
        at[at == len(self._known)] = 0
        found[likely] = self._known[at] == keys[likely]
        return found


class Runs:
    """Collects the parts; beyond ``limit`` bytes they spill to ``overflow``."""

    def __init__(self, overflow: Overflow, limit: int) -> None:
        self._overflow = overflow
        self._limit = limit
        self._held = 0
        self._runs: list[LastLevel | _Written] = []
        self.terms = 0

    def add(self, block: LastLevel) -> None:
        """Adds a part."""
        size = block.keys.nbytes + block.places.nbytes + block.halved.nbytes
        self.terms += len(block.keys)
        if self._held + size <= self._limit:
            self._held += size
            self._runs.append(block)
            return
        written = [self._overflow.write(column) for column in (block.keys, block.places, block.halved)]
        self._runs.append(_Written(block.part, written[0], written[1], written[2]))

    def merged(self, known: Keys) -> tuple[int, Recorded]:
        """The number of keys not in ``known`` (ascending), and the terms that share a key, also with a known
        one, or whose halves are known.
        """
        count = max(1, -(-self.terms // MERGED_KEYS))
        bounds = [int(b) for b in np.linspace(0, 2**63 - 1, count + 1)[1:-1]]
        fresh = 0
        found: list[Recorded] = []
        for low, high in zip([0, *bounds], [*bounds, None], strict=True):
            parts, run = self._between(low, high)
            order = np.argsort(run.keys, kind="stable")
            keys = run.keys[order]
            first = np.ones(len(keys), bool)
            first[1:] = keys[1:] != keys[:-1]
            group = np.cumsum(first) - 1
            heads = keys[first]
            at = np.searchsorted(known, heads)
            at[at == len(known)] = 0
            is_known = known[at] == heads if len(known) else np.zeros(len(heads), bool)
            fresh += int(np.count_nonzero(~is_known))
            shared = (np.bincount(group, minlength=len(heads)) > 1) | is_known if len(keys) else is_known
            wanted = shared[group] | run.halved[order]
            chosen = order[wanted]
            found.append(Recorded(parts[chosen], run.places[chosen], keys[wanted]))
        parts = np.concatenate([block.parts for block in found])
        places = np.concatenate([block.places for block in found])
        keys = np.concatenate([block.keys for block in found])
        order = np.lexsort((places, parts))
        return fresh, Recorded(parts[order], places[order], keys[order])

    def _between(self, low: int, high: int | None) -> tuple[npt.NDArray[np.int32], LastLevel]:
        """(part of each, keys from ``low`` on and below ``high`` of all runs), run by run."""
        slices = [self._slice(run, low, high) for run in self._runs]
        parts = [np.full(len(s.keys), s.part, np.int32) for s in slices]
        if not slices:
            slices = [LastLevel(-1, np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, bool))]
        return np.concatenate([np.empty(0, np.int32), *parts]), LastLevel(
            -1,
            np.concatenate([s.keys for s in slices]),
            np.concatenate([s.places for s in slices]),
            np.concatenate([s.halved for s in slices]),
        )

    def _slice(self, run: LastLevel | _Written, low: int, high: int | None) -> LastLevel:
        """A copy of a key range of a run; files are mapped only meanwhile."""
        if isinstance(run, _Written):
            keys, places, halved = map(self._overflow.mapped, (run.keys, run.places, run.halved))
            run = LastLevel(run.part, keys, places, halved)
        start = int(np.searchsorted(run.keys, low))
        stop = len(run.keys) if high is None else int(np.searchsorted(run.keys, high))
        return LastLevel(
            run.part,
            np.array(run.keys[start:stop]),
            np.array(run.places[start:stop]),
            np.array(run.halved[start:stop]),
        )
