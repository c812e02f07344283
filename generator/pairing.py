"""From classes to equations: terms of equal value in pairs, and terms whose two halves are both known."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from generator.classes import Indices, runs
from generator.enumeration import Enumeration
from generator.preset import Instance
from superopt.ir.terms import Application, Term, Variable
from superopt.ops.terms import application

Sides: TypeAlias = "tuple[tuple[Term, ...], tuple[Term, ...]]"
Masks: TypeAlias = "npt.NDArray[np.uint32]"

MERGE_SOURCES = 3
"""How many of the cheapest terms of a half's class are tried as an output of a merge."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Equations found, sources and targets not yet told apart; ``raw`` pairs had equal values."""

    sides: tuple[Sides, ...]
    raw: int


class RecordedTerms:
    """The terms of an enumeration as terms, and the cheapest ones of each class."""

    def __init__(self, enumeration: Enumeration, most: int) -> None:
        preset = enumeration.stage
        self._leaves: list[Term] = [Variable(tensor.name) for tensor in preset.inputs]
        self._leaves += [constant.term for constant in preset.constants]
        self._instances = preset.instances
        self._built: dict[int, Term] = {}
        table = enumeration.terms
        self._numbers = table.instances
        self._arguments = table.arguments
        self.classes = table.classes
        self.sizes = table.sizes
        self.masks = _input_masks(
            table.instances, table.arguments, enumeration.table.columns.inputs, len(preset.inputs)
        )
        order = np.lexsort((np.arange(len(table.sizes)), table.sizes, table.classes))
        starts = np.flatnonzero(np.diff(table.classes[order], prepend=-1))
        place = np.arange(len(order)) - np.repeat(starts, np.diff([*starts.tolist(), len(order)]))
        self.members: Indices = order[place < most].astype(np.int32)
        self.first: Indices = np.full(enumeration.table.count, -1, np.int32)
        self.first[table.classes[order[starts]]] = order[starts]

    def root(self, row: int) -> Instance | None:
        """The operator of a term, None for an input or constant."""
        number = int(self._numbers[row])
        return None if number < 0 else self._instances[number]

    def term(self, row: int) -> Term:
        """The term of a row, its arguments the cheapest terms of their classes."""
        built = self._built.get(row)
        if built is None:
            instance = self.root(row)
            arguments: list[int] = [a for a in self._arguments[row].tolist() if a >= 0]
            if instance is None:
                built = self._leaves[arguments[0]]
            else:
                inputs = (self.term(int(self.first[argument])) for argument in arguments)
                built = application(instance.name, dict(instance.attributes), *inputs)
            self._built[row] = built
        return built


def single_outputs(terms: RecordedTerms, enumeration: Enumeration) -> Pairing:
    """Every recorded term with every other of its class, without renamings and free variables in targets."""
    classes = terms.classes[terms.members]
    by_count: dict[int, list[int]] = {}
    for start, stop in runs(classes):
        if stop - start > 1:
            by_count.setdefault(stop - start, []).append(start)
    sides: list[Sides] = []
    raw = 0
    for count, starts in sorted(by_count.items()):
        i, j = np.triu_indices(count, 1)
        rows = terms.members[np.array(starts)[:, None] + np.arange(count)]
        left, right = rows[:, i].reshape(-1), rows[:, j].reshape(-1)
        raw += len(left)
        for a, b in _useful(terms, enumeration, left, right):
            sides.append(((terms.term(a),), (terms.term(b),)))
    return Pairing(tuple(sides), raw)


def merges(terms: RecordedTerms, enumeration: Enumeration) -> Pairing:
    """Two terms that are the halves of a third one, which shares their work (dissertation, figure 2.2b).

    A pair that falls into two independent equations is none: some output needs a variable of the other.
    Nor is one without a common input, which would match any two places of a graph.
    """
    columns = enumeration.table.columns
    every = np.arange(enumeration.table.count, dtype=np.int32)
    every = every[columns.rows[every] >= 0]
    by_class = _rows_by_class(terms)
    sides: list[Sides] = []
    raw = 0
    for first, second in _split_pairs(enumeration.stage.instances):
        zero, one = enumeration.halves(first, every), enumeration.halves(second, every)
        found = np.flatnonzero((zero >= 0) & (one >= 0))
        for whole, a, b in zip(every[found].tolist(), zero[found].tolist(), one[found].tolist(), strict=True):
            for row in by_class.get(whole, []):
                root = terms.root(row)
                if root is None or (root.name == "concat" and dict(root.attributes)["axis"] == first.axis):
                    continue
                sources = itertools.product(_cheapest(terms, by_class[a]), _cheapest(terms, by_class[b]))
                for left, right in sources:
                    raw += 1
                    if _shares(terms, row, left, right):
                        sides.append(_merge(terms, row, left, right, first, second))
    return Pairing(tuple(sides), raw)


def _cheapest(terms: RecordedTerms, rows: list[int]) -> list[int]:
    return [row for row in rows[:MERGE_SOURCES] if terms.sizes[row] == terms.sizes[rows[0]]]


def _merge(
    terms: RecordedTerms, whole: int, left: int, right: int, first: Instance, second: Instance
) -> Sides:
    term = terms.term(whole)
    halves = (application(half.name, dict(half.attributes), term) for half in (first, second))
    return (terms.term(left), terms.term(right)), tuple(halves)


def _shares(terms: RecordedTerms, whole: int, left: int, right: int) -> bool:
    if terms.root(left) is None or terms.root(right) is None:
        return False
    target, a, b = (int(terms.masks[row]) for row in (whole, left, right))
    if target & ~(a | b) or not (target & ~a or target & ~b) or not a & b:
        return False
    term = terms.term(whole)
    return not any(
        isinstance(half, Application) and half.operator in ("split0", "split1") and half.inputs[0] == term
        for half in (terms.term(left), terms.term(right))
    )


def _split_pairs(instances: tuple[Instance, ...]) -> Iterator[tuple[Instance, Instance]]:
    for first, second in itertools.product(instances, repeat=2):
        if (first.name, second.name) == ("split0", "split1") and first.axis == second.axis:
            yield first, second


def _rows_by_class(terms: RecordedTerms) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = {}
    for start, stop in runs(terms.classes[terms.members]):
        members = terms.members[start:stop].tolist()
        rows[int(terms.classes[members[0]])] = members
    return rows


def _useful(
    terms: RecordedTerms, enumeration: Enumeration, left: Indices, right: Indices
) -> Iterator[tuple[int, int]]:
    """Pairs of which one side binds the variables of the other, and that use inputs of a type in order."""
    a, b = terms.masks[left], terms.masks[right]
    bound = ((a & ~b) == 0) | ((b & ~a) == 0)
    kept = bound & enumeration.canonical(np.stack((a, b), axis=1))
    yield from zip(left[kept].tolist(), right[kept].tolist(), strict=True)


def _input_masks(instances: Indices, arguments: Indices, inputs: Masks, count: int) -> Masks:
    """[terms] the variables of each term as bits."""
    of_arguments = np.where(arguments >= 0, inputs[np.maximum(arguments, 0)], np.uint32(0))
    masks = np.bitwise_or.reduce(of_arguments, axis=1).astype(np.uint32)
    leaves = np.flatnonzero(instances < 0)
    index = arguments[leaves, 0]
    masks[leaves] = np.where(index < count, np.uint32(1) << index.astype(np.uint32), np.uint32(0))
    return masks
