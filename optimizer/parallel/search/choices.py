"""Choices for dividing an operation over a mesh: the mesh axes assigned to each task dimension."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from superopt.ir.plan import Parallelism
from superopt.ops.opaque import Opaque
from superopt.ops.sharded.splits import SplitKind
from superopt.ops.traits import traits
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Operation, Subject
from superopt.optimizer.parallel.terms import TermDimension, admits, are_terms, trimmed

COPIED = -1
"""Label of an axis along which all devices replicate the work."""

ALONE = -2
"""Label of an axis along which only one device works."""

Choice = tuple[int, ...]
"""For every axis of a mesh the index of a task dimension, COPIED or ALONE."""


@dataclass(frozen=True, eq=False)
class Choices:
    """The choices of an operation; equal ones are the same object."""

    all: tuple[Choice, ...]

    def __len__(self) -> int:
        return len(self.all)


Licence = Callable[[Operation, int], bool]
"""Whether a task dimension of an operation may be divided."""


def everything(operation: Operation, dimension: int) -> bool:
    """Licence to divide every divisible dimension where the result is that of one device."""
    own = operation.splits.dimensions[dimension]
    return not (isinstance(own, TermDimension) and own.rounds)


def useful_dimensions(subject: Subject, licence: Licence = everything) -> tuple[tuple[int, ...], ...]:
    """For every operation the task dimensions worth dividing: all of those that have weights or are products;
    for others those along which a divided neighbour's tensors are divided, and terms of what a producer makes
    as a partial sum."""
    useful: list[set[int]] = []
    for operation in subject.operations:
        heavy = isinstance(operation.operator, Opaque) or traits(operation.operator.name).product
        useful.append(set(own_dimensions(operation, licence)) if heavy else set())
    if not any(useful):
        return tuple(licensed_dimensions(operation, licence) for operation in subject.operations)
    _spread(subject, licence, useful)
    for edge in sorted(subject.edges, key=lambda edge: edge.source):
        source, target = subject.operations[edge.source], subject.operations[edge.target]
        if any(is_summed(source, number, edge.port) for number in useful[edge.source]):
            useful[edge.target].update(
                number
                for number, dimension in enumerate(target.splits.dimensions)
                if are_terms(dimension, edge.slot) and licence(target, number)
            )
    return tuple(tuple(sorted(found)) for found in useful)


def is_summed(operation: Operation, dimension: int, port: int) -> bool:
    """Whether tasks along the dimension produce terms of an output."""
    is_reduction = operation.splits.dimensions[dimension].kind is SplitKind.REDUCTION
    return is_reduction and dimension not in operation.splits.outputs[port]


def _spread(subject: Subject, licence: Licence, useful: list[set[int]]) -> None:
    """Adds the dimensions along which a divided neighbour's tensors are divided."""
    waiting = list(range(len(subject.operations)))
    while waiting:
        number = waiting.pop()
        for edge in (*subject.incoming[number], *subject.outgoing[number]):
            source, target = subject.operations[edge.source], subject.operations[edge.target]
            before, after = source.splits.outputs[edge.port], target.splits.inputs[edge.slot]
            for left, right in zip(before, after, strict=True):
                for here, there, this, other in (
                    (left, right, edge.source, edge.target),
                    (right, left, edge.target, edge.source),
                ):
                    if here in useful[this] and there is not None and there not in useful[other]:
                        useful[other].update({there} if licence(subject.operations[other], there) else ())
                        waiting.extend({other} if there in useful[other] else ())


def own_dimensions(operation: Operation, licence: Licence) -> tuple[int, ...]:
    """The licensed dimensions of the operator itself, without those of partial sums as operands."""
    return tuple(
        number
        for number in licensed_dimensions(operation, licence)
        if not isinstance(operation.splits.dimensions[number], TermDimension)
    )


def choices_on(
    operation: Operation, dimensions: Iterable[int], mesh: Mesh, segments: Sequence[tuple[int, int]]
) -> list[Choice]:
    """Choices that assign one label to each segment of axes, and one to all other axes; segments are
    disjoint."""
    labels = [COPIED, *dimensions]
    place = [len(segments)] * len(mesh.sizes)
    for number, (start, stop) in enumerate(segments):
        place[start:stop] = [number] * (stop - start)
    given = itertools.product(labels, repeat=len(segments) + 1)
    found = dict.fromkeys(tuple(label[number] for number in place) for label in given)
    return [choice for choice in found if is_divisible(operation, choice, mesh)]


def is_divisible(operation: Operation, choice: Choice, mesh: Mesh) -> bool:
    """Whether sizes are multiples of the choice's degrees."""
    return admits(operation.splits, degrees_of(operation, choice, mesh))


def degrees_of(operation: Operation, choice: Choice, mesh: Mesh) -> tuple[int, ...]:
    """The degree of every task dimension."""
    degrees = [1] * len(operation.splits.dimensions)
    for label, size in zip(choice, mesh.sizes, strict=True):
        if label >= 0:
            degrees[label] *= size
    return tuple(degrees)


def parallelism(
    operation: Operation, choice: Choice, mesh: Mesh, stage: int = 0, share: int = 0
) -> Parallelism:
    """The machine mapping; along ALONE axes it uses the device of number ``share``."""
    axes: dict[int, list[int]] = defaultdict(list)
    for axis, label in enumerate(choice):
        axes[label].append(axis)
    array = mesh.array.transpose(*axes[ALONE], *(a for a in range(len(choice)) if a not in axes[ALONE]))
    array = array.reshape(-1, *(s for a, s in enumerate(mesh.sizes) if a not in axes[ALONE]))
    array = array[share % len(array)]
    kept = [axis for axis in range(len(choice)) if axis not in axes[ALONE]]
    place = {axis: number for number, axis in enumerate(kept)}
    order = [place[axis] for label in range(len(operation.splits.dimensions)) for axis in axes[label]]
    order += [place[axis] for axis in axes[COPIED]]
    copies = mesh.parts(axes[COPIED])
    devices = tuple(int(device) for device in array.transpose(order).ravel())
    return Parallelism(trimmed(operation.splits, degrees_of(operation, choice, mesh)), devices, copies, stage)


def licensed_dimensions(operation: Operation, licence: Licence) -> tuple[int, ...]:
    """The divisible task dimensions of size above 1."""
    return tuple(
        number
        for number, dimension in enumerate(operation.splits.dimensions)
        if dimension.size != 1 and licence(operation, number)
    )
