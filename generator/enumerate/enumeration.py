"""Enumeration of all terms of a stage by level; only one representative per value class is extended.

The size of a term counts shared operators once. The last level is by far the largest: it is computed in parts
that yield only keys, and only those of its terms are recorded that equal another term or whose two halves
along some axis are known. There is no loop over terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import HOST, Device
from superopt.domains.small_field import SmallArray, SmallFieldDomain, random_array
from superopt.errors import IllTypedError, UnsupportedError
from superopt.generator.enumerate.applications import Applications
from superopt.generator.enumerate.classes import ClassTable, Columns, Masks, TypeId, runs
from superopt.generator.enumerate.evaluation import Drivers, Evaluation
from superopt.generator.enumerate.fingerprints import VECTORS, Fingerprints, Keys
from superopt.generator.enumerate.joins import Indices, union
from superopt.generator.enumerate.last_level import LastLevel, Runs
from superopt.generator.enumerate.levels import Block, Levels, Piece
from superopt.generator.enumerate.linear_maps import evaluated
from superopt.generator.enumerate.spill import Overflow
from superopt.generator.enumerate.terms import TermTable, joined, padded
from superopt.generator.enumerate.values import Values
from superopt.generator.pair.halving import Halving, splits_of
from superopt.generator.presets.preset import ConstantTensor, InputType, Instance, Stage
from superopt.ops import Operator
from superopt.ops.bound import bound

SEED = 20261121

PART_PAIRS = 1 << 20
"""Approximate number of argument pairs per part of the last level."""

MEMORY_BYTES = 1 << 30
"""Memory for values and keys before they spill to files, without indices and temporary arrays."""


RECORDED_AT_ONCE = 1 << 18

REUSED_BYTES = 31 << 20
"""Allocating and freeing one array of this size raises glibc's mmap threshold, so that arrays up to it are
reused; otherwise page faults of temporary arrays take longer than the computation."""


@dataclass(frozen=True, slots=True)
class Level:
    """Counts after the level of ``ops`` operators: terms of exactly that size, total number of classes."""

    ops: int
    terms: int
    classes: int


class Enumeration:
    """The classes and terms of a stage. Constructed with all levels but the last, which ``complete`` adds; or
    call ``last_level`` for each of the ``parts``, in any process, and then ``finish``.

    Deterministic: equal stages give equal enumerations in any process and on any ``device``. Arrays beyond
    ``memory_bytes`` spill to a file.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        merges: bool = True,
        progress: Callable[[Level], None] | None = None,
        memory_bytes: int = MEMORY_BYTES,
        device: Device = HOST,
    ) -> None:
        self.stage = stage
        self.levels: list[Level] = []
        self.table = ClassTable(stage.max_ops)
        self._progress = progress
        self._memory_bytes = memory_bytes
        np.empty(REUSED_BYTES, np.uint8)
        self._overflow = Overflow()
        self._device = device
        self._fingerprints = Fingerprints(device)
        self._applications = Applications(stage, self.table)
        self._values = Values(self.table, self._applications, self._overflow, memory_bytes // 2, device)
        self._pieces = Levels(stage, self.table, self._applications)
        self.evaluation = Evaluation(self.table, self._pieces, self._values, self._fingerprints, device)
        leaves = self._leaves()
        self.terms = self._add_leaves(leaves)
        self.commutative = self._commuting(leaves)
        for size in range(1, stage.max_ops):
            self._add_level(size)
        self._parts = self._planned()
        splits = splits_of(stage.instances) if merges else ()
        self._halving = Halving(stage, self.table, self._applications, self.evaluation, splits)

    @property
    def parts(self) -> int:
        """The number of parts of the last level; depends only on the stage."""
        return len(self._parts)

    def complete(self) -> Enumeration:
        """Computes all parts of the last level in this process; returns itself."""
        self.finish(self.last_level(part) for part in range(self.parts))
        return self

    def last_level(self, part: int) -> LastLevel:
        """The keys of a part of the last level; the same in every process."""
        keys: list[Keys] = [np.empty(0, np.int64)]
        halved: list[npt.NDArray[np.bool_]] = [np.empty(0, bool)]
        for drivers, piece in self.last_pieces(part):
            keys.append(self.evaluation.keys(piece, drivers, self.evaluation.whole(piece.output)))
            halved.append(self._halving.known(piece, drivers))
        found = np.concatenate(keys)
        order = np.argsort(found, kind="stable")
        return LastLevel(part, found[order], order.astype(np.uint32), np.concatenate(halved)[order])

    def last_pieces(self, part: int) -> Iterator[tuple[Drivers, Piece]]:
        """The terms of a part in numbering order."""
        for block in self._parts[part]:
            drivers = self.evaluation.drivers(block)
            for piece in self._pieces.pieces(block):
                yield drivers, piece

    def finish(self, blocks: Iterable[LastLevel]) -> None:
        """Adds the last level from all its parts, in order."""
        size = self.stage.max_ops
        collected = Runs(self._overflow, self._memory_bytes // 2)
        for block in blocks:
            collected.add(block)
        before = self.table.count
        fresh, recorded = collected.merged(self.table.keys)
        instances, arguments = self._found_again(recorded.parts, recorded.places)
        self._record(instances, arguments, recorded.keys, size)
        self._pieces.close(size)
        self._report(Level(size, collected.terms, before + fresh))

    def canonical(self, inputs: Masks) -> npt.NDArray[np.bool_]:
        """Whether the inputs of each type are used in order without gaps; other terms are renamings."""
        return self._pieces.canonical(inputs)

    def classes_of(self, type_: InputType, values: SmallArray) -> Indices:
        """[n] the class of each of n values of a type, stacked as values of classes are; -1 if unknown."""
        return self.table.find(self._fingerprints.of(type_, values))

    def values_of(self, type_: TypeId, classes: Indices) -> SmallArray:
        """The values of classes of one type: all at the first test vector, then at the next ones."""
        return self._values.take(type_, classes)

    def halves(self, instances: Sequence[Instance], classes: Indices) -> Indices:
        """[instances, n] the classes of the halves of each given class, -1 if unknown or not splittable."""
        found = np.full((len(instances), len(classes)), -1, np.int32)
        columns = self.table.columns
        kinds, inverse = np.unique(
            np.stack((columns.types[classes], columns.trees[classes]), axis=1), axis=0, return_inverse=True
        )
        for index, (type_, trees) in enumerate(kinds.tolist()):
            cuts = list(self._cuts(instances, type_, trees))
            places = np.flatnonzero(inverse.reshape(-1) == index)
            step = self._values.step(type_)
            for start in range(0, len(places) if cuts else 0, step):
                block = places[start : start + step]
                whole = self._values.take(type_, classes[block])
                for place, cut, output in cuts:
                    keys = self._fingerprints.of(output, self._values.evaluated(cut, [whole]))
                    found[place, block] = self.table.find(keys)
        return found

    def _cuts(
        self, instances: Sequence[Instance], type_: TypeId, trees: int
    ) -> Iterator[tuple[int, Operator, InputType]]:
        """(its place, how it cuts values of this type, the type of its result) of each half that can be
        taken."""
        for place, instance in enumerate(instances):
            cut = self._applications.cut(instance, type_, trees)
            number = self.stage.instances.index(instance)
            output = None if cut is None else self._applications.output(number, (type_,), cut)
            if cut is not None and output is not None:
                yield place, cut, self.table.types[output]

    def _leaves(self) -> list[tuple[InputType, SmallArray]]:
        """The values of inputs, then constants, in the richest representation that the stage needs."""
        inputs = input_values(self.stage)
        leaves = [(tensor.type, inputs[tensor.name]) for tensor in self.stage.inputs]
        for constant in self.stage.constants:
            value = constant_value(constant, inputs)
            leaves.append((InputType(constant.role, value.residue.shape[1:]), value))
        for carry in (_residues, _with_shadows):
            reduced = [(type_, carry(value)) for type_, value in leaves]
            if self._suffices(reduced):
                return reduced
        return leaves

    def _suffices(self, leaves: list[tuple[InputType, SmallArray]]) -> bool:
        """Whether every operator of the stage can be evaluated on this representation."""
        by_role: dict[str, list[tuple[InputType, SmallArray]]] = {}
        for type_, value in leaves:
            by_role.setdefault(type_.role, []).append((type_, value))
        for number, instance in enumerate(self.stage.instances):
            if instance.operator is None:
                continue
            tried = False
            for roles, _ in instance.signatures:
                for chosen in itertools.product(*(by_role.get(role, []) for role in roles)):
                    types = tuple(self.table.type_id(type_) for type_, _ in chosen)
                    if tried or self._applications.output(number, types, instance.operator) is None:
                        continue
                    tried = True
                    try:
                        own = bound(instance.operator, tuple([type_.tensor for type_, _ in chosen]))
                        evaluated(own, [value for _, value in chosen])
                    except UnsupportedError:
                        return False
            if not tried and leaves[0][1].exponent is None:
                return False
        return True

    def _add_leaves(self, leaves: list[tuple[InputType, SmallArray]]) -> TermTable:
        placed = [value.each(self._device.put) for _, value in leaves]
        keys = [self._fingerprints.of(type_, value) for (type_, _), value in zip(leaves, placed, strict=True)]
        classes, fresh = self.table.classify(np.concatenate(keys))
        if len(fresh) < len(leaves):
            raise IllTypedError("two constants of the preset are equal")
        types = [self.table.type_id(type_) for type_, _ in leaves]
        bits = [1 << index if index < len(self.stage.inputs) else 0 for index in range(len(leaves))]
        count = len(leaves)
        self.table.describe(
            Columns(
                np.array(types, np.int32),
                np.array([self.table.trees_id(type_.shape) for type_, _ in leaves], np.int32),
                np.zeros(count, np.int8),
                np.array(bits, np.uint32),
                np.empty((count, 0), np.int32),
                np.arange(count, dtype=np.int32),
            )
        )
        for number, (type_, value) in enumerate(zip(types, placed, strict=True)):
            self._values.keep(type_, classes[number : number + 1], value)
        self._pieces.close(0)
        indices = np.arange(count, dtype=np.int32)[:, None]
        return TermTable(np.full(count, -1, np.int32), padded(indices), classes, np.zeros(count, np.int8))

    def _commuting(self, leaves: list[tuple[InputType, SmallArray]]) -> frozenset[int]:
        """The binary instances that are commutative on inputs."""
        found: set[int] = set()
        for number, instance in enumerate(self.stage.instances):
            operator = instance.operator
            if operator is None or any(len(r) != 2 or r[0] != r[1] for r, _ in instance.signatures):
                continue
            same: list[bool] = []
            for (a, x), (b, y) in itertools.combinations(leaves, 2):
                types = (self.table.type_id(a), self.table.type_id(b))
                there = self._applications.output(number, types, operator)
                back = self._applications.output(number, types[::-1], operator)
                if there is not None or back is not None:
                    same.append(there == back and _commutes(bound(operator, (a.tensor, b.tensor)), x, y))
            if same and all(same):
                found.add(number)
        return frozenset(found)

    def _add_level(self, size: int) -> None:
        instances: list[Indices] = [np.empty(0, np.int32)]
        arguments: list[Indices] = [padded(np.empty((0, 1), np.int32))]
        keys: list[Keys] = [np.empty(0, np.int64)]
        for block, _ in self._pieces.blocks(size):
            drivers = self.evaluation.drivers(block)
            for piece in self._pieces.pieces(block):
                keys.append(self.evaluation.keys(piece, drivers, self.evaluation.whole(piece.output)))
                arguments.append(padded(piece.arguments(drivers.classes)))
                instances.append(np.full(len(keys[-1]), piece.number, np.int32))
        found = np.concatenate(keys)
        self._record(np.concatenate(instances), np.concatenate(arguments), found, size)
        self._pieces.close(size)
        if size < self.stage.max_ops - 1:
            for type_ in range(len(self.table.types)):
                members = self._pieces.members(type_, size)
                if len(members):
                    self._values.store(type_, members)
        self._pieces.commutative = self.commutative
        self._report(Level(size, len(found), self.table.count))

    def _record(self, instances: Indices, arguments: Indices, keys: Keys, size: int) -> None:
        """Adds terms to the table, and new classes; the first term of a class is its representative.

        Terms are ordered by instance, then by the size of the first argument.
        """
        ranks = instances.astype(np.int16) * 16 + self.table.columns.levels[arguments[:, 0]]
        order = np.argsort(ranks, kind="stable")
        instances, arguments, keys = instances[order], arguments[order], keys[order]
        classes, fresh = self.table.classify(keys)
        first = len(self.terms.classes)
        sizes = np.full(len(keys), size, np.int8)
        self.terms = joined((self.terms, TermTable(instances, arguments, classes, sizes)))
        self._values.terms = self.terms
        columns = self.table.columns
        types = np.empty(len(fresh), np.int32)
        trees = np.empty(len(fresh), np.int32)
        for number, kinds, operator, rows in self._values.grouped_terms(instances[fresh], arguments[fresh]):
            output = self._applications.output(number, kinds, operator)
            assert output is not None
            types[rows] = output
            given = columns.trees[arguments[fresh[rows], : len(kinds)]]
            trees[rows] = self._applications.trees(number, kinds, output, given)
        inputs = np.empty(len(fresh), np.uint32)
        parts = np.empty((len(fresh), columns.parts.shape[1]), np.int32)
        for start in range(0, len(fresh), RECORDED_AT_ONCE):
            some = slice(start, start + RECORDED_AT_ONCE)
            given = arguments[fresh[some]]
            inputs[some] = np.bitwise_or.reduce(np.where(given >= 0, columns.inputs[given], 0), axis=1)
            parts[some] = self._parts_of(given, classes[fresh[some]])
        self.table.describe(
            Columns(
                types,
                trees,
                np.full(len(fresh), size, np.int8),
                inputs,
                parts,
                (first + fresh).astype(np.int32),
            )
        )

    def _parts_of(self, arguments: Indices, classes: Indices) -> Indices:
        """[n, width] the classes of the subterms of each term, its own first."""
        columns = self.table.columns
        parts = classes[:, None]
        for given in arguments.T:
            added = np.where(given[:, None] >= 0, columns.parts[given], -1)
            parts = union(np.pad(parts, ((0, 0), (0, 1)), constant_values=-1), added)
        return parts[:, : columns.parts.shape[1]]

    def _planned(self) -> list[list[Block]]:
        parts: list[list[Block]] = [[]]
        weight = 0
        for block, pairs in self._pieces.blocks(self.stage.max_ops):
            if weight >= PART_PAIRS:
                parts.append([])
                weight = 0
            parts[-1].append(block)
            weight += pairs
        return parts

    def _found_again(
        self, parts: npt.NDArray[np.int32], places: npt.NDArray[np.uint32]
    ) -> tuple[Indices, Indices]:
        """The instances and arguments of terms of the last level, given by part and position in order."""
        instances: list[Indices] = [np.empty(0, np.int32)]
        arguments: list[Indices] = [padded(np.empty((0, 1), np.int32))]
        for first, last in runs(parts):
            wanted = places[first:last].astype(np.int64)
            start = 0
            for drivers, piece in self.last_pieces(int(parts[first])):
                low = int(np.searchsorted(wanted, start))
                high = int(np.searchsorted(wanted, start + piece.count))
                if high > low:
                    arguments.append(padded(piece.arguments(drivers.classes)[wanted[low:high] - start]))
                    instances.append(np.full(high - low, piece.number, np.int32))
                start += piece.count
        return np.concatenate(instances), np.concatenate(arguments)

    def _report(self, level: Level) -> None:
        self.levels.append(level)
        if self._progress is not None:
            self._progress(level)


def input_values(stage: Stage) -> dict[str, SmallArray]:
    """The values of the inputs of a stage by name, with all parts, at all test vectors."""
    random = np.random.default_rng(SEED)
    full = SmallFieldDomain().rational(0)
    return {
        tensor.name: random_array(random, VECTORS, tensor.type.shape, like=full) for tensor in stage.inputs
    }


def constant_value(constant: ConstantTensor, inputs: Mapping[str, SmallArray]) -> SmallArray:
    """The value of a constant at all test vectors, for the values of the inputs."""
    if constant.arguments:
        return evaluated(constant.operator, [inputs[name] for name in constant.arguments])
    return evaluated(constant.operator, ()).each(lambda part: np.repeat(part, VECTORS, axis=0))


def _commutes(operator: Operator, x: SmallArray, y: SmallArray) -> bool:
    there, back = evaluated(operator, (x, y)), evaluated(operator, (y, x))
    return bool((there.residue == back.residue).all())


def _residues(value: SmallArray) -> SmallArray:
    return SmallArray(value.residue)


def _with_shadows(value: SmallArray) -> SmallArray:
    return SmallArray(value.residue, value.shadow)
