"""Value classes: terms with equal fingerprints, and properties of the representative of each class."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.fingerprints import Keys
from superopt.generator.enumerate.joins import Indices
from superopt.generator.enumerate.split_trees import SplitTree
from superopt.generator.presets.preset import InputType

ClassId: TypeAlias = int
TypeId: TypeAlias = int
TreesId: TypeAlias = int
Masks: TypeAlias = "npt.NDArray[np.uint32]"


@dataclass(frozen=True, slots=True)
class Columns:
    """Properties of all classes: [n] arrays, and ``parts`` [n, width] of the representatives.

    ``rows``: the row of the representative among all recorded terms.
    """

    types: Indices
    trees: Indices
    levels: npt.NDArray[np.int8]
    inputs: Masks
    parts: Indices
    rows: Indices


class ClassTable:
    """All classes; grows level by level. ``width``: the maximum number of operators of a representative."""

    def __init__(self, width: int) -> None:
        self.types: list[InputType] = []
        self.trees: list[tuple[SplitTree, ...]] = []
        self._type_ids: dict[InputType, TypeId] = {}
        self._tree_ids: dict[tuple[SplitTree, ...], TreesId] = {}
        self.keys: Keys = np.empty(0, np.int64)
        """The keys of all classes, ascending."""
        self._classes: Indices = np.empty(0, np.int32)
        empty = np.empty(0, np.int32)
        self.columns = Columns(
            empty, empty, np.empty(0, np.int8), np.empty(0, np.uint32), np.empty((0, width), np.int32), empty
        )

    @property
    def count(self) -> int:
        """The number of classes."""
        return len(self.keys)

    def type_id(self, type_: InputType) -> TypeId:
        """The id of a type, assigned on first use."""
        known = self._type_ids.get(type_)
        if known is None:
            known = self._type_ids[type_] = len(self.types)
            self.types.append(type_)
        return known

    def trees_id(self, trees: tuple[SplitTree, ...]) -> TreesId:
        """The id of a tuple of split trees, assigned on first use."""
        known = self._tree_ids.get(trees)
        if known is None:
            known = self._tree_ids[trees] = len(self.trees)
            self.trees.append(trees)
        return known

    def classify(self, keys: Keys) -> tuple[Indices, npt.NDArray[np.intp]]:
        """[n] the class of each key; and which keys are the first of a new class."""
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        classes = self.find(distinct)
        unknown = np.flatnonzero(classes < 0)
        ordered = unknown[np.argsort(first[unknown], kind="stable")]
        classes[ordered] = np.arange(self.count, self.count + len(ordered), dtype=np.int32)
        at = np.searchsorted(self.keys, distinct[unknown])
        self.keys = np.insert(self.keys, at, distinct[unknown])
        self._classes = np.insert(self._classes, at, classes[unknown])
        return classes[inverse], first[ordered]

    def find(self, keys: Keys) -> Indices:
        """[n] the class of each key, -1 if unknown."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int32)
        at = np.searchsorted(self.keys, keys)
        at[at == len(self.keys)] = 0
        return np.where(self.keys[at] == keys, self._classes[at], np.int32(-1))

    def describe(self, added: Columns) -> None:
        """Records the properties of the classes just created by ``classify``."""
        known = self.columns
        width = known.parts.shape[1]
        missing = np.full((len(added.parts), max(0, width - added.parts.shape[1])), -1, np.int32)
        parts = np.concatenate((added.parts[:, :width], missing), axis=1)
        self.columns = Columns(
            np.concatenate((known.types, added.types)),
            np.concatenate((known.trees, added.trees)),
            np.concatenate((known.levels, added.levels)),
            np.concatenate((known.inputs, added.inputs)),
            np.concatenate((known.parts, parts)),
            np.concatenate((known.rows, added.rows)),
        )


def runs(sorted_values: npt.NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    """The bounds of each run of equal values."""
    edges = np.flatnonzero(np.diff(sorted_values)) + 1
    bounds = [0, *edges.tolist(), len(sorted_values)]
    yield from ((a, b) for a, b in itertools.pairwise(bounds) if a < b)
