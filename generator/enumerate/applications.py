"""Applications of operator instances to typed arguments: result types, split positions, split trees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from superopt.errors import IllTypedError
from superopt.generator.enumerate.classes import ClassTable, TreesId, TypeId
from superopt.generator.enumerate.joins import Indices, distinct_rows
from superopt.generator.enumerate.split_trees import AxisFlow, SplitTree, axis_flows, carried, size_of
from superopt.generator.presets.preset import Instance, Stage, with_role
from superopt.ops import Operator
from superopt.ops.bound import bound
from superopt.ops.sharded.parallel import ParallelOperator
from superopt.ops.sharded.sharding import is_divided
from superopt.ops.traits import traits

Types = tuple[TypeId, ...]


class Applications:
    """Results of applying a stage's instances to classes of given types."""

    def __init__(self, stage: Stage, table: ClassTable) -> None:
        self._stage = stage
        self._table = table
        self._outputs: dict[tuple[int, Types, Operator], TypeId | None] = {}
        self._flows: dict[tuple[Operator, Types], tuple[AxisFlow, ...]] = {}
        self._trees: dict[tuple[int, Types, tuple[TreesId, ...]], TreesId] = {}
        self.halves: npt.NDArray[np.bool_] = np.array([i.operator is None for i in stage.instances])
        """[instances] whether an instance is a half of a split."""

    def arguments(self, number: int, types: Sequence[TypeId]) -> Iterator[Types]:
        """The combinations of types with the roles that the instance accepts."""
        for roles, _ in self._stage.instances[number].signatures:
            yield from itertools.product(
                *([t for t in types if self._table.types[t].role == role] for role in roles)
            )

    def output(self, number: int, arguments: Types, operator: Operator) -> TypeId | None:
        """The type of the result, None if the operator does not accept the arguments."""
        key = (number, arguments, operator)
        if key in self._outputs:
            return self._outputs[key]
        types = [self._table.types[argument] for argument in arguments]
        roles = tuple(type_.role for type_ in types)
        signatures = self._stage.instances[number].signatures
        role = next((output for inputs, output in signatures if inputs == roles), None)
        found: TypeId | None = None
        if role is not None:
            try:
                (result,) = operator.infer(*(t.tensor for t in types))
                found = self._table.type_id(with_role(role, result))
            except IllTypedError:
                pass
        self._outputs[key] = found
        return found

    def bound(self, operator: Operator, arguments: Types) -> Operator:
        """The operator, bound to the types of its arguments if these are divided."""
        return bound(operator, tuple([self._table.types[argument].tensor for argument in arguments]))

    def operator(self, number: int, type_: TypeId, trees: TreesId) -> Operator | None:
        """The operator of an instance; a half splits where its argument was concatenated, else None."""
        instance = self._stage.instances[number]
        return instance.operator or self.cut(instance, type_, trees)

    def cut(self, instance: Instance, type_: TypeId, trees: TreesId) -> Operator | None:
        """The half of a split at the position where a class was concatenated."""
        size = self.joint(instance.axis, type_, trees)
        return None if size is None else instance.cut_at(size)

    def joint(self, axis: int, type_: TypeId, trees: TreesId) -> int | None:
        """The size of the first of the two parts concatenated along an axis."""
        rank = len(self._table.types[type_].shape)
        if not -rank <= axis < rank:
            return None
        tree = self._table.trees[trees][axis]
        return None if isinstance(tree, int) else size_of(tree[0])

    def joins(self, operator: Operator, arguments: Types, axis: int) -> bool:
        """Whether the operator itself concatenates its arguments along that axis."""
        flows = self._flows_of(operator, arguments)
        return -len(flows) <= axis < len(flows) and flows[axis].joined is not None

    def trees(self, number: int, arguments: Types, output: TypeId, trees: Indices) -> Indices:
        """[n] the split trees of results, from those of the arguments [n, arity]."""
        distinct, inverse = distinct_rows(trees)
        found = [self._tree(number, arguments, output, tuple(row)) for row in distinct.tolist()]
        return np.array(found, np.int32)[inverse]

    def _tree(self, number: int, arguments: Types, output: TypeId, trees: tuple[TreesId, ...]) -> TreesId:
        key = (number, arguments, trees)
        known = self._trees.get(key)
        if known is None:
            known = self._trees[key] = self._table.trees_id(self._carried(number, arguments, output, trees))
        return known

    def _carried(
        self, number: int, arguments: Types, output: TypeId, trees: tuple[TreesId, ...]
    ) -> tuple[SplitTree, ...]:
        inputs = [self._table.trees[t] for t in trees]
        instance = self._stage.instances[number]
        if instance.operator is None:
            whole = list(inputs[0])
            tree = whole[instance.axis]
            assert not isinstance(tree, int)
            whole[instance.axis] = tree[traits(instance.name).half or 0]
            return tuple(whole)
        flows = self._flows_of(instance.operator, arguments)
        return carried(flows, self._table.types[output].shape, inputs)

    def _flows_of(self, operator: Operator, arguments: Types) -> tuple[AxisFlow, ...]:
        flows = self._flows.get((operator, arguments))
        if flows is None:
            types = [self._table.types[a].tensor for a in arguments]
            if is_divided(types) or isinstance(operator, ParallelOperator):
                flows = (AxisFlow(),) * len(operator.infer(*types)[0].array_shape)
            else:
                flows = axis_flows(operator, [self._table.types[a].shape for a in arguments])
            self._flows[operator, arguments] = flows
        return flows
