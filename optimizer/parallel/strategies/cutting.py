"""Cut tensors of a graph into parts along their axes, and join them again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from superopt.ir.graph import GraphEditor, NodeId, Value
from superopt.ir.types import TensorType
from superopt.ops.shape import Concat, Reshape, Split
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.tasks import shape_of


def sizes_of_parts(size: int, parts: int) -> tuple[int, ...]:
    """The sizes of that many parts of an axis; where it cannot be divided evenly, the first ones have one
    more, as TensorFlow's partitioned variables."""
    return tuple(size // parts + (number < size % parts) for number in range(parts))


def regions_of_partition(shape: Sequence[int], partition: Sequence[int]) -> Iterator[Region]:
    """The boxes of the parts, row-major."""
    along: list[list[tuple[int, int]]] = []
    for size, parts in zip(shape, partition, strict=True):
        ends = [0, *itertools.accumulate(sizes_of_parts(size, parts))]
        along.append(list(itertools.pairwise(ends)))
    for found in itertools.product(*along):
        yield tuple(found)


class Cutter:
    """Adds nodes to a graph that cut and join tensors."""

    def __init__(self, editor: GraphEditor) -> None:
        self.editor = editor

    def shape(self, value: Value) -> tuple[int, ...]:
        """The sizes of a tensor."""
        type_ = self.editor.type_of(value)
        assert isinstance(type_, TensorType), "strategies are about tensors"
        return shape_of(type_)

    def cut(self, value: Value, axis: int, sizes: Sequence[int]) -> tuple[Value, ...]:
        """The pieces of those sizes along an axis, from one node."""
        return self.editor.add(Split(axis, tuple(sizes)), (value,)).values

    def end_to_end(self, values: Sequence[Value]) -> Value:
        """The values joined along the first axis."""
        return self.editor.add(Concat(0), values).value

    def parts(self, value: Value, partition: Sequence[int]) -> tuple[list[Value], list[NodeId]]:
        """The parts of a value, row-major, and the new nodes."""
        values, added = [value], list[NodeId]()
        for axis, count in enumerate(partition):
            if count == 1:
                continue
            found: list[Value] = []
            for whole in values:
                sizes = sizes_of_parts(self.shape(whole)[axis], count)
                pieces = self.cut(whole, axis, sizes)
                added.append(pieces[0].node)
                found.extend(pieces)
            values = found
        return values, added

    def joined(self, values: Sequence[Value], partition: Sequence[int]) -> tuple[Value, list[NodeId]]:
        """The tensor of those parts, row-major, and the new nodes."""
        rest, added = list(values), list[NodeId]()
        for axis, count in reversed(list(enumerate(partition))):
            if count == 1:
                continue
            found: list[Value] = []
            for first in range(0, len(rest), count):
                node = self.editor.add(Concat(axis), rest[first : first + count])
                added.append(node.id)
                found.append(node.value)
            rest = found
        (only,) = rest
        return only, added

    def box(self, value: Value, region: Region) -> tuple[Value, list[NodeId]]:
        """A box of a value, and the new nodes."""
        added: list[NodeId] = []
        for axis, ((start, stop), size) in enumerate(zip(region, self.shape(value), strict=True)):
            if (start, stop) == (0, size):
                continue
            sizes = tuple(length for length in (start, stop - start, size - stop) if length)
            value = self.cut(value, axis, sizes)[int(start > 0)]
            added.append(value.node)
        return value, added

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value with another shape."""
        if self.shape(value) == shape:
            return value
        return self.editor.add(Reshape(shape), (value,)).value
