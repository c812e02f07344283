"""All terms over a preset, level by level, grouped by value: only one term of each class is built upon.

One operator on all tuples of arguments of some types is one call on stacked arrays; the number of operators
of a term counts shared work once. No loop runs per term.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from generator.classes import ClassTable, Fingerprints, Indices, TypeId, picked
from generator.joins import tuples_of_size, union
from generator.preset import InputType, Instance, Stage
from generator.split_trees import AxisFlow, SplitTree, axis_flows, carried, size_of
from superopt.domains import FieldArray, PrimeFieldDomain
from superopt.errors import IllTypedError
from superopt.ir.types import ElementType, TensorType
from superopt.ops import Operator

SEED = 20261121
MAX_ARITY = 3
CHUNK_ELEMENTS = 1 << 20
"""Elements of an output that one call computes; a FieldArray holds 24 bytes for each."""


@dataclass(frozen=True, slots=True)
class Level:
    """Counts after all terms of ``ops`` operators: terms of exactly that size, classes in all."""

    ops: int
    terms: int
    classes: int


@dataclass(frozen=True, slots=True)
class TermTable:
    """Every term: instance (-1: input or constant), classes of its arguments (-1: none), class, size."""

    instances: Indices
    arguments: Indices
    classes: Indices
    sizes: npt.NDArray[np.int8]


@dataclass
class _Blocks:
    instances: list[Indices] = field(default_factory=list[Indices])
    arguments: list[Indices] = field(default_factory=list[Indices])
    classes: list[Indices] = field(default_factory=list[Indices])
    sizes: list[npt.NDArray[np.int8]] = field(default_factory=list["npt.NDArray[np.int8]"])

    def add(self, instance: int, arguments: Indices, classes: Indices, size: int) -> None:
        padded = np.full((len(classes), MAX_ARITY), -1, np.int32)
        padded[:, : arguments.shape[1]] = arguments
        self.instances.append(np.full(len(classes), instance, np.int32))
        self.arguments.append(padded)
        self.classes.append(classes)
        self.sizes.append(np.full(len(classes), size, np.int8))


class Enumeration:
    """The classes and terms of a stage. Without ``merges`` the arrays of the last level are not kept."""

    def __init__(
        self,
        stage: Stage,
        test_vectors: int,
        *,
        merges: bool = True,
        progress: Callable[[Level], None] | None = None,
    ) -> None:
        self.stage = stage
        self._merges = merges
        self.levels: list[Level] = []
        self.table = ClassTable(stage.max_ops, test_vectors)
        self.commutative: frozenset[int] = frozenset()
        self._domain = PrimeFieldDomain()
        random = np.random.default_rng(SEED)
        self._fingerprints = Fingerprints(random)
        self._blocks = _Blocks()
        self._outputs: dict[tuple[int, tuple[TypeId, ...]], TypeId | None] = {}
        self._flows: dict[tuple[int, tuple[TypeId, ...]], tuple[AxisFlow, ...]] = {}
        self._add_leaves(random)
        for size in range(1, stage.max_ops + 1):
            terms = self._add_level(size)
            if size == 1:
                self.commutative = self._commuting()
            self.levels.append(Level(size, terms, self.table.count))
            if progress is not None:
                progress(self.levels[-1])

    @property
    def terms(self) -> TermTable:
        """All terms, in the order in which they were found."""
        blocks = self._blocks
        return TermTable(
            np.concatenate(blocks.instances),
            np.concatenate(blocks.arguments),
            np.concatenate(blocks.classes),
            np.concatenate(blocks.sizes),
        )

    def halves(self, instance: Instance, classes: Indices) -> Indices:
        """[n] the class of the half of each given class, -1 where it has none or cannot be cut."""
        found = np.full(len(classes), -1, np.int32)
        columns = self.table.columns
        roles = {inputs[0] for inputs, _ in instance.signatures}
        cuttable = np.array([type_.role in roles for type_ in self.table.types])
        places = np.flatnonzero(cuttable[columns.types[classes]] & (columns.rows[classes] >= 0))
        classes = classes[places]
        number = self.stage.instances.index(instance)
        for type_, trees, rows in self._cuttable(instance, classes):
            cut = self._cut(instance, type_, trees)
            output = self._output(number, (type_,), cut)
            if cut is None or output is None:
                continue
            for start in range(0, len(rows), 1 << 14):
                block = rows[start : start + (1 << 14)]
                values = self._evaluate(cut, (type_,), classes[block][:, None])
                found[places[block]] = self.table.find(output, self._fingerprints.of(values, len(block)))
        return found

    def _add_leaves(self, random: np.random.Generator) -> None:
        stack = self.table.test_vectors
        leaves: list[tuple[InputType, FieldArray]] = [
            (tensor.type, self._domain.random(random, stack, tensor.type.shape))
            for tensor in self.stage.inputs
        ]
        for constant in self.stage.constants:
            (value,) = constant.operator.evaluate(self._domain)
            value = self._domain.rearrange(lambda a: np.repeat(a, stack, axis=0), value)
            leaves.append((InputType(constant.role, self._domain.shape(value)), value))
        for index, (type_, value) in enumerate(leaves):
            number = self.table.type_id(type_)
            classes, fresh = self.table.classify(number, self._fingerprints.of(value, 1))
            if not len(fresh):
                raise IllTypedError("two constants of the preset are equal")
            self._blocks.add(-1, np.full((1, 1), index, np.int32), classes, 0)
            trees = np.array([self.table.trees_id(type_.shape)], np.int32)
            bit = np.uint32(1 << index if index < len(self.stage.inputs) else 0)
            self.table.describe(number, trees, 0, np.array([bit]), np.empty((1, 0), np.int32), value)

    def _add_level(self, size: int) -> int:
        before = sum(len(block) for block in self._blocks.classes)
        types = range(len(self.table.types))
        for number, instance in enumerate(self.stage.instances):
            for arguments in self._typed_arguments(instance, types):
                if instance.operator is None:
                    self._add_halves(number, instance, arguments[0], size)
                    continue
                output = self._output(number, arguments, instance.operator)
                if output is None:
                    continue
                for block in self._tuples(number, arguments, size):
                    self._add_terms(number, instance.operator, arguments, output, block, size)
        return sum(len(block) for block in self._blocks.classes) - before

    def _typed_arguments(self, instance: Instance, types: Sequence[TypeId]) -> Iterator[tuple[TypeId, ...]]:
        for roles, _ in instance.signatures:
            yield from itertools.product(
                *([t for t in types if self.table.types[t].role == role] for role in roles)
            )

    def _output(self, number: int, arguments: tuple[TypeId, ...], operator: Operator | None) -> TypeId | None:
        """The type of the result, None where the operator does not accept the arguments."""
        key = (number, arguments)
        if key in self._outputs and self.stage.instances[number].operator is not None:
            return self._outputs[key]
        self._outputs[key] = None
        types = [self.table.types[argument] for argument in arguments]
        roles = tuple(type_.role for type_ in types)
        role = next(output for inputs, output in self.stage.instances[number].signatures if inputs == roles)
        try:
            if operator is not None:
                (result,) = operator.infer(*(TensorType(ElementType.FLOAT, t.shape) for t in types))
                shape = tuple(d for d in result.shape if isinstance(d, int))
                self._outputs[key] = self.table.type_id(InputType(role, shape))
        except IllTypedError:
            return None
        return self._outputs[key]

    def _tuples(self, number: int, arguments: tuple[TypeId, ...], size: int) -> Iterator[Indices]:
        columns = self.table.columns
        places = [
            self.table.tuples(np.flatnonzero((columns.types == t) & (columns.levels < size)).astype(np.int32))
            for t in arguments
        ]
        for found in tuples_of_size(places, size - 1):
            block = found
            if number in self.commutative and arguments[0] == arguments[1]:
                block = block[block[:, 0] <= block[:, 1]]
            if size == self.stage.max_ops:
                block = block[self.canonical(columns.inputs[block])]
            if len(block):
                yield block

    def canonical(self, inputs: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Whether the inputs of each type are used from the first on: other terms are renamings."""
        used = np.bitwise_or.reduce(inputs, axis=1)
        good = np.ones(len(used), bool)
        by_type: dict[InputType, list[int]] = {}
        for index, tensor in enumerate(self.stage.inputs):
            by_type.setdefault(tensor.type, []).append(index)
        for indices in by_type.values():
            for earlier, later in itertools.pairwise(indices):
                good &= ((used >> np.uint32(earlier)) & 1) >= ((used >> np.uint32(later)) & 1)
        return good

    def _add_terms(
        self,
        number: int,
        operator: Operator,
        arguments: tuple[TypeId, ...],
        output: TypeId,
        block: Indices,
        size: int,
    ) -> None:
        elements = int(np.prod(self.table.types[output].shape, dtype=np.int64)) * self.table.test_vectors
        step = max(1, CHUNK_ELEMENTS // max(1, elements))
        for start in range(0, len(block), step):
            part = block[start : start + step]
            values = self._evaluate(operator, arguments, part)
            classes, fresh = self.table.classify(output, self._fingerprints.of(values, len(part)))
            self._blocks.add(number, part, classes, size)
            if not len(fresh):
                continue
            columns = self.table.columns
            new = part[fresh]
            parts = classes[fresh][:, None]
            for place in range(new.shape[1]):
                parts = union(
                    np.pad(parts, ((0, 0), (0, 1)), constant_values=-1), columns.parts[new[:, place]]
                )
            self.table.describe(
                output,
                self._trees(number, operator, arguments, columns.trees[new], output),
                size,
                np.bitwise_or.reduce(columns.inputs[new], axis=1),
                parts,
                picked(values, fresh, self.table.test_vectors)
                if size < self.stage.max_ops or self._merges
                else None,
            )

    def _add_halves(self, number: int, instance: Instance, type_: TypeId, size: int) -> None:
        columns = self.table.columns
        classes = np.flatnonzero((columns.types == type_) & (columns.levels == size - 1)).astype(np.int32)
        if size == self.stage.max_ops:
            classes = classes[self.canonical(columns.inputs[classes][:, None])]
        for _, trees, rows in self._cuttable(instance, classes):
            cut = self._cut(instance, type_, trees)
            output = self._output(number, (type_,), cut)
            if cut is not None and output is not None:
                block = classes[rows][:, None]
                self._add_terms(number, cut, (type_,), output, block, size)

    def _cuttable(
        self, instance: Instance, classes: Indices
    ) -> Iterator[tuple[TypeId, int, npt.NDArray[np.intp]]]:
        """(type, split trees, rows) of the classes that were joined along the axis."""
        columns = self.table.columns
        pairs = np.stack((columns.types[classes], columns.trees[classes]), axis=1)
        distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
        for index, (type_, trees) in enumerate(distinct.tolist()):
            if self._cut(instance, type_, trees) is not None:
                yield type_, trees, np.flatnonzero(inverse == index)

    def _cut(self, instance: Instance, type_: TypeId, trees: int) -> Operator | None:
        rank = len(self.table.types[type_].shape)
        if not -rank <= instance.axis < rank:
            return None
        tree = self.table.trees[trees][instance.axis]
        return None if isinstance(tree, int) else instance.cut_at(size_of(tree[0]))

    def _trees(
        self, number: int, operator: Operator, arguments: tuple[TypeId, ...], trees: Indices, output: TypeId
    ) -> Indices:
        """[n] the split trees of results, from those of the arguments [n, arity]."""
        distinct, inverse = np.unique(trees, axis=0, return_inverse=True)
        found = [self._tree(number, operator, arguments, tuple(row), output) for row in distinct.tolist()]
        return np.array(found, np.int32)[inverse]

    def _tree(
        self,
        number: int,
        operator: Operator,
        arguments: tuple[TypeId, ...],
        trees: tuple[int, ...],
        output: TypeId,
    ) -> int:
        shape = self.table.types[output].shape
        inputs = [self.table.trees[t] for t in trees]
        instance = self.stage.instances[number]
        if instance.operator is None:
            whole = list(inputs[0])
            tree = whole[instance.axis]
            assert not isinstance(tree, int)
            whole[instance.axis] = tree[int(instance.name == "split1")]
            return self.table.trees_id(tuple(whole))
        flows = self._flows.get((number, arguments))
        if flows is None:
            flows = axis_flows(operator, [self.table.types[a].shape for a in arguments])
            self._flows[number, arguments] = flows
        result: tuple[SplitTree, ...] = carried(flows, shape, inputs)
        return self.table.trees_id(result)

    def _evaluate(self, operator: Operator, arguments: tuple[TypeId, ...], block: Indices) -> FieldArray:
        arrays = [self.table.values(t, block[:, place]) for place, t in enumerate(arguments)]
        (result,) = operator.evaluate(self._domain, *arrays)
        return result

    def _commuting(self) -> frozenset[int]:
        """Instances of two arguments whose order never mattered on inputs: from then on one order does."""
        found: set[int] = set()
        terms = self.terms
        for number, instance in enumerate(self.stage.instances):
            rows = np.flatnonzero(terms.instances == number)
            if instance.operator is None or any(
                len(roles) != 2 or roles[0] != roles[1] for roles, _ in instance.signatures
            ):
                continue
            classes = {
                tuple(a): c
                for a, c in zip(terms.arguments[rows, :2].tolist(), terms.classes[rows].tolist(), strict=True)
            }
            swapped = [classes.get((b, a)) == c for (a, b), c in classes.items() if a != b]
            if swapped and all(swapped):
                found.add(number)
        return frozenset(found)
