"""Pairing of terms of equal value as table rows; terms are built only for few pairs.

Every term of a class is paired with its cheapest term and with each term of few operators; other equalities
follow. Pairs equal up to renaming are merged. A pair that is an instance of others refers to them: if they
are true in general, it need not be examined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.recorded import RecordedTerms
from superopt.generator.enumerate.rows import TermRows
from superopt.generator.enumerate.structures import CHUNK, Hashes, Rows
from superopt.generator.pair.instances import Shortening
from superopt.ir.terms import Term

Sides: TypeAlias = "tuple[tuple[Term, ...], tuple[Term, ...]]"
Orders: TypeAlias = "npt.NDArray[np.int32]"

SMALL = 2
"""Terms of at most this many operators, if minimal in their class, are paired with every term of it."""

ALWAYS = -2
"""Stands for a trivially true pair instead of its number."""

_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Reductions:
    """Pair ``instances[i]`` is an instance of ``first[i]`` and ``second[i]``, which are pairs or ALWAYS."""

    instances: Rows = field(default_factory=lambda: np.empty(0, np.intp))
    first: Rows = field(default_factory=lambda: np.empty(0, np.intp))
    second: Rows = field(default_factory=lambda: np.empty(0, np.intp))

    @classmethod
    def of(cls, instances: Rows, first: Rows, second: Rows) -> Reductions:
        """The distinct reductions that lead to earlier pairs."""
        good = (instances >= 0) & (first != _UNKNOWN) & (second != _UNKNOWN)
        good &= (first < instances) & (second < instances)
        columns = np.stack((instances[good], first[good], second[good]), axis=1)
        return cls(*np.unique(columns, axis=0).T)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Equations found, not yet oriented, smallest first.

    ``raw`` pairs had equal values, of which ``distinct`` remain up to renaming; ``dropped`` of those cannot
    be used. ``shapes`` are those of the inputs. ``left`` and ``right`` [n, outputs] are rows of ``terms``;
    ``orders`` [n, 2] are sort keys: operators of both sides as trees, and minus the number of inputs.
    """

    terms: TermRows
    shapes: Mapping[str, tuple[int, ...]]
    raw: int
    distinct: int
    dropped: Mapping[str, int]
    left: Indices
    right: Indices
    orders: Orders
    reductions: Reductions

    def __len__(self) -> int:
        return len(self.left)

    def among(self, terms: TermRows, places: Indices) -> Pairing:
        """The same pairs, where the table has other rows: ``places`` of those of now."""
        return replace(self, terms=terms, left=places[self.left], right=places[self.right])


def single_outputs(terms: RecordedTerms, enumeration: Enumeration) -> Pairing:
    """Pairs of recorded terms of one class, of which one side binds the variables of the other."""
    order, starts = _by_class(terms)
    left, right = _stars(terms, order, starts)
    raw = len(left)
    a, b = terms.masks[left] & terms.inputs, terms.masks[right] & terms.inputs
    bound = ((a & ~b) == 0) | ((b & ~a) == 0)
    named = enumeration.canonical(np.stack((a, b), axis=1).astype(np.uint32))
    free = len(_keys(terms, *(side[named & ~bound] for side in (left, right))))
    left, right = left[named & bound], right[named & bound]
    keys = _keys_of(terms, left, right)
    keys, first = np.unique(keys, return_index=True)
    left, right = left[first], right[first]
    sizes = terms.tree_sizes(left) + terms.tree_sizes(right)
    leaves = (terms.masks[left] | terms.masks[right]) & terms.inputs
    used = np.bitwise_count(leaves).astype(np.int32)
    rank = np.lexsort((keys, -used, sizes))
    left, right, keys = left[rank], right[rank], keys[rank]
    centres: Indices = np.full(len(terms.first), -1, np.int32)
    centres[terms.classes[order[starts]]] = order[starts]
    reductions = _reductions(terms, centres, left, right, keys)
    return Pairing(
        terms.rows(),
        terms.input_shapes,
        raw,
        len(keys) + free,
        {"unusable": free} if free else {},
        left[:, None],
        right[:, None],
        np.stack((sizes[rank], -used[rank]), axis=1),
        reductions,
    )


def narrowed(pairings: Sequence[Pairing]) -> tuple[Pairing, ...]:
    """Pairings of one stage over one table restricted to terms that derivations may use: smaller ones, and
    all terms equal in value to a term of a pair.

    The table of the last pairing begins with those of the others.
    """
    table = pairings[-1].terms
    asked = np.zeros(len(table.classes), bool)
    for pairing in pairings:
        asked[table.classes[pairing.left.reshape(-1)]] = True
        asked[table.classes[pairing.right.reshape(-1)]] = True
    built = np.zeros(len(table.classes), bool)
    arguments = table.arguments[table.numbers >= 0]
    built[arguments[arguments >= 0]] = True
    rows = np.flatnonzero((asked | built)[table.classes]).astype(np.int32)
    smaller, found = table.only(rows)
    places = np.full(len(table.classes), -1, np.int32)
    places[rows] = found
    return tuple(pairing.among(smaller, places) for pairing in pairings)


def _by_class(terms: RecordedTerms) -> tuple[Indices, Rows]:
    """All rows by class, the cheapest of each first; and where each class starts."""
    rows = np.arange(len(terms.classes), dtype=np.int32)
    used = np.bitwise_count(terms.masks & terms.inputs)
    order = np.lexsort((rows, terms.tree_sizes(rows), used, terms.sizes, terms.classes)).astype(np.int32)
    return order, np.flatnonzero(np.diff(terms.classes[order], prepend=-1))


def _stars(terms: RecordedTerms, order: Indices, starts: Rows) -> tuple[Indices, Indices]:
    """Each term with those before it in its class that no term is smaller than."""
    counts = np.diff(np.append(starts, len(order)))
    place = np.arange(len(order)) - np.repeat(starts, counts)
    start = np.repeat(starts, counts)
    sizes = terms.sizes[order]
    centre = (place == 0) | ((sizes <= SMALL) & (sizes == sizes[start]))
    centres = np.add.reduceat(centre, starts) if len(starts) else starts
    most = int(centres.max(initial=0))
    left: list[Indices] = []
    right: list[Indices] = []
    for step in range(most):
        later = np.flatnonzero((place > step) & (np.repeat(centres, counts) > step))
        left.append(order[start[later] + step])
        right.append(order[later])
    empty = np.empty(0, np.int32)
    return np.concatenate([empty, *left]), np.concatenate([empty, *right])


def _keys_of(terms: RecordedTerms, left: Indices, right: Indices) -> Hashes:
    blocks = [
        terms.grammar.keys(
            terms.structures(left[start : start + CHUNK]), terms.structures(right[start : start + CHUNK])
        )
        for start in range(0, len(left), CHUNK)
    ]
    return np.concatenate([np.empty(0, np.uint64), *blocks])


def _keys(terms: RecordedTerms, left: Indices, right: Indices) -> Hashes:
    return np.unique(_keys_of(terms, left, right))


def _reductions(
    terms: RecordedTerms, centres: Indices, left: Indices, right: Indices, keys: Hashes
) -> Reductions:
    """The pairs that are instances of earlier pairs, with those pairs."""
    rank = np.argsort(keys, kind="stable")
    ordered = keys[rank]

    def numbers(found: Hashes) -> Rows:
        at = np.minimum(np.searchsorted(ordered, found), len(ordered) - 1)
        return np.where(ordered[at] == found, rank[at], _UNKNOWN)

    def of_centre(rows: Indices) -> Rows:
        other = centres[terms.classes[rows]]
        return np.where(other == rows, ALWAYS, numbers(_keys_of(terms, other, rows)))

    edges: list[tuple[Rows, Rows, Rows]] = []
    shortening = Shortening(terms)
    for start in range(0, len(left), CHUNK):
        block = slice(start, start + CHUNK)
        for pairs, (one, other) in shortening.shorter(left[block], right[block]):
            edges.append((pairs + start, of_centre(one), of_centre(other)))
            direct = numbers(_keys_of(terms, one, other))
            edges.append((pairs + start, direct, direct))
        structures = terms.structures(left[block]), terms.structures(right[block])
        for rows, found in terms.grammar.identified(structures, None):
            pairs = numbers(found)
            edges.append((pairs, rows + start, rows + start))
        for rows, found in terms.grammar.without_constants(structures, None):
            pairs = numbers(found)
            edges.append((rows + start, pairs, pairs))
    if not edges:
        return Reductions()
    return Reductions.of(*(np.concatenate(column) for column in zip(*edges, strict=True)))
