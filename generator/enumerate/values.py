"""Values of class representatives: stored in memory or files for lower levels, else recomputed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import Array, Device, namespace, reshaped
from superopt.domains.small_field import SmallArray, SmallFieldDomain
from superopt.generator.enumerate.applications import Applications
from superopt.generator.enumerate.classes import ClassTable, TypeId
from superopt.generator.enumerate.fingerprints import VECTORS
from superopt.generator.enumerate.joins import Indices, distinct_rows
from superopt.generator.enumerate.linear_maps import CHUNK_ELEMENTS, evaluated
from superopt.generator.enumerate.spill import Overflow, Written
from superopt.generator.enumerate.terms import TermTable
from superopt.ops import Operator


@dataclass
class _Block:
    """Ascending classes of one type and their values: each part [vectors, classes, ...] on the device, or in
    the file."""

    classes: Indices
    parts: tuple[Array | Written | None, ...]


@dataclass
class _Typed:
    blocks: list[_Block] = field(default_factory=list[_Block])


class Values:
    """Values by class on a device. Beyond ``limit`` bytes they spill to ``overflow``."""

    def __init__(
        self, table: ClassTable, applications: Applications, overflow: Overflow, limit: int, device: Device
    ) -> None:
        self._device = device
        self._domain = SmallFieldDomain(device)
        self._table = table
        self._applications = applications
        self._overflow = overflow
        self._limit = limit
        self._held = 0
        self._typed: dict[TypeId, _Typed] = {}
        self.terms: TermTable | None = None
        """The recorded terms, from which values are recomputed."""

    def store(self, type_: TypeId, classes: Indices) -> None:
        """Computes and stores the values of ascending classes newer than all stored ones."""
        step = self.step(type_)
        blocks = [self.take(type_, classes[start : start + step]) for start in range(0, len(classes), step)]
        self.keep(type_, classes, _joined(blocks))

    def keep(self, type_: TypeId, classes: Indices, values: SmallArray) -> None:
        """Stores values stacked by test vector, then class."""
        carried = (values.residue, values.shadow, values.exponent)
        parts = [None if part is None else _by_vector(part) for part in carried]
        kept: list[Array | Written | None] = list(parts)
        if self._held + values.bytes > self._limit:
            for index, part in enumerate(parts):
                if part is not None:
                    kept[index] = self._overflow.write(self._device.get(part))
        else:
            self._held += values.bytes
        self._typed.setdefault(type_, _Typed()).blocks.append(_Block(classes, tuple(kept)))

    def step(self, type_: TypeId) -> int:
        """The number of values of a type per call."""
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
                found.append((places, self._gathered(block, at[places])))
                rest &= ~here
        if rest.any():
            found += self._computed(np.flatnonzero(rest), classes)
        if len(found) == 1:
            return found[0][1]
        order = np.empty(len(classes), np.intp)
        order[np.concatenate([places for places, _ in found])] = np.arange(len(classes))
        return self.selected(_joined([values for _, values in found]), order)

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
            operator = self._applications.bound(operator, known)
            yield number, known, operator, order[bounds[index] : bounds[index + 1]]

    def of_terms(self, operator: Operator, types: tuple[TypeId, ...], arguments: Indices) -> SmallArray:
        """The values of an operator on argument classes [n, arity]."""
        values = [self.take(type_, arguments[:, place]) for place, type_ in enumerate(types)]
        return self.evaluated(operator, values)

    def evaluated(self, operator: Operator, arguments: Sequence[SmallArray]) -> SmallArray:
        """The one result of an operator."""
        return evaluated(operator, arguments, self._domain)

    def selected(self, values: SmallArray, rows: npt.NDArray[np.intp]) -> SmallArray:
        """Some of the values of a stack of all test vectors."""
        places = self._device.put(rows)
        return values.each(lambda part: _flat(_taken(_by_vector(part), places)))

    def _gathered(self, block: _Block, rows: npt.NDArray[np.intp]) -> SmallArray:
        places = self._device.put(rows)
        residue, shadow, exponent = (self._rows_of(part, rows, places) for part in block.parts)
        assert residue is not None
        return SmallArray(residue, shadow, exponent)

    def _rows_of(
        self, part: Array | Written | None, rows: npt.NDArray[np.intp], places: Array
    ) -> Array | None:
        """``places`` are the rows on the device."""
        if part is None:
            return None
        if isinstance(part, Written):
            read = self._overflow.mapped(part)[:, rows]
            return _flat(self._device.put(np.ascontiguousarray(read)))
        return _flat(_taken(part, places))


def _by_vector(part: Array) -> Array:
    return reshaped(part, (VECTORS, -1, *part.shape[1:]))


def _flat(part: Array) -> Array:
    return reshaped(part, (-1, *part.shape[2:]))


def _taken(part: Array, places: Array) -> Array:
    return namespace(part).take(part, places, axis=1)


def _joined(blocks: list[SmallArray]) -> SmallArray:
    """Stacks of all test vectors, one after another at each vector."""
    return blocks[0] if len(blocks) == 1 else _each(blocks, _concatenated)


def _each(values: Sequence[SmallArray], function: Callable[[list[Array]], Array]) -> SmallArray:
    """Applies a function to the parts of each component of residues."""
    shadows = [v.shadow for v in values if v.shadow is not None]
    exponents = [v.exponent for v in values if v.exponent is not None]
    return SmallArray(
        function([v.residue for v in values]),
        function(shadows) if shadows else None,
        function(exponents) if exponents else None,
    )


def _concatenated(parts: Sequence[Array]) -> Array:
    return _flat(namespace(parts[0]).concat([_by_vector(part) for part in parts], axis=1))
