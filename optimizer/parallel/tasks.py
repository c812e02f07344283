"""Tasks of a node under a plan: how the node is divided, and what each task reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from superopt.errors import InvalidOptionError, UnsupportedError
from superopt.ir.graph import Graph, GraphOperator, Node, Value
from superopt.ir.plan import Parallelism, Plan
from superopt.ir.types import TensorType
from superopt.ops import Operator
from superopt.ops.sharded.splits import Splits
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.placement import Placement, needed, produced, regions_of
from superopt.optimizer.parallel.terms import admits, kind_of, with_terms

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Task:
    """One part of an operator's computation: the operator, and the types of its operands and results."""

    operator: GraphOperator
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]


Operand = tuple[int, int]
"""A result of an earlier task of the kernel, by number and port; or the k-th shard given, as -1 - k and 0."""


@dataclass(frozen=True, slots=True)
class KernelTask:
    """Tasks that run as one kernel, with the operands of each, and the results that are kept."""

    tasks: tuple[Task, ...]
    operands: tuple[tuple[Operand, ...], ...]
    results: tuple[Operand, ...]

    @staticmethod
    def of(task: Task) -> KernelTask:
        """The kernel of one task, all results of which are kept."""
        operands = tuple((-1 - slot, 0) for slot in range(len(task.inputs)))
        return KernelTask((task,), (operands,), tuple((0, port) for port in range(len(task.outputs))))

    def evaluated(self, run: Callable[[Task, Sequence[A]], Sequence[A]], shards: Sequence[A]) -> list[A]:
        """The results that are kept, of ``run`` applied to one task after the other."""
        made: list[Sequence[A]] = []
        for task, operands in zip(self.tasks, self.operands, strict=True):
            given = [shards[-1 - number] if number < 0 else made[number][port] for number, port in operands]
            made.append(run(task, given))
        return [made[number][port] for number, port in self.results]


def splits_of(graph: Graph, node: Node) -> Splits:
    """The possible divisions of the node; none where it is not an operator on tensors of known rank."""
    types = [graph.type_of(value) for value in node.inputs]
    inputs = tuple(type_ for type_ in types if isinstance(type_, TensorType))
    outputs = tuple(type_ for type_ in node.types if isinstance(type_, TensorType))
    if isinstance(node.operator, Operator) and (len(inputs), len(outputs)) == (len(types), len(node.types)):
        return with_terms(node.operator.splits(inputs, outputs), node.operator, inputs, outputs)
    ranks = [len(type_.shape) if isinstance(type_, TensorType) else 0 for type_ in (*types, *node.types)]
    whole = tuple((None,) * rank for rank in ranks)
    return Splits((), whole[: len(types)], whole[len(types) :])


def mapping_of(graph: Graph, plan: Plan, node: Node) -> Parallelism:
    """The machine mapping of a node; whole on device 0 where the plan has none. Raises InvalidOptionError for
    an impossible division."""
    splits = splits_of(graph, node)
    how = plan.parallel.get(node.id) or Parallelism((1,) * len(splits.dimensions), (0,))
    if not admits(splits, how.degrees):
        sizes = sizes_text(splits)
        raise InvalidOptionError(
            f"plan, {node.operator.name} (node {node.id}): the degrees {how.degrees} do not divide "
            f"{sizes or 'an operator that cannot be divided'}"
        )
    return how


def sizes_text(splits: Splits) -> str:
    """The sizes of task dimensions, for messages."""
    return ", ".join(
        kind_of(dimension) if dimension.size == 0 else f"{dimension.size} ({kind_of(dimension)})"
        for dimension in splits.dimensions
    )


def tensor_of(graph: Graph, value: Value) -> TensorType:
    """The type of a value. Raises UnsupportedError unless it is a tensor of concrete sizes."""
    type_ = graph.type_of(value)
    if not isinstance(type_, TensorType) or not all(isinstance(size, int) for size in type_.shape):
        name = graph[value.node].operator.name
        raise UnsupportedError(
            f"{name} (node {value.node}): a plan is for tensors of given sizes, got {type_}; "
            "give sizes to dynamic dimensions with --dim"
        )
    return type_


def shape_of(type_: TensorType) -> tuple[int, ...]:
    """The sizes of a tensor of concrete sizes."""
    return tuple(size for size in type_.shape if isinstance(size, int))


def part_type(type_: TensorType, region: Region) -> TensorType:
    """The type of a box of a tensor."""
    return type_.with_shape(tuple(stop - start for start, stop in region))


@dataclass(frozen=True)
class DividedNode:
    """A node under a plan: the placements of its operands and results, and the box of each on every
    device."""

    node: Node
    how: Parallelism
    needs: tuple[Placement, ...]
    makes: tuple[Placement, ...]
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    input_regions: tuple[dict[int, Region], ...]
    output_regions: tuple[dict[int, Region], ...]

    def task(self, device: int) -> Task:
        """The task of a device."""
        outputs = tuple(
            part_type(type_, regions[device])
            for type_, regions in zip(self.output_types, self.output_regions, strict=True)
        )
        operator = self.node.operator
        return Task(
            operator.task(outputs) if isinstance(operator, Operator) else operator,
            tuple(
                part_type(type_, regions[device])
                for type_, regions in zip(self.input_types, self.input_regions, strict=True)
            ),
            outputs,
        )


def divided(graph: Graph, plan: Plan, node: Node) -> DividedNode:
    """A node under a plan. Raises as ``mapping_of`` and ``tensor_of`` do."""
    splits, how = splits_of(graph, node), mapping_of(graph, plan, node)
    needs = tuple(needed(splits, how, slot) for slot in range(len(node.inputs)))
    makes = tuple(produced(splits, how, port) for port in range(len(node.types)))
    input_types = tuple(tensor_of(graph, value) for value in node.inputs)
    output_types = tuple(tensor_of(graph, value) for value in node.values)
    return DividedNode(
        node,
        how,
        needs,
        makes,
        input_types,
        output_types,
        tuple(regions_of(place, shape_of(t)) for place, t in zip(needs, input_types, strict=True)),
        tuple(regions_of(place, shape_of(t)) for place, t in zip(makes, output_types, strict=True)),
    )
