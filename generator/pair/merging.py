"""Merges: pairs of outputs that are the two halves of one term (dissertation, figure 2.2b).

Classes with two known halves are found in bulk; merges of more than two arise by nesting. A pair that
consists of two independent equations is excluded: some output must need a variable of the other. So is one
without a common input, which would match any two places of a graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.recorded import Masks, RecordedTerms
from superopt.generator.enumerate.structures import CHUNK, Hashes, Rows
from superopt.generator.pair.instances import Shortening
from superopt.generator.pair.pairing import Pairing, Reductions
from superopt.generator.presets.preset import Instance
from superopt.ops.traits import HALVES, traits

SOURCES = 3
"""Number of cheapest terms of a half's class tried as an output."""

_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class _Triples:
    """[n] rows: a term and what its halves are; ``axes`` number the two operators that cut it."""

    whole: Indices
    left: Indices
    right: Indices
    axes: Indices

    def take(self, rows: Rows) -> _Triples:
        return _Triples(self.whole[rows], self.left[rows], self.right[rows], self.axes[rows])


def merges(terms: RecordedTerms, enumeration: Enumeration) -> Pairing:
    """Pairs of terms on the left, the two halves of one term on the right."""
    cuts = list(_split_pairs(enumeration.stage.instances))
    halves = _halves(enumeration, cuts)
    found = _triples(terms, halves, cuts)
    raw = len(found.whole)
    found = found.take(_shared(terms, found))
    found = found.take(np.flatnonzero(enumeration.canonical(_masks(terms, found).astype(np.uint32))))
    keys = _keys(terms, found)
    keys, first = np.unique(keys, return_index=True)
    found = found.take(first)
    rows = (found.whole, found.left, found.right)
    sizes = sum((terms.tree_sizes(row) for row in rows), np.zeros(len(first), np.int32))
    used = np.bitwise_count(np.bitwise_or.reduce(_masks(terms, found), axis=1)).astype(np.int32)
    rank = np.lexsort((keys, -used, sizes))
    found, keys = found.take(rank), keys[rank]
    reductions = _reductions(terms, halves, found, keys)
    table = terms.rows()
    targets = np.zeros((len(found.whole), 2), np.int32)
    for axis, pair in enumerate(cuts):
        chosen = np.flatnonzero(found.axes == axis)
        for column, half in enumerate(pair):
            table, targets[chosen, column] = table.with_applied(half, found.whole[chosen])
    orders = np.stack((sizes[rank], -used[rank]), axis=1)
    return Pairing(
        table,
        terms.input_shapes,
        raw,
        len(keys),
        {},
        np.stack((found.left, found.right), axis=1),
        targets,
        orders,
        reductions,
    )


def _split_pairs(instances: tuple[Instance, ...]) -> Iterator[tuple[int, int]]:
    """The numbers of the two halves of each split."""
    for (i, first), (j, second) in itertools.product(enumerate(instances), repeat=2):
        if (first.name, second.name) == HALVES and first.axis == second.axis:
            yield i, j


def _halves(enumeration: Enumeration, cuts: list[tuple[int, int]]) -> Indices:
    """[cuts, 2, classes] the classes of the halves of each class, -1 where they are not known."""
    count = enumeration.table.count
    found = np.full((len(cuts), 2, count), -1, np.int32)
    every = np.flatnonzero(enumeration.table.columns.rows >= 0).astype(np.int32)
    instances = [enumeration.stage.instances[half] for pair in cuts for half in pair]
    found[..., every] = enumeration.halves(instances, every).reshape(len(cuts), 2, len(every))
    return found


def _triples(terms: RecordedTerms, halves: Indices, cuts: list[tuple[int, int]]) -> _Triples:
    """Every term with the cheapest ones of the classes of its halves."""
    cheapest = _cheapest(terms)
    blocks: list[_Triples] = []
    rows = np.arange(len(terms.classes), dtype=np.int32)
    for axis, (half, _) in enumerate(cuts):
        zero, one = halves[axis, 0, terms.classes], halves[axis, 1, terms.classes]
        instances = terms.stage.instances
        joins = [
            number
            for number, instance in enumerate(instances)
            if traits(instance.name).joins and dict(instance.attributes)["axis"] == instances[half].axis
        ]
        good = (zero >= 0) & (one >= 0) & (terms.instances >= 0) & ~np.isin(terms.instances, joins)
        whole, zero, one = rows[good], zero[good], one[good]
        for i, j in itertools.product(range(SOURCES), repeat=2):
            left, right = cheapest[i, zero], cheapest[j, one]
            known = np.flatnonzero((left >= 0) & (right >= 0))
            blocks.append(
                _Triples(whole[known], left[known], right[known], np.full(len(known), axis, np.int32))
            )
    empty = np.empty(0, np.int32)
    return _Triples(
        np.concatenate([empty, *(b.whole for b in blocks)]),
        np.concatenate([empty, *(b.left for b in blocks)]),
        np.concatenate([empty, *(b.right for b in blocks)]),
        np.concatenate([empty, *(b.axes for b in blocks)]),
    )


def _cheapest(terms: RecordedTerms) -> Indices:
    """[SOURCES, classes] the first terms of each class that have as few operators as any; -1: no more."""
    rows = np.arange(len(terms.classes), dtype=np.int32)
    order = np.lexsort((rows, terms.sizes, terms.classes))
    classes, sizes = terms.classes[order], terms.sizes[order]
    starts = np.flatnonzero(np.diff(classes, prepend=-1))
    found = np.full((SOURCES, len(terms.first)), -1, np.int32)
    for step in range(SOURCES):
        at = starts + step
        inside = at < len(order)
        at, base = at[inside], starts[inside]
        same = (classes[at] == classes[base]) & (sizes[at] == sizes[base])
        found[step, classes[at[same]]] = order[at[same]]
    return found


def _masks(terms: RecordedTerms, found: _Triples) -> Masks:
    """[n, 3] the inputs of whole, left and right."""
    return np.stack([terms.masks[rows] & terms.inputs for rows in (found.whole, found.left, found.right)], 1)


def _shared(terms: RecordedTerms, found: _Triples) -> Rows:
    """Filters triples: outputs share an input, bind the inputs of the whole, and are not independent."""
    whole, left, right = _masks(terms, found).T
    good = (whole & ~(left | right) == 0) & ((whole & ~left != 0) | (whole & ~right != 0))
    good &= (left & right != 0) & (terms.instances[found.left] >= 0) & (terms.instances[found.right] >= 0)
    halves = np.array([i.name in HALVES for i in terms.stage.instances])
    for rows in (found.left, found.right):
        cheapest = terms.first[terms.arguments[rows, 0]]
        good &= ~(halves[np.maximum(terms.instances[rows], 0)] & (cheapest == found.whole))
    return np.flatnonzero(good)


def _keys(terms: RecordedTerms, found: _Triples) -> Hashes:
    blocks = [np.empty(0, np.uint64)]
    for start in range(0, len(found.whole), CHUNK):
        block = slice(start, start + CHUNK)
        rows = (found.left[block], found.right[block], found.whole[block])
        blocks.append(terms.grammar.ordered_keys([terms.structures(row) for row in rows], found.axes[block]))
    return np.concatenate(blocks)


def _reductions(terms: RecordedTerms, halves: Indices, found: _Triples, keys: Hashes) -> Reductions:
    """The merges that are instances of earlier merges."""
    rank = np.argsort(keys, kind="stable")
    ordered = keys[rank]

    def numbers(wanted: Hashes) -> Rows:
        at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        return np.where(ordered[at] == wanted, rank[at], _UNKNOWN)

    instances = [np.empty(0, np.intp)]
    parents = [np.empty(0, np.intp)]
    shortening = Shortening(terms)
    for start in range(0, len(keys), CHUNK):
        block = slice(start, start + CHUNK)
        axes = found.axes[block]
        sides = (found.left[block], found.right[block], found.whole[block])
        for pairs, (left, right, whole) in shortening.without_parts(sides):
            of = axes[pairs]
            good = np.flatnonzero(
                (halves[of, 0, terms.classes[whole]] == terms.classes[left])
                & (halves[of, 1, terms.classes[whole]] == terms.classes[right])
            )
            shorter = _Triples(whole[good], left[good], right[good], of[good])
            instances.append(pairs[good] + start)
            parents.append(numbers(_keys(terms, shorter)))
        structures = [terms.structures(rows) for rows in sides]
        for rows, wanted in terms.grammar.identified(structures, axes):
            instances.append(numbers(wanted))
            parents.append(rows + start)
        for rows, wanted in terms.grammar.without_constants(structures, axes):
            instances.append(rows + start)
            parents.append(numbers(wanted))
    return Reductions.of(np.concatenate(instances), np.concatenate(parents), np.concatenate(parents))
