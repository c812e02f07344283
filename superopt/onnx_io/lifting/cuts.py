"""Lift Slice and Gather with constant indices as pieces of a tensor, and Pad as a concatenation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import onnx

from superopt.ir.dimensions import Dimension, product
from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.lifting.elementwise import Lifter
from superopt.onnx_io.lifting.shape import permuted, reshaped
from superopt.onnx_io.lifting.site import NotLiftedError, Site, known_number
from superopt.ops.base import axis_of
from superopt.ops.elementwise.arithmetic import Identity
from superopt.ops.filled import Full
from superopt.ops.images.pooling import MaxPool
from superopt.ops.lookup import Lookup
from superopt.ops.shape import Concat, Reshape, Split

SLICE_TAKES_OPERANDS = 10
"""The opset since which the bounds of Slice are operands."""

_UNBOUNDED = (1 << 31) - 1
"""Larger than any size: exporters use such an end for a slice up to the end of an axis."""

_SINGLE, _IN_ROWS, _MORE_NODES = 6.0, 0.8, 20_000.0
"""Nanoseconds of ONNX Runtime 1.31 for an element that a Gather copies by itself, for one that is transposed
and copied in a row, and for the nodes that this needs (``benchmarks composed``)."""


@dataclass(frozen=True, slots=True)
class Range:
    """Every ``step``-th position from ``start`` to ``stop`` of an axis; ``size`` is that of the axis."""

    axis: int
    start: int
    stop: int
    step: int
    size: int

    @property
    def count(self) -> int:
        """The number of positions."""
        return -(-(self.stop - self.start) // self.step)

    @property
    def spans(self) -> bool:
        """Whether the axis consists of as many steps."""
        return self.start < self.step and self.count * self.step == self.size

    @property
    def divides(self) -> bool:
        """Whether the positions are the first of ``count`` whole steps."""
        return self.spans or self.start + self.count * self.step <= self.size


def _slice(site: Site) -> tuple[Value, ...]:
    """Parts of axes as pieces of splits; every n-th row and column of an image as pooling with windows of
    one element, every n-th position of another axis as a piece of an axis of n."""
    own, result = site.moved(0), site.value(0)
    ranges = _ranges(site, own)
    pooled = [
        part
        for part in ranges
        if part.axis in (2, 3) and part.step > 1 and (part.start == 0 or not part.divides)
    ]
    if own.rank == 4 and own.element in (ElementType.FLOAT, ElementType.DOUBLE) and pooled:
        for part in pooled:
            result = between(site, result, part.axis, part.start, part.stop, part.size)
        steps = {part.axis: part.step for part in pooled}
        result = site.add(MaxPool((1, 1), (steps.get(2, 1), steps.get(3, 1))), result)
        ranges = tuple(part for part in ranges if part not in pooled)
    for part in ranges:
        result = _part(site, result, part) if part.step == 1 else _every(site, result, part)
    return (result if site.made else site.add(Identity(), result),)


def _part(site: Site, data: Value, part: Range) -> Value:
    if (part.start, part.stop) == (0, part.size):
        return data
    points = _common_points(site, part)
    if any(part.start < point < part.stop for point in points):
        return between(site, data, part.axis, part.start, part.stop, part.size)
    edges = [0, *points, part.size]
    sizes = tuple(after - before for before, after in itertools.pairwise(edges))
    return _piece(site, data, part.axis, sizes, edges.index(part.start))


def _every(site: Site, data: Value, part: Range) -> Value:
    """Every n-th position: the axis becomes one of n positions, of which one is kept."""
    if not part.divides:
        raise NotLiftedError(f"axis {part.axis} does not divide into steps of {part.step}")
    offset = part.start if part.spans else 0
    if not part.spans:
        stop = part.start + part.count * part.step
        data = _part(site, data, Range(part.axis, part.start, stop, 1, part.size))
    shape = site.moved_type(data).shape
    outer, inner = shape[: part.axis], shape[part.axis + 1 :]
    apart = site.add(Reshape((*outer, part.count, part.step, *inner)), data)
    kept = between(site, apart, part.axis + 1, offset, offset + 1, part.step)
    return site.add(Reshape((*outer, part.count, *inner)), kept)


def between(site: Site, data: Value, axis: int, start: int, stop: int, size: int) -> Value:
    """The positions from ``start`` to ``stop`` of an axis of that size, cut from the others."""
    sizes = tuple(part for part in (start, stop - start, size - stop) if part)
    return _piece(site, data, axis, sizes, min(start, 1))


def _piece(site: Site, data: Value, axis: int, sizes: tuple[int, ...], number: int) -> Value:
    return data if len(sizes) == 1 else site.add_many(Split(axis, sizes), data)[number]


def _gather(site: Site) -> tuple[Value, ...]:
    return gathered(site, along_any_axis=False)


def gathered(site: Site, *, along_any_axis: bool) -> tuple[Value, ...]:
    """One position of an axis, or several in a row; rows of a table at indices that are computed: along the
    first axis, or by transpositions along any."""
    own = site.moved(0)
    content = site.constant(1)
    part = _looked_up(site, site.node, own)
    if content is None or part is None:
        axis = axis_of("gather", site.integer("axis", 0), own.rank)
        if axis and _is_faster_transposed(own, axis, site.moved(1)):
            site.respell()
        elif axis and not along_any_axis:
            raise NotLiftedError("the indices are not positions in a row, and the axis is not the first")
        return (_rows(site, own, axis),)
    result = _part(site, site.value(0), part)
    shape = (*own.shape[: part.axis], *content.shape, *own.shape[part.axis + 1 :])
    result = reshaped(site, result, shape)
    return (result if site.made else site.add(Identity(), result),)


def _is_faster_transposed(own: TensorType, axis: int, indices: TensorType) -> bool:
    """Whether the runtime looks up rows of the transposed tensor faster: along the last axis it copies single
    elements."""
    given, others, found = own.elements, product(own.shape[:axis]), indices.elements
    if axis != own.rank - 1 or own.element is not ElementType.FLOAT or indices.rank != 1:
        return False
    if not isinstance(given, int) or not isinstance(others, int) or not isinstance(found, int):
        return False
    made = others * found
    return _SINGLE * made > _IN_ROWS * (given + made) + _MORE_NODES


def _rows(site: Site, own: TensorType, axis: int) -> Value:
    """The positions of an axis at the indices: rows of a table, whose columns are the positions of the other
    axes."""
    indices = site.moved(1)
    others = tuple(other for other in range(own.rank) if other != axis)
    columns = tuple(own.shape[other] for other in others)
    table = permuted(site, site.value(0), (axis, *others))
    table = reshaped(site, table, (own.shape[axis], product(columns)))
    rows = reshaped(site, site.add(Lookup(), table, site.value(1)), (*indices.shape, *columns))
    moved = (*range(indices.rank, indices.rank + axis), *range(indices.rank))
    return permuted(site, rows, (*moved, *range(indices.rank + axis, indices.rank + len(others))))


def _looked_up(site: Site, node: onnx.NodeProto, own: TensorType) -> Range | None:
    """The positions that a Gather reads; None where they are not constants in a row."""
    axis = axis_of("gather", _attribute(node, "axis", (0,))[0], own.rank)
    size, content = own.shape[axis], site.stored(node.input[1])
    if content is None or content.size == 0 or not isinstance(size, int):
        return None
    numbers = [int(number) for number in content.reshape(-1)]
    first = numbers[0] + size if numbers[0] < 0 else numbers[0]
    expected = range(first, first + len(numbers))
    if [number % size for number in numbers] != list(expected) or min(numbers) < -size or first < 0:
        return None
    return Range(axis, first, first + len(numbers), 1, size)


def _ranges(site: Site, own: TensorType) -> tuple[Range, ...]:
    """What a Slice keeps of each axis that it names. Raises NotLiftedError where it keeps nothing, reverses,
    or where that is not known."""
    bounds = _bounds(site, site.node)
    if bounds is None:
        raise NotLiftedError("its bounds are computed at run time")
    for slot in range(1, len(site.node.input)):
        site.read_beside(slot)
    starts, stops, axes, steps = bounds
    if len({len(starts), len(stops), len(axes), len(steps)}) > 1:
        raise NotLiftedError("its operands differ in length")
    named = [axis_of("slice", axis, own.rank) for axis in axes]
    if len(set(named)) < len(named):
        raise NotLiftedError("it names an axis twice")
    found: list[Range] = []
    for axis, start, stop, step in zip(named, starts, stops, steps, strict=True):
        if not isinstance(step, int) or step < 1:
            raise NotLiftedError("it reverses an axis")
        part = _range(axis, own.shape[axis], start, stop, step)
        if part is None:
            raise NotLiftedError(f"what it keeps of the size {own.shape[axis]} is only known at run time")
        if part.stop <= part.start:
            raise NotLiftedError("it keeps nothing")
        found.append(part)
    return tuple(part for part in found if (part.start, part.stop, part.step) != (0, part.size, 1))


def _range(axis: int, size: Dimension, start: Dimension, stop: Dimension, step: int) -> Range | None:
    """The positions kept of an axis, bounds clamped to it; None where they depend on a symbol."""
    if start == 0 and step == 1 and (stop == size or (isinstance(stop, int) and stop >= _UNBOUNDED)):
        return Range(axis, 0, 1, 1, 1) if not isinstance(size, int) else Range(axis, 0, size, 1, size)
    if not isinstance(size, int) or not isinstance(start, int) or not isinstance(stop, int):
        return None
    first, last = (max(0, min(size, bound + size if bound < 0 else bound)) for bound in (start, stop))
    return Range(axis, first, last, step, size)


Numbers = tuple[Dimension, ...]
Bounds = tuple[Numbers, Numbers, tuple[int, ...], Numbers]


def _bounds(site: Site, node: onnx.NodeProto) -> Bounds | None:
    """Starts, stops, axes and steps of a Slice; None where they depend on more than sizes."""
    if site.opset < SLICE_TAKES_OPERANDS:
        starts, stops = _attribute(node, "starts", ()), _attribute(node, "ends", ())
        axes = _attribute(node, "axes", tuple(range(len(starts))))
        return starts, stops, axes, (1,) * len(starts)
    names = (*node.input[1:], *[""] * (5 - len(node.input)))
    given = [_numbers(site, name) if name else None for name in names]
    if any(name and content is None for name, content in zip(names, given, strict=True)):
        return None
    starts, stops, axes, steps = given
    if starts is None or stops is None:
        return None
    named = tuple(range(len(starts))) if axes is None else tuple(a for a in axes if isinstance(a, int))
    return starts, stops, named, (1,) * len(starts) if steps is None else steps


def _numbers(site: Site, name: str) -> Numbers | None:
    content = site.stored(name)
    if content is None:
        return site.sizes_named(name)
    return tuple(int(number) for number in content.reshape(-1))


def _attribute(node: onnx.NodeProto, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    for attribute in node.attribute:
        if attribute.name == name:
            return tuple(attribute.ints) or (attribute.i,)
    return default


def _common_points(site: Site, part: Range) -> list[int]:
    """Where the tensor is cut along the axis by this node and by others of its kind, so that all of them
    become pieces of one split."""
    own = site.moved(0)
    points = {part.start, part.stop}
    for node in site.alike():
        for other in _parts_of(site, node, own):
            if other.axis == part.axis and other.size == part.size:
                points.update((other.start, other.stop))
    return sorted(point for point in points if 0 < point < part.size)


def _parts_of(site: Site, node: onnx.NodeProto, own: TensorType) -> Iterator[Range]:
    """The contiguous parts that a node keeps, as far as they are known."""
    if node.op_type == "Gather":
        part = _looked_up(site, node, own)
        if part is not None:
            yield part
        return
    starts, stops, axes, steps = _bounds(site, node) or ((), (), (), ())
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=False):
        if -own.rank <= axis < own.rank and step == 1:
            part = _range(axis % own.rank, own.shape[axis], start, stop, 1)
            if part is not None and part.start < part.stop:
                yield part


def _pad(site: Site) -> tuple[Value, ...]:
    """Concatenations with a number; negative margins cut pieces off."""
    own, result = site.type(0), site.value(0)
    margins, number = _margins(site, own.rank), _padded_with(site)
    for axis, (before, after) in margins.items():
        size = own.shape[axis]
        if before < 0 or after < 0:
            if not isinstance(size, int):
                raise NotLiftedError(f"whether {size} is larger than its margins is only known at run time")
            result = _part(site, result, Range(axis, max(0, -before), size - max(0, -after), 1, size))
        result = surrounded(site, result, axis, (max(0, before), max(0, after)), number)
    return (result if site.made else site.add(Identity(), result),)


def surrounded(site: Site, data: Value, axis: int, margins: tuple[int, int], number: Fraction | int) -> Value:
    """The tensor with so many equal numbers before and after an axis."""
    shape = site.type_of(data).shape
    sides = [
        [site.add(Full(number, (*shape[:axis], size, *shape[axis + 1 :])))] if size else []
        for size in margins
    ]
    return site.add(Concat(axis), *sides[0], data, *sides[1]) if any(margins) else data


def _margins(site: Site, rank: int) -> dict[int, tuple[int, int]]:
    """The margins before and after each axis that has any. Raises NotLiftedError where they are not known."""
    if site.text("mode", "constant") != "constant" and not _has_no_margins(site):
        raise NotLiftedError(f"it pads by {site.text('mode', 'constant')}")
    pads = _pads(site)
    axes = tuple(range(rank))
    if site.has(3):
        axes = tuple(axis_of("pad", axis, rank) for axis in site.constant_integers(3, "the axes"))
    if len(pads) != 2 * len(axes) or len(set(axes)) < len(axes):
        raise NotLiftedError(f"it has {len(pads)} margins for {len(axes)} axes")
    pairs = zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True)
    return {axis: (before, after) for axis, before, after in pairs if before or after}


def _pads(site: Site) -> tuple[int, ...]:
    if site.opset >= PAD_TAKES_OPERANDS:
        return site.constant_integers(1, "the padding")
    return site.integers("pads") or ()


def _has_no_margins(site: Site) -> bool:
    """Whether it is a pad of size 0, which exporters emit for a margin that turns out to be 0."""
    return not any(_pads(site))


def _padded_with(site: Site) -> Fraction | int:
    if site.opset < PAD_TAKES_OPERANDS:
        return site.fraction("value", 0)
    if not site.has(2):
        return 0
    content = site.constant(2)
    if content is None:
        raise NotLiftedError("what it pads with is computed at run time")
    number = known_number(content)
    if number is None:
        raise NotLiftedError("it pads with what is no number of single precision")
    return number


PAD_TAKES_OPERANDS = 11
"""The opset since which the margins of Pad are operands."""

CUTS: Mapping[str, Lifter] = {"Gather": _gather, "Pad": _pad, "Slice": _slice}
