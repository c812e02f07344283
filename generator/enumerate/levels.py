"""The terms of a level as index arrays of driver and partner classes, without computing values.

The *driver* of an application is its largest argument (the first of equal ones). Classes of a type and level
are processed in blocks as drivers, so that the values of a block are reused by all applications.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.applications import Applications, Types
from superopt.generator.enumerate.classes import ClassTable, TypeId
from superopt.generator.enumerate.joins import OVERLAP_LIMIT, Indices, Tuples, common, tuples_of_size
from superopt.generator.presets.preset import InputType, Stage
from superopt.ops import Operator

BLOCK_ELEMENTS = 1 << 19
"""Number of elements of the values of a block of drivers at one test vector."""

PIECE_PAIRS = 1 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Drivers of terms of ``size`` operators: some classes of a type and level; or tuples of an instance."""

    type: TypeId
    level: int
    size: int
    start: int
    stop: int
    number: int = -1
    arguments: Types = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Applications of one operator to classes of given types.

    ``drivers`` are rows of the block. Dense: all combinations of drivers and partners, filtered by ``kept``;
    otherwise drivers and partners are paired by index. Tuples: ``partners`` [n, arity] are all arguments.
    """

    number: int
    operator: Operator
    types: Types
    output: TypeId
    place: int
    drivers: npt.NDArray[np.intp]
    partners: Indices
    kept: npt.NDArray[np.bool_] | None = None

    @property
    def count(self) -> int:
        """The number of terms."""
        return len(self.partners) if self.kept is None else int(np.count_nonzero(self.kept))

    def pairs(self) -> tuple[npt.NDArray[np.intp], Indices]:
        """(drivers, partners) of every term; without drivers for tuples."""
        if self.kept is None:
            return self.drivers, self.partners[:, 0]
        rows, columns = np.nonzero(self.kept)
        return self.drivers[rows], self.partners[columns, 0]

    def those(self, chosen: npt.NDArray[np.bool_]) -> Piece:
        """Some of the terms: ``chosen`` [count], or [drivers, partners] of a dense piece."""
        if self.kept is not None:
            return replace(self, kept=self.kept & chosen)
        drivers = self.drivers[chosen] if self.place >= 0 else self.drivers
        return replace(self, drivers=drivers, partners=self.partners[chosen])

    def arguments(self, classes: Indices) -> Indices:
        """[count, arity] the arguments of every term, for the classes of the block."""
        if len(self.types) != 2:
            return self.partners
        drivers, partners = self.pairs()
        pair = (classes[drivers], partners) if self.place == 0 else (partners, classes[drivers])
        return np.stack(pair, axis=1)


class Levels:
    """The blocks of a level and their pieces, from the classes of all levels below."""

    def __init__(self, stage: Stage, table: ClassTable, applications: Applications) -> None:
        self._stage = stage
        self._table = table
        self._applications = applications
        self._members: dict[tuple[TypeId, int], Indices] = {}
        self._largest: dict[tuple[TypeId, int], Indices] = {}
        self._types: list[TypeId] = []
        self._accepted: dict[tuple[int, TypeId], list[tuple[int, Types, TypeId]]] = {}
        self._parts: dict[tuple[TypeId, int], tuple[Indices, npt.NDArray[np.intp]]] = {}
        self.commutative: frozenset[int] = frozenset()

    def close(self, level: int) -> None:
        """Records the classes of a completed level."""
        columns = self._table.columns
        classes = np.flatnonzero(columns.levels == level)
        types = columns.types[classes]
        for type_ in np.unique(types).tolist():
            self._members[type_, level] = classes[types == type_].astype(np.int32)
        self._types = sorted({type_ for type_, _ in self._members})
        self._accepted.clear()

    def members(self, type_: TypeId, level: int) -> Indices:
        """The classes of a type added by a level."""
        return self._members.get((type_, level), np.empty(0, np.int32))

    def classes(self, block: Block) -> Indices:
        """The drivers of a block."""
        return self._drivers(block.type, block.level, block.size)[block.start : block.stop]

    def blocks(self, size: int) -> Iterator[tuple[Block, int]]:
        """The blocks of terms of ``size`` operators, each with its approximate number of pairs."""
        for type_, level in sorted(self._members):
            classes = self._drivers(type_, level, size)
            weight = self._weight(type_, level, size)
            elements = int(np.prod(self._table.types[type_].shape, dtype=np.int64))
            step = max(16, min(BLOCK_ELEMENTS // elements, PIECE_PAIRS * 4 // max(weight, 1)))
            if weight:
                for start in range(0, len(classes), step):
                    stop = min(start + step, len(classes))
                    yield Block(type_, level, size, start, stop), weight * (stop - start)
        for number, instance in enumerate(self._stage.instances):
            if max(len(roles) for roles, _ in instance.signatures) > 2:
                for arguments in self._applications.arguments(number, self._types):
                    yield Block(-1, -1, size, 0, 0, number, arguments), PIECE_PAIRS

    def pieces(self, block: Block) -> Iterator[Piece]:
        """All terms whose driver is in the block."""
        size = block.size
        if block.number >= 0:
            yield from self._tuples(block, size)
            return
        classes = self.classes(block)
        for number, instance in enumerate(self._stage.instances):
            for roles, _ in instance.signatures:
                if len(roles) == 1 and roles[0] == self._table.types[block.type].role:
                    yield from self._unary(number, block, classes, size)
            for place, types, output in self._pairs(number, block.type):
                operator = instance.operator
                assert operator is not None
                given = self._applications.bound(operator, types)
                for level in range(block.level + 1):
                    for drivers, partners, kept in self._partners(number, block, place, types, level, size):
                        yield Piece(number, given, types, output, place, drivers, partners, kept)

    def _drivers(self, type_: TypeId, level: int, size: int) -> Indices:
        """The classes of a type and level; for the largest ones before the last level only those that use
        inputs in order except for one, which a leaf partner may add.
        """
        members = self.members(type_, level)
        if level < size - 1 or size < self._stage.max_ops:
            return members
        if (type_, level) not in self._largest:
            masks, mask_of = np.unique(self._table.columns.inputs[members], return_inverse=True)
            bits = np.array([0, *(1 << index for index in range(len(self._stage.inputs)))], np.uint32)
            used = (masks[:, None] | bits).reshape(-1, 1)
            reach = self.canonical(used).reshape(-1, len(bits))
            in_reach = np.count_nonzero(reach, axis=1) > 0
            self._largest[type_, level] = members[in_reach[mask_of]]
        return self._largest[type_, level]

    def _weight(self, type_: TypeId, level: int, size: int) -> int:
        """Approximate number of terms per driver class of a type and level."""
        weight = 0
        for number, instance in enumerate(self._stage.instances):
            role = self._table.types[type_].role
            weight += sum(roles == (role,) for roles, _ in instance.signatures) * (level == size - 1)
            for place, types, _ in self._pairs(number, type_):
                partner = types[1 - place]
                weight += level if level == size - 1 else 0
                if level >= size - 1 - level >= 0:
                    weight += len(self.members(partner, size - 1 - level))
                elif level < size - 1:
                    weight += size - 1 <= OVERLAP_LIMIT
        return weight

    def _pairs(self, number: int, type_: TypeId) -> list[tuple[int, Types, TypeId]]:
        """(place of the driver, types of both, type of the result) for an instance of two arguments."""
        if (number, type_) not in self._accepted:
            self._accepted[number, type_] = list(self._tried_pairs(number, type_))
        return self._accepted[number, type_]

    def _tried_pairs(self, number: int, type_: TypeId) -> Iterator[tuple[int, Types, TypeId]]:
        known = self._table.types
        operator = self._stage.instances[number].operator
        for (roles, _), place in itertools.product(self._stage.instances[number].signatures, range(2)):
            if operator is None or len(roles) != 2 or roles[place] != known[type_].role:
                continue
            for other in self._types:
                if known[other].role == roles[1 - place]:
                    types = (type_, other) if place == 0 else (other, type_)
                    output = self._applications.output(number, types, operator)
                    if output is not None:
                        yield place, types, output

    def _unary(self, number: int, block: Block, classes: Indices, size: int) -> Iterator[Piece]:
        if block.level != size - 1:
            return
        columns = self._table.columns
        rows = np.arange(len(classes))
        if size == self._stage.max_ops:
            rows = rows[self.canonical(columns.inputs[classes][:, None])]
        trees = columns.trees[classes[rows]]
        whole = self._stage.instances[number].operator is not None
        for tree in [int(trees[0])] if whole and len(rows) else np.unique(trees).tolist():
            operator = self._applications.operator(number, block.type, tree)
            if operator is None:
                continue
            output = self._applications.output(number, (block.type,), operator)
            if output is not None:
                drivers = rows if whole else rows[trees == tree]
                given = self._applications.bound(operator, (block.type,))
                yield Piece(number, given, (block.type,), output, 0, drivers, classes[drivers][:, None])

    def _partners(
        self, number: int, block: Block, place: int, types: Types, level: int, size: int
    ) -> Iterator[tuple[npt.NDArray[np.intp], Indices, npt.NDArray[np.bool_] | None]]:
        """(drivers, partners, kept) for partners of one level."""
        total = size - 1
        if block.level + level < total or block.level > total:
            return
        twins = types[0] == types[1]
        commutes = twins and number in self.commutative
        if place == (1 if level == block.level else 0) and (commutes or level == block.level):
            return
        classes = self.classes(block)
        partner = types[1 - place]
        others = self.members(partner, level)
        if not len(others):
            return
        if block.level + level > total:
            drivers, chosen = self._overlapping(block, classes, partner, level, total)
            if commutes and level == block.level:
                ordered = classes[drivers] <= chosen
                drivers, chosen = drivers[ordered], chosen[ordered]
            if size == self._stage.max_ops and len(drivers):
                inputs = self._table.columns.inputs
                good = self.canonical(np.stack((inputs[classes[drivers]], inputs[chosen]), axis=1))
                drivers, chosen = drivers[good], chosen[good]
            if len(drivers):
                yield drivers, chosen[:, None], None
            return
        step = max(1, PIECE_PAIRS // len(classes))
        for start in range(0, len(others), step):
            some = others[start : start + step]
            kept = self._disjoint(block, classes, partner, level, start, len(some))
            if commutes and level == block.level:
                kept &= classes[:, None] <= some
            if size == self._stage.max_ops:
                kept &= self._canonical_pairs(classes, some)
            if kept.any():
                yield np.arange(len(classes)), some[:, None], kept

    def _overlapping(
        self, block: Block, classes: Indices, partner: TypeId, level: int, total: int
    ) -> tuple[npt.NDArray[np.intp], Indices]:
        """Pairs that share work and need ``total`` operators together.

        If the driver alone has ``total`` operators, the partner is a part of it or equal to it.
        """
        columns = self._table.columns
        parts = columns.parts[classes]
        if block.level == total:
            known = np.maximum(parts, 0)
            inside = (parts >= 0) & (columns.types[known] == partner) & (columns.levels[known] == level)
            drivers, places = np.nonzero(inside)
            return drivers, parts[drivers, places]
        if total > OVERLAP_LIMIT:
            return np.empty(0, np.intp), np.empty(0, np.int32)
        drivers, places = self._sharing(parts, partner, level)
        chosen = self.members(partner, level)[places]
        together = block.level + level - common(parts[drivers], columns.parts[chosen])
        distinct = np.unique(np.stack((drivers, places))[:, together == total], axis=1)
        return distinct[0], self.members(partner, level)[distinct[1]]

    def _disjoint(
        self, block: Block, classes: Indices, partner: TypeId, level: int, start: int, count: int
    ) -> npt.NDArray[np.bool_]:
        """[drivers, partners] whether they share no part."""
        kept = np.ones((len(classes), count), bool)
        if level:
            drivers, places = self._sharing(self._table.columns.parts[classes], partner, level)
            here = (places >= start) & (places < start + count)
            kept[drivers[here], places[here] - start] = False
        return kept

    def _sharing(
        self, parts: Indices, partner: TypeId, level: int
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """(row, place among the partners) for every part that both have: an equi-join on sorted parts."""
        key = (partner, level)
        if key not in self._parts:
            theirs = self._table.columns.parts[self.members(partner, level)]
            places, columns = np.nonzero(theirs >= 0)
            values = theirs[places, columns]
            order = np.argsort(values, kind="stable")
            self._parts[key] = values[order], places[order]
        values, places = self._parts[key]
        rows, columns = np.nonzero(parts >= 0)
        first = np.searchsorted(values, parts[rows, columns], "left")
        counts = np.searchsorted(values, parts[rows, columns], "right") - first
        starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
        return np.repeat(rows, counts), places[np.arange(len(starts)) + starts]

    def _tuples(self, block: Block, size: int) -> Iterator[Piece]:
        columns = self._table.columns
        operator = self._stage.instances[block.number].operator
        assert operator is not None
        output = self._applications.output(block.number, block.arguments, operator)
        if output is None:
            return
        places: list[Tuples] = []
        for type_ in block.arguments:
            classes = np.concatenate([self.members(type_, level) for level in range(size)])
            places.append(Tuples(classes[:, None], columns.parts[classes], columns.levels[classes]))
        for found in tuples_of_size(places, size - 1):
            chosen = found
            if size == self._stage.max_ops:
                chosen = chosen[self.canonical(columns.inputs[chosen])]
            if len(chosen):
                given = self._applications.bound(operator, block.arguments)
                yield Piece(block.number, given, block.arguments, output, -1, np.empty(0, np.intp), chosen)

    def canonical(self, inputs: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Whether the inputs of each type are used from the first on: other terms are renamings."""
        used = np.bitwise_or.reduce(inputs, axis=1)
        good = np.ones(len(used), bool)
        by_type: dict[InputType, list[int]] = {}
        for index, tensor in enumerate(self._stage.inputs):
            by_type.setdefault(tensor.type, []).append(index)
        for indices in by_type.values():
            for earlier, later in itertools.pairwise(indices):
                good &= ((used >> np.uint32(earlier)) & 1) >= ((used >> np.uint32(later)) & 1)
        return good

    def _canonical_pairs(self, left: Indices, right: Indices) -> npt.NDArray[np.bool_]:
        """[left, right] whether both together use inputs in order."""
        inputs = self._table.columns.inputs
        rows, row_of = np.unique(inputs[left], return_inverse=True)
        columns, column_of = np.unique(inputs[right], return_inverse=True)
        pairs = np.stack((np.repeat(rows, len(columns)), np.tile(columns, len(rows))), axis=1)
        return self.canonical(pairs).reshape(len(rows), len(columns))[row_of][:, column_of]
