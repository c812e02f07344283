"""Values of representatives: stored for the lower levels, in memory or in files, or computed again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from generator.applications import Applications
from generator.classes import ClassTable, TypeId
from generator.fingerprints import VECTORS
from generator.forms import CHUNK_ELEMENTS, evaluated
from generator.joins import Indices, distinct_rows
from generator.terms import TermTable
from superopt.domains import Array
from superopt.domains.small_field import SmallArray
from superopt.ops import Operator


@dataclass
class _Block:
    """Ascending classes of one type and their values, each part [vectors, classes, ...] or the file of it."""

    classes: Indices
    parts: tuple[Array | Path | None, ...]


@dataclass
class _Typed:
    blocks: list[_Block] = field(default_factory=list[_Block])


class Values:
    """Values by class. What outgrows ``limit`` bytes is written to ``folder``."""

    def __init__(self, table: ClassTable, applications: Applications, folder: Path, limit: int) -> None:
        self._table = table
        self._applications = applications
        self._folder = folder
        self._limit = limit
        self._held = 0
        self._files = 0
        self._typed: dict[TypeId, _Typed] = {}
        self.terms: TermTable | None = None
        """The recorded terms, from which values are computed again."""

    def store(self, type_: TypeId, classes: Indices) -> None:
        """Computes and keeps the values of ascending classes, newer than all that are kept."""
        step = self.step(type_)
        blocks = [self.take(type_, classes[start : start + step]) for start in range(0, len(classes), step)]
        self.keep(type_, classes, _joined(blocks))

    def keep(self, type_: TypeId, classes: Indices, values: SmallArray) -> None:
        """Keeps values whose stack holds all classes at the first test vector, then at the next ones."""
        parts = [_by_vector(part) for part in (values.residue, values.shadow, values.exponent)]
        kept: list[Array | Path | None] = list(parts)
        if self._held + values.bytes > self._limit:
            for index, part in enumerate(parts):
                if part is not None:
                    kept[index] = self._written(part)
        else:
            self._held += values.bytes
        self._typed.setdefault(type_, _Typed()).blocks.append(_Block(classes, tuple(kept)))

    def step(self, type_: TypeId) -> int:
        """How many values of a type are worth one call."""
        elements = int(np.prod(self._table.types[type_].shape, dtype=np.int64))
        return max(1, 2 * CHUNK_ELEMENTS // (elements * VECTORS))

    def take(self, type_: TypeId, classes: Indices) -> SmallArray:
        """The values of classes of one type: all at the first test vector, then at the next ones."""
        typed = self._typed.get(type_, _Typed())
        found: list[tuple[npt.NDArray[np.intp], SmallArray]] = []
        rest = np.ones(len(classes), bool)
        for block in typed.blocks:
            at = np.searchsorted(block.classes, classes)
            at[at == len(block.classes)] = 0
            here = block.classes[at] == classes
            if here.any():
                places = np.flatnonzero(here)
                found.append((places, _gathered(block, at[places])))
                rest &= ~here
        if rest.any():
            found += self._computed(np.flatnonzero(rest), classes)
        if len(found) == 1:
            return found[0][1] if len(found[0][0]) == len(classes) else _scattered(found, len(classes))
        return _scattered(found, len(classes))

    def _computed(
        self, places: npt.NDArray[np.intp], classes: Indices
    ) -> Iterator[tuple[npt.NDArray[np.intp], SmallArray]]:
        """The values at some places, by what computes them."""
        for number, types, operator, rows in self.grouped(classes[places]):
            assert self.terms is not None
            arguments = self.terms.arguments[self._table.columns.rows[classes[places[rows]]], : len(types)]
            del number
            yield places[rows], self.of_terms(operator, types, arguments)

    def grouped(
        self, classes: Indices
    ) -> Iterator[tuple[int, tuple[TypeId, ...], Operator, npt.NDArray[np.intp]]]:
        """The representatives of classes by (instance, types of arguments, operator): (..., their places)."""
        assert self.terms is not None
        columns = self._table.columns
        terms = columns.rows[classes]
        yield from self.grouped_terms(self.terms.instances[terms], self.terms.arguments[terms])

    def grouped_terms(
        self, instances: Indices, arguments: Indices
    ) -> Iterator[tuple[int, tuple[TypeId, ...], Operator, npt.NDArray[np.intp]]]:
        """Terms by (instance, types of arguments, operator): (..., their places)."""
        columns = self._table.columns
        types = np.where(arguments >= 0, columns.types[arguments], -1)
        kinds = np.concatenate((instances[:, None], types, columns.trees[arguments[:, :1]]), axis=1)
        halves = self._applications.halves
        kinds[~halves[instances], -1] = -1
        distinct, inverse = distinct_rows(kinds)
        order = np.argsort(inverse, kind="stable")
        bounds = np.searchsorted(inverse[order], np.arange(len(distinct) + 1))
        for index, (number, *kind, trees) in enumerate(distinct.tolist()):
            known = tuple(t for t in kind if t >= 0)
            operator = self._applications.operator(number, known[0], trees)
            assert operator is not None
            yield number, known, operator, order[bounds[index] : bounds[index + 1]]

    def of_terms(self, operator: Operator, types: tuple[TypeId, ...], arguments: Indices) -> SmallArray:
        """The values of an operator on argument classes [n, arity]."""
        return evaluated(
            operator, [self.take(type_, arguments[:, place]) for place, type_ in enumerate(types)]
        )

    def _written(self, part: Array) -> Path:
        self._files += 1
        path = self._folder / f"values{self._files}.npy"
        np.save(path, part)
        return path


def selected(values: SmallArray, rows: npt.NDArray[np.intp]) -> SmallArray:
    """Some of the values of a stack of all test vectors."""
    return values.each(
        lambda part: part.reshape(VECTORS, -1, *part.shape[1:])[:, rows].reshape(-1, *part.shape[1:])
    )


def _by_vector(part: Array | None) -> Array | None:
    return None if part is None else part.reshape(VECTORS, -1, *part.shape[1:])


def _gathered(block: _Block, rows: npt.NDArray[np.intp]) -> SmallArray:
    residue, shadow, exponent = (_rows_of(part, rows) for part in block.parts)
    assert residue is not None
    return SmallArray(residue, shadow, exponent)


def _rows_of(part: Array | Path | None, rows: npt.NDArray[np.intp]) -> Array | None:
    if part is None:
        return None
    values = np.load(part, mmap_mode="r") if isinstance(part, Path) else part
    return np.ascontiguousarray(values[:, rows]).reshape(-1, *values.shape[2:])


def _joined(blocks: list[SmallArray]) -> SmallArray:
    """Stacks of all test vectors, one after another at each vector."""
    if len(blocks) == 1:
        return blocks[0]
    places: list[tuple[npt.NDArray[np.intp], SmallArray]] = []
    start = 0
    for block in blocks:
        stop = start + len(block.residue) // VECTORS
        places.append((np.arange(start, stop), block))
        start = stop
    return _scattered(places, start)


def _scattered(found: list[tuple[npt.NDArray[np.intp], SmallArray]], count: int) -> SmallArray:
    def put(parts: list[Array | None]) -> Array | None:
        first = parts[0]
        if first is None:
            return None
        whole = np.empty((VECTORS, count, *first.shape[1:]), first.dtype)
        for (places, _), part in zip(found, parts, strict=True):
            assert part is not None
            whole[:, places] = part.reshape(VECTORS, -1, *part.shape[1:])
        return whole.reshape(-1, *first.shape[1:])

    residue = put([values.residue for _, values in found])
    assert residue is not None
    return SmallArray(
        residue, put([values.shadow for _, values in found]), put([values.exponent for _, values in found])
    )
