"""Structural hashes of terms, such that equations equal up to renaming get equal keys.

The hash of a term is linear in its leaves, so that renaming variables in millions of pairs takes a few array
operations without building terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.joins import Indices
from superopt.generator.presets.preset import InputType, Stage

Hashes: TypeAlias = "npt.NDArray[np.uint64]"
Rows: TypeAlias = "npt.NDArray[np.intp]"

CHUNK = 1 << 15
_SEED = 20261122
_ABSENT = 1 << 20
_MOST_LEAVES = 1 << 16


@dataclass(frozen=True, slots=True)
class Structures:
    """[n] terms: hash of the form, height, leaves, operators; [n, leaves] where each leaf stands, and first.

    ``places`` sums a weight per occurrence of an input or constant; ``first`` is the number of leaves before
    the first occurrence, ABSENT if there is none. Leaves and operators are counted in the tree.
    """

    forms: Hashes
    heights: Indices
    leaves: Indices
    operators: Indices
    places: Hashes
    first: Indices

    def take(self, rows: Rows | Indices) -> Structures:
        """The structures of some of the terms."""
        return Structures(
            self.forms[rows],
            self.heights[rows],
            self.leaves[rows],
            self.operators[rows],
            self.places[rows],
            self.first[rows],
        )


class Grammar:
    """Weights for argument positions of operators and for inputs, from which structures are computed."""

    def __init__(self, stage: Stage, arity: int) -> None:
        random = np.random.default_rng(_SEED)
        count = len(stage.inputs)
        self._salts = _random(random, (len(stage.instances),))
        self._weights = _random(random, (len(stage.instances), stage.max_ops + 1, arity))
        self._types: dict[InputType, list[int]] = {}
        for index, tensor in enumerate(stage.inputs):
            self._types.setdefault(tensor.type, []).append(index)
        self._inputs = np.arange(count)
        self._constants = np.arange(count, count + len(stage.constants))
        self._ranks = _random(random, (count + 1,))
        self._constant_salts = _random(random, (len(stage.constants),))
        self._leaf_salt = _random(random, (1,))
        self._sides = _random(random, (8,))

    def leaves(self, stage: Stage) -> Structures:
        """The inputs and constants."""
        count = len(stage.inputs) + len(stage.constants)
        zeros = np.zeros(count, np.int32)
        first = np.where(np.eye(count, dtype=bool), 0, _ABSENT).astype(np.int32)
        return Structures(
            np.repeat(self._leaf_salt, count), zeros, zeros + 1, zeros, np.eye(count, dtype=np.uint64), first
        )

    def applied(self, instances: Indices, arguments: Indices, classes: Structures) -> Structures:
        """Operators applied to terms; ``arguments`` [n, arity] are rows of ``classes``, -1 for none."""
        given = arguments >= 0
        known = np.maximum(arguments, 0)
        heights = np.where(given, classes.heights[known], 0).max(axis=1) + 1
        weights = np.where(given, self._weights[instances, heights], np.uint64(0))
        leaves = np.where(given, classes.leaves[known], 0)
        operators = np.where(given, classes.operators[known], 0).sum(axis=1) + 1
        before = np.cumsum(leaves, axis=1) - leaves
        places = np.zeros((len(instances), classes.places.shape[1]), np.uint64)
        first = np.full(places.shape, _ABSENT, np.int32)
        forms = self._salts[instances].copy()
        for place in range(arguments.shape[1]):
            column, weight = known[:, place], weights[:, place]
            forms += weight * classes.forms[column]
            places += weight[:, None] * classes.places[column]
            shifted = np.minimum(classes.first[column] + before[:, place, None], _ABSENT)
            first = np.minimum(first, np.where(given[:, place, None], shifted, _ABSENT))
        return Structures(
            _mixed(forms),
            heights.astype(np.int32),
            np.minimum(leaves.sum(axis=1), _MOST_LEAVES).astype(np.int32),
            np.minimum(operators, _MOST_LEAVES).astype(np.int32),
            places,
            first.astype(np.int32),
        )

    def keys(self, left: Structures, right: Structures) -> Hashes:
        """[n] one key per pair, independent of the order of sides and the names of inputs."""
        return self._unordered((left, right), self._inputs)

    def ordered_keys(self, sides: Sequence[Structures], salts: Indices) -> Hashes:
        """[n] one key for each tuple of terms, with a number that belongs to it."""
        return self._key(sides, self._inputs, salts)

    def identified(self, sides: Sequence[Structures], salts: Indices | None) -> Iterator[tuple[Rows, Hashes]]:
        """(rows, keys) of the tuples of terms with two inputs of one type identified."""
        used = np.minimum.reduce([side.first for side in sides]) < _ABSENT
        for members in self._types.values():
            for one, other in itertools.combinations(members, 2):
                rows = np.flatnonzero(used[:, one] & used[:, other])
                if len(rows):
                    made = [_joined(side.take(rows), one, other) for side in sides]
                    yield rows, self._keys_of(made, self._inputs, None if salts is None else salts[rows])

    def without_constants(
        self, sides: Sequence[Structures], salts: Indices | None
    ) -> Iterator[tuple[Rows, Hashes]]:
        """(rows, keys) of the tuples with a constant, replaced by a new input."""
        first = np.minimum.reduce([side.first for side in sides])
        for constant in self._constants.tolist():
            rows = np.flatnonzero(first[:, constant] < _ABSENT)
            if len(rows):
                made = [side.take(rows) for side in sides]
                variables = np.append(self._inputs, constant)
                yield rows, self._keys_of(made, variables, None if salts is None else salts[rows])

    def _keys_of(self, sides: Sequence[Structures], variables: Rows, salts: Indices | None) -> Hashes:
        return self._unordered(sides, variables) if salts is None else self._key(sides, variables, salts)

    def _unordered(self, sides: Sequence[Structures], variables: Rows) -> Hashes:
        none = np.zeros(len(sides[0].forms), np.int32)
        return np.minimum(self._key(sides, variables, none), self._key(sides[::-1], variables, none))

    def _key(self, sides: Sequence[Structures], variables: Rows, salts: Indices) -> Hashes:
        """Variables are numbered in the order in which they occur."""
        order = np.full((len(salts), len(variables)), _ABSENT)
        before = np.zeros(len(salts), np.int64)
        occurrences = np.zeros(sides[0].places.shape, np.uint64)
        key = salts.astype(np.uint64)
        for side, form_weight, place_weight in zip(sides, self._sides, self._sides[::-1], strict=False):
            order = np.minimum(order, before[:, None] + side.first[:, variables])
            before += side.leaves
            occurrences += side.places * place_weight
            key += side.forms * form_weight
        ranks = np.argsort(np.argsort(order, axis=1, kind="stable"), axis=1)
        key = _mixed(key) + (self._ranks[ranks] * occurrences[:, variables]).sum(axis=1, dtype=np.uint64)
        for salt, constant in zip(self._constant_salts, self._constants.tolist(), strict=True):
            if constant not in variables:
                key += salt * occurrences[:, constant]
        return _mixed(key)


def _joined(structures: Structures, one: int, other: int) -> Structures:
    """The terms with the input ``other`` renamed to ``one``."""
    places, first = structures.places.copy(), structures.first.copy()
    places[:, one] += places[:, other]
    places[:, other] = 0
    first[:, one] = np.minimum(first[:, one], first[:, other])
    first[:, other] = _ABSENT
    return replace(structures, places=places, first=first)


def _random(random: np.random.Generator, shape: tuple[int, ...]) -> Hashes:
    return random.integers(0, 1 << 63, shape, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _mixed(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64."""
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def hashed_rows(instances: Indices, arguments: Indices) -> Hashes:
    """[n] one key per application of an operator to classes."""
    key = _mixed(instances.astype(np.uint64) + np.uint64(1))
    for place in range(arguments.shape[1]):
        key = _mixed(key * np.uint64(3) + arguments[:, place].astype(np.int64).astype(np.uint64))
    return key
