"""Value classes: terms that agree on random arguments, with the arrays of their representatives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from generator.joins import Indices, Tuples
from generator.preset import InputType
from generator.split_trees import SplitTree
from superopt.domains import FieldArray
from superopt.domains.prime_field import MODULUS

Keys: TypeAlias = "npt.NDArray[np.int64]"
ClassId: TypeAlias = int
TypeId: TypeAlias = int
TreesId: TypeAlias = int

_PROJECTIONS = 2


class Fingerprints:
    """Random projections modulo the prime: one 62-bit key for each value; equal values have equal keys."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._weights: dict[int, npt.NDArray[np.int64]] = {}

    def of(self, values: FieldArray, terms: int) -> Keys:
        """[terms] keys of values whose stack holds the test vectors of each term one after another."""
        residues = np.ascontiguousarray(values.residue).reshape(terms, -1)
        weights = self._weights.get(residues.shape[1])
        if weights is None:
            weights = self._generator.integers(1, MODULUS, (_PROJECTIONS, residues.shape[1]), dtype=np.int64)
            self._weights[residues.shape[1]] = weights
        high, low = ((residues * row % MODULUS).sum(axis=1) % MODULUS for row in weights)
        return high << 31 | low


@dataclass
class _TypedValues:
    """Keys, sorted, with the class of each; and the arrays of representatives that may be extended."""

    keys: Keys
    classes: Indices
    blocks: list[FieldArray]
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Columns:
    """What is known of every class: [n] arrays, and ``parts`` [n, width] of its representative."""

    types: Indices
    trees: Indices
    levels: npt.NDArray[np.int8]
    inputs: npt.NDArray[np.uint32]
    parts: Indices
    rows: Indices


class ClassTable:
    """All classes, by type; grows level by level."""

    def __init__(self, width: int, test_vectors: int) -> None:
        self.types: list[InputType] = []
        self.trees: list[tuple[SplitTree, ...]] = []
        self.test_vectors = test_vectors
        self.count = 0
        self._type_ids: dict[InputType, TypeId] = {}
        self._tree_ids: dict[tuple[SplitTree, ...], TreesId] = {}
        self._values: list[_TypedValues] = []
        self._width = width
        self._pending: list[Columns] = []
        empty = np.empty(0, np.int32)
        self._columns = Columns(
            empty, empty, np.empty(0, np.int8), np.empty(0, np.uint32), np.empty((0, width), np.int32), empty
        )

    def type_id(self, type_: InputType) -> TypeId:
        """The number of a type, new or known."""
        known = self._type_ids.get(type_)
        if known is None:
            known = self._type_ids[type_] = len(self.types)
            self.types.append(type_)
            self._values.append(_TypedValues(np.empty(0, np.int64), np.empty(0, np.int32), []))
        return known

    def trees_id(self, trees: tuple[SplitTree, ...]) -> TreesId:
        """The number of a tuple of split trees, new or known."""
        known = self._tree_ids.get(trees)
        if known is None:
            known = self._tree_ids[trees] = len(self.trees)
            self.trees.append(trees)
        return known

    @property
    def columns(self) -> Columns:
        """Everything known of all classes."""
        if self._pending:
            blocks = [self._columns, *self._pending]
            self._columns = Columns(
                np.concatenate([b.types for b in blocks]),
                np.concatenate([b.trees for b in blocks]),
                np.concatenate([b.levels for b in blocks]),
                np.concatenate([b.inputs for b in blocks]),
                np.concatenate([b.parts for b in blocks]),
                np.concatenate([b.rows for b in blocks]),
            )
            self._pending = []
        return self._columns

    def classify(self, type_: TypeId, keys: Keys) -> tuple[Indices, npt.NDArray[np.intp]]:
        """[n] the class of each key; and which ones are the first of a class that was not known before."""
        typed = self._values[type_]
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        at, known = _located(typed, distinct)
        classes = (
            np.where(known, typed.classes[np.minimum(at, max(len(typed.keys) - 1, 0))], -1)
            if len(typed.keys)
            else np.full(len(distinct), -1, np.int32)
        )
        fresh = np.flatnonzero(~known)
        fresh = fresh[np.argsort(first[fresh], kind="stable")]
        classes[fresh] = np.arange(self.count, self.count + len(fresh), dtype=np.int32)
        self.count += len(fresh)
        added = np.flatnonzero(~known)
        typed.keys = np.insert(typed.keys, at[added], distinct[added])
        typed.classes = np.insert(typed.classes, at[added], classes[added]).astype(np.int32)
        return classes[inverse].astype(np.int32), first[fresh]

    def find(self, type_: TypeId, keys: Keys) -> Indices:
        """[n] the class of each key, -1 where there is none."""
        typed = self._values[type_]
        if not len(typed.keys):
            return np.full(len(keys), -1, np.int32)
        at, known = _located(typed, keys)
        return np.where(known, typed.classes[np.minimum(at, len(typed.keys) - 1)], -1).astype(np.int32)

    def describe(
        self,
        type_: TypeId,
        trees: Indices,
        level: int,
        inputs: npt.NDArray[np.uint32],
        parts: Indices,
        values: FieldArray | None,
    ) -> None:
        """Records the classes that ``classify`` has just made; without values they cannot be extended."""
        count = len(trees)
        typed = self._values[type_]
        rows = np.full(count, -1, np.int32)
        if values is not None:
            rows = np.arange(typed.rows, typed.rows + count, dtype=np.int32)
            typed.rows += count
            typed.blocks.append(values)
        self._pending.append(
            Columns(
                np.full(count, type_, np.int32),
                trees,
                np.full(count, level, np.int8),
                inputs,
                _padded(parts, self._width),
                rows,
            )
        )

    def values(self, type_: TypeId, classes: Indices) -> FieldArray:
        """The arrays of representatives of that type, test vectors one after another in the stack."""
        typed = self._values[type_]
        if len(typed.blocks) > 1:
            typed.blocks = [joined(typed.blocks)]
        (block,) = typed.blocks
        rows = self.columns.rows[classes]
        stack = (rows[:, None] * self.test_vectors + np.arange(self.test_vectors)).reshape(-1)
        return FieldArray(block.residue[stack], block.exponent[stack], block.shadow[stack])

    def tuples(self, classes: Indices) -> Tuples:
        """Classes as arguments of one place."""
        columns = self.columns
        return Tuples(classes[:, None], columns.parts[classes], columns.levels[classes])


def joined(blocks: Sequence[FieldArray]) -> FieldArray:
    """Stacks one after another."""
    return FieldArray(
        np.concatenate([block.residue for block in blocks]),
        np.concatenate([block.exponent for block in blocks]),
        np.concatenate([block.shadow for block in blocks]),
    )


def picked(values: FieldArray, terms: npt.NDArray[np.intp], test_vectors: int) -> FieldArray:
    """The values of some terms of a stack, copied."""
    stack = (terms[:, None] * test_vectors + np.arange(test_vectors)).reshape(-1)
    return FieldArray(values.residue[stack], values.exponent[stack], values.shadow[stack])


def runs(sorted_values: npt.NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    """The bounds of each run of equal values."""
    edges = np.flatnonzero(np.diff(sorted_values)) + 1
    bounds = [0, *edges.tolist(), len(sorted_values)]
    yield from ((a, b) for a, b in itertools.pairwise(bounds) if a < b)


def _located(typed: _TypedValues, keys: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    at = np.searchsorted(typed.keys, keys)
    if not len(typed.keys):
        return at, np.zeros(len(keys), bool)
    return at, typed.keys[np.minimum(at, len(typed.keys) - 1)] == keys


def _padded(parts: Indices, width: int) -> Indices:
    if parts.shape[1] >= width:
        return parts[:, :width]
    missing = np.full((len(parts), width - parts.shape[1]), -1, np.int32)
    return np.concatenate((parts, missing), axis=1)
