"""Operators on sharded tensors: types and values of all tasks, derived from ``splits``.

A sharded tensor (``ShardedType``) is held in parts along its axes, and in replicas. A task of an operator
takes a part of each input: an input that follows a task dimension is divided along it, and one that does not
follow it has a replica for each of the dimension's parts. Where an output is a sum over a dimension, its
replicas are the terms.

The value of a sharded tensor is an array of the whole shape, preceded by a replica axis if there is more than
one replica. Either all tensors of an operator have the same number of replicas, and the operator works on
each replica separately; or a tensor has one replica for each part of each dimension that it does not follow,
numbered row-major in the order of the dimensions. Both at once is ill-typed: a single replica count would be
ambiguous, and a sum over some replicas could be over the wrong ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from superopt.domains import Array, Domain
from superopt.domains.arrays import namespace, reshaped
from superopt.errors import DimensionMismatchError, IllTypedError, UnfitTypesError
from superopt.ir.bounds import is_multiple
from superopt.ir.dimensions import Dimension, symbol
from superopt.ir.types import Division, ShardedType, TensorType, UnknownType, ValueType
from superopt.ops.sharded.splits import SplitKind, Splits

A = TypeVar("A")
UNDIVIDED = Division()


class Divisible(Protocol):
    """The operator interface that this module needs."""

    name: ClassVar[str]

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]: ...

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]: ...

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits: ...

    def task(self, outputs: tuple[TensorType, ...]) -> Divisible: ...


@dataclass(frozen=True, slots=True)
class Tasks:
    """Division of an operator on sharded tensors into tasks. ``divisions`` are those of its task dimensions;
    ``shared`` is the number of replicas common to all its tensors where the division requires none."""

    splits: Splits
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    divisions: tuple[Division, ...]
    shared: int


def is_divided(types: Iterable[ValueType]) -> bool:
    """Whether some tensor is divided or has replicas."""
    return ShardedType in map(type, types)


def whole(type_: TensorType) -> TensorType:
    """The unsharded type of the tensor."""
    return TensorType(type_.element, type_.shape) if isinstance(type_, ShardedType) else type_


def divisions_of(type_: TensorType) -> tuple[Division, ...]:
    """The division of each axis."""
    return type_.divisions if isinstance(type_, ShardedType) else (UNDIVIDED,) * type_.rank


def replicas_of(type_: TensorType) -> int:
    """The number of replicas."""
    return type_.replicas if isinstance(type_, ShardedType) else 1


def divided(where: str, type_: TensorType, divisions: Sequence[Division], replicas: int) -> TensorType:
    """The sharded type of a whole tensor with these divisions; a plain type where nothing is divided. Raises
    IllTypedError (DimensionMismatchError where a symbol can be solved for) unless all parts are equal."""
    for size, division in zip(type_.shape, divisions, strict=True):
        require_divisible(where, size, division.parts)
    if replicas == 1 and all(division == UNDIVIDED for division in divisions):
        return whole(type_)
    return ShardedType(type_.element, type_.shape, tuple(divisions), replicas)


def require_divisible(where: str, size: Dimension, parts: int) -> None:
    """Raises unless the size is a multiple of the number of parts for all values of its symbols."""
    if parts == 1 or is_multiple(size, parts):
        return
    if isinstance(size, int):
        raise UnfitTypesError(f"{where}: {size} does not divide into {parts} equal parts")
    raise DimensionMismatchError(size, symbol(f"{size.name or f'({size})'}:{parts}") * parts, where)


def infer_divided(operator: Divisible, types: tuple[ValueType, ...]) -> tuple[TensorType, ...]:
    """Output types of an operator with a sharded input; raises IllTypedError where its tasks lack what they
    need."""
    tasks = tasks_of(operator, types)
    return tuple(
        _output(operator, tasks, type_, axes)
        for type_, axes in zip(tasks.outputs, tasks.splits.outputs, strict=True)
    )


def tasks_of(operator: Divisible, types: tuple[ValueType, ...]) -> Tasks:
    """The tasks of an operator on inputs of these types; raises IllTypedError."""
    tensors = tuple(type_ for type_ in types if not isinstance(type_, UnknownType))
    if len(tensors) != len(types):
        raise IllTypedError(f"{operator.name}: expected tensors of known rank")
    inputs = tuple(map(whole, tensors))
    outputs = operator.infer_whole(*inputs)
    splits = operator.splits(inputs, outputs)
    found = [UNDIVIDED] * len(splits.dimensions)
    for type_, axes in zip(tensors, splits.inputs, strict=True):
        for division, number in zip(divisions_of(type_), axes, strict=True):
            if division == UNDIVIDED:
                continue
            if number is None:
                raise UnfitTypesError(f"{operator.name}: an axis that is needed whole is divided")
            found[number] = division
    for type_, axes in zip(tensors, splits.inputs, strict=True):
        for division, number in zip(divisions_of(type_), axes, strict=True):
            if number is not None and division != found[number]:
                raise UnfitTypesError(f"{operator.name}: axes are divided by {division} and {found[number]}")
    for dimension, division in zip(splits.dimensions, found, strict=True):
        require_divisible(operator.name, dimension.size, division.parts)
    shared = {
        _shared(operator, replicas_of(type_), _missing(found, axes))
        for type_, axes in zip(tensors, splits.inputs, strict=True)
    }
    if len(shared) != 1:
        raise UnfitTypesError(f"{operator.name}: the inputs have replicas for different tasks")
    (common,) = shared
    every = (*splits.inputs, *splits.outputs)
    if common > 1 and any(_missing(found, axes) > 1 for axes in every):
        raise UnfitTypesError(f"{operator.name}: replicas for each task are told apart from no others")
    return Tasks(splits, inputs, outputs, tuple(found), common)


def _shared(operator: Divisible, replicas: int, needed: int) -> int:
    if replicas % needed:
        raise UnfitTypesError(f"{operator.name}: {replicas} replicas are not {needed} for each task")
    return replicas // needed


def _missing(divisions: Sequence[Division], axes: Sequence[int | None]) -> int:
    return math.prod(division.degree for n, division in enumerate(divisions) if n not in axes)


def _output(operator: Divisible, tasks: Tasks, type_: TensorType, axes: tuple[int | None, ...]) -> TensorType:
    for number, division in enumerate(tasks.divisions):
        if number in axes or division == UNDIVIDED:
            continue
        if tasks.splits.dimensions[number].kind is not SplitKind.REDUCTION or division.batches != 1:
            raise UnfitTypesError(f"{operator.name}: what is made along a divided dimension is no sum")
    divisions = [UNDIVIDED if number is None else tasks.divisions[number] for number in axes]
    return divided(operator.name, type_, divisions, tasks.shared * _missing(tasks.divisions, axes))


def evaluate_divided(
    operator: Divisible, types: tuple[TensorType, ...], domain: Domain[A], arrays: tuple[A, ...]
) -> tuple[A, ...]:
    """The outputs of an operator with a sharded input: all tasks are evaluated in one call, along the
    stack."""
    tasks = tasks_of(operator, types)
    stack = max(_stack(domain, array) for array in arrays)
    parts = [
        domain.rearrange(lambda a, n=number: _gathered(tasks, a, n, stack), array)
        for number, array in enumerate(arrays)
    ]
    shards = tuple(
        type_.with_shape(_shard_shape(tasks, type_, axes))
        for type_, axes in zip(tasks.outputs, tasks.splits.outputs, strict=True)
    )
    results = operator.task(shards).evaluate(domain, *parts)
    return tuple(
        domain.rearrange(lambda a, p=port: _assembled(tasks, a, p), result)
        for port, result in enumerate(results)
    )


def _stack(domain: Domain[A], array: A) -> int:
    """The length of the stack axis."""
    found = [1]

    def noted(a: Array) -> Array:
        found.append(int(a.shape[0]))
        return a

    domain.rearrange(noted, array)
    return found[-1]


def _gathered(tasks: Tasks, array: Array, number: int, stack: int) -> Array:
    """[stack, (replicas), shape] -> [stack * tasks, shape of a shard]: the operand of each task."""
    axes, shape = tasks.splits.inputs[number], _sizes(tasks.inputs[number])
    xp, count = namespace(array), len(tasks.divisions)
    missing = [n for n in range(count) if n not in axes]
    if array.shape[0] != stack:
        array = xp.broadcast_to(array, (stack, *array.shape[1:]))
    cut: list[int] = [stack, tasks.shared]
    spread: list[int] = [stack, tasks.shared]
    places: dict[int, int] = {}
    for n in missing:
        division = tasks.divisions[n]
        cut += [division.degree, 1]
        places[n] = len(spread)
        spread += [division.degree, division.batches]
    rest: list[int] = []
    for axis, size in zip(axes, shape, strict=True):
        parts = 1 if axis is None else tasks.divisions[axis].parts
        if axis is not None:
            places[axis] = len(spread)
            cut.append(parts)
            spread.append(parts)
        rest.append(len(spread))
        cut.append(size // parts)
        spread.append(size // parts)
    opened = xp.broadcast_to(reshaped(array, tuple(cut)), tuple(spread))
    order = [0, 1]
    for n in range(count):
        order += [places[n], places[n] + 1] if n in missing else [places[n]]
    moved = xp.permute_dims(opened, (*order, *rest))
    total = stack * tasks.shared * math.prod(division.parts for division in tasks.divisions)
    return reshaped(moved, (total, *(spread[place] for place in rest)))


def _assembled(tasks: Tasks, array: Array, port: int) -> Array:
    """[stack * tasks, shape of a shard] -> [stack, (replicas), shape]: assembles an output from the tasks'
    results."""
    axes, shape = tasks.splits.outputs[port], _sizes(tasks.outputs[port])
    parts = [division.parts for division in tasks.divisions]
    stack = int(array.shape[0]) // (tasks.shared * math.prod(parts))
    shard = _shard_shape(tasks, tasks.outputs[port], axes)
    opened = reshaped(array, (stack, tasks.shared, *parts, *shard))
    summed = [2 + n for n in range(len(parts)) if n not in axes]
    first = 2 + len(parts)
    order: list[int] = [0, 1, *summed]
    for place, axis in enumerate(axes):
        order += [first + place] if axis is None else [2 + axis, first + place]
    moved = namespace(array).permute_dims(opened, tuple(order))
    replicas = tasks.shared * _missing(tasks.divisions, axes)
    return reshaped(moved, (stack, *((replicas,) if replicas > 1 else ()), *shape))


def _shard_shape(tasks: Tasks, type_: TensorType, axes: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(
        size if axis is None else size // tasks.divisions[axis].parts
        for size, axis in zip(_sizes(type_), axes, strict=True)
    )


def _sizes(type_: TensorType) -> tuple[int, ...]:
    sizes = tuple(size for size in type_.shape if isinstance(size, int))
    if len(sizes) != type_.rank:
        raise IllTypedError(f"expected known sizes, got {type_}")
    return sizes
