"""Joins of classes into argument tuples by term size, with shared operators counted once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Indices: TypeAlias = "npt.NDArray[np.int32]"

CHUNK = 1 << 19
"""Number of pairs per call."""

OVERLAP_LIMIT = 3
"""Arguments that overlap without one containing the other are joined up to this many operators in all."""


@dataclass(frozen=True, slots=True)
class Tuples:
    """``indices`` [n, arity] of classes; ``parts`` [n, width]: the operators used, by class, -1: none."""

    indices: Indices
    parts: Indices
    sizes: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, rows: npt.NDArray[np.intp]) -> Tuples:
        """The rows of these numbers."""
        return Tuples(self.indices[rows], self.parts[rows], self.sizes[rows])


def union(left: Indices, right: Indices) -> Indices:
    """Row by row, the union of parts: [n, width] and [n, width] to [n, width], largest first."""
    width = max(left.shape[1], right.shape[1])
    both = np.sort(np.concatenate((left, right), axis=1), axis=1)[:, ::-1]
    repeated = np.zeros(both.shape, bool)
    repeated[:, 1:] = both[:, 1:] == both[:, :-1]
    both = np.where(repeated, np.int32(-1), both)
    return np.sort(both, axis=1)[:, ::-1][:, :width].astype(np.int32)


def common(left: Indices, right: Indices) -> npt.NDArray[np.int8]:
    """Row by row, the number of common parts."""
    count = np.zeros(len(left), np.int8)
    for column in range(right.shape[1]):
        part = right[:, column : column + 1]
        count += ((left == part) & (part >= 0)).any(axis=1)
    return count


def distinct_rows(rows: Indices) -> tuple[Indices, npt.NDArray[np.intp]]:
    """The distinct rows of [n, width], and for each row the index of its distinct row."""
    low = int(rows.min(initial=0))
    base = int(rows.max(initial=0)) - low + 1
    if base ** rows.shape[1] >= 1 << 62:
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        return distinct, inverse.reshape(-1)
    codes = np.zeros(len(rows), np.int64)
    for column in rows.T:
        codes = codes * base + (column.astype(np.int64) - low)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return rows[first], inverse


def tuples_of_size(arguments: Sequence[Tuples], size: int) -> Iterator[Indices]:
    """Blocks [n, arity] of argument tuples that need exactly ``size`` operators together."""
    partial = arguments[0]
    if len(arguments) == 1:
        exact = np.flatnonzero(partial.sizes == size)
        for start in range(0, len(exact), CHUNK):
            yield partial.indices[exact[start : start + CHUNK]]
        return
    for argument in arguments[1:-1]:
        blocks = [
            _combined(partial, rows, argument, columns)
            for rows, columns in _pairs(partial, argument, size, exact=False)
        ]
        partial = Tuples(
            np.concatenate([block.indices for block in blocks]),
            np.concatenate([block.parts for block in blocks]),
            np.concatenate([block.sizes for block in blocks]),
        )
    for rows, columns in _pairs(partial, arguments[-1], size, exact=True):
        yield np.concatenate((partial.indices[rows], arguments[-1].indices[columns]), axis=1)


def _combined(left: Tuples, rows: Indices, right: Tuples, columns: Indices) -> Tuples:
    parts = union(left.parts[rows], right.parts[columns])
    indices = np.concatenate((left.indices[rows], right.indices[columns]), axis=1)
    return Tuples(indices, parts, (parts >= 0).sum(axis=1).astype(np.int8))


def _pairs(left: Tuples, right: Tuples, size: int, *, exact: bool) -> Iterator[tuple[Indices, Indices]]:
    """Pairs of rows that need at most, or exactly, ``size`` operators; always at least one block."""
    empty = np.empty(0, np.int32)
    yield empty, empty
    for m in range(size + 1):
        lefts = np.flatnonzero(left.sizes == m).astype(np.int32)
        for n in range(size + 1):
            rights = np.flatnonzero(right.sizes == n).astype(np.int32)
            if not len(lefts) or not len(rights) or (exact and m + n < size):
                continue
            if m + n <= size:
                candidates = _crossed(lefts, rights)
            else:
                candidates = _overlapping(left, lefts, right, rights, size)
            for rows, columns in candidates:
                if not m or not n:
                    yield rows, columns
                    continue
                total = m + n - common(left.parts[rows], right.parts[columns])
                kept = np.flatnonzero(total == size if exact else total <= size)
                yield rows[kept], columns[kept]


def _crossed(lefts: Indices, rights: Indices) -> Iterator[tuple[Indices, Indices]]:
    step = max(1, CHUNK // len(rights))
    for start in range(0, len(lefts), step):
        block = lefts[start : start + step]
        yield np.repeat(block, len(rights)), np.tile(rights, len(block))


def _overlapping(
    left: Tuples, lefts: Indices, right: Tuples, rights: Indices, size: int
) -> Iterator[tuple[Indices, Indices]]:
    """Pairs with a common part; beyond OVERLAP_LIMIT only those where one contains the other."""
    anything = size <= OVERLAP_LIMIT
    pairs = [_sharing(left.parts, lefts, right.parts if anything else right.parts[:, :1], rights)]
    if not anything:
        columns, rows = _sharing(right.parts, rights, left.parts[:, :1], lefts)
        pairs.append((rows, columns))
    rows = np.concatenate([pair[0] for pair in pairs]).astype(np.int64)
    columns = np.concatenate([pair[1] for pair in pairs])
    distinct = np.unique(rows << 32 | columns)
    for start in range(0, len(distinct), CHUNK):
        block = distinct[start : start + CHUNK]
        yield (block >> 32).astype(np.int32), (block & 0xFFFFFFFF).astype(np.int32)


def _sharing(left: Indices, lefts: Indices, right: Indices, rights: Indices) -> tuple[Indices, Indices]:
    """An equi-join on parts, by sorting one side."""
    left_rows, left_parts = _exploded(left, lefts)
    right_rows, right_parts = _exploded(right, rights)
    order = np.argsort(right_parts, kind="stable")
    right_rows, right_parts = right_rows[order], right_parts[order]
    first = np.searchsorted(right_parts, left_parts, "left")
    count = np.searchsorted(right_parts, left_parts, "right") - first
    rows = np.repeat(left_rows, count)
    starts = np.repeat(first - np.concatenate(([0], np.cumsum(count)[:-1])), count) if len(count) else first
    return rows, right_rows[np.arange(len(rows)) + starts]


def _exploded(parts: Indices, rows: Indices) -> tuple[Indices, Indices]:
    selected = parts[rows]
    present = selected >= 0
    return np.repeat(rows, present.sum(axis=1)), selected[present]
