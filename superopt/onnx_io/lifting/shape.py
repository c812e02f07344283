"""Lift data movement operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from superopt.ir.dimensions import Dimension, floor_divide, product
from superopt.ir.graph import Value
from superopt.onnx_io.lifting.elementwise import Lifter
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.onnx_io.lifting.transposes import faster_steps
from superopt.ops.base import axis_of
from superopt.ops.matrix import Transpose
from superopt.ops.shape import Broadcast, Concat, Reshape, Split


def reshaped(site: Site, value: Value, shape: tuple[Dimension, ...]) -> Value:
    """The tensor in another shape; the value itself if it has that shape."""
    return value if site.moved_type(value).shape == shape else site.add(Reshape(shape), value)


def permuted(site: Site, value: Value, permutation: tuple[int, ...]) -> Value:
    """The tensor with its axes in another order; the value itself if that is the order."""
    if permutation == tuple(range(len(permutation))):
        return value
    return site.add(transposing(permutation), value)


def transposing(permutation: tuple[int, ...]) -> Transpose:
    """The operator for this permutation."""
    rank = len(permutation)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return Transpose() if permutation == swapped else Transpose(permutation)


def _reshape(site: Site) -> tuple[Value, ...]:
    own = site.moved(0)
    wanted = site.sizes(1, "the shape")
    shape: list[Dimension] = []
    open_axis: int | None = None
    for axis, size in enumerate(wanted):
        if size == -1:
            open_axis = axis
            shape.append(1)
        elif size == 0 and not site.integer("allowzero", 0):
            if axis >= own.rank:
                raise NotLiftedError(f"the shape copies axis {axis} of a tensor with {own.rank} axes")
            shape.append(own.shape[axis])
        else:
            shape.append(size)
    known = product(shape)
    if known == 0:
        raise NotLiftedError("the tensor is empty")
    if open_axis is not None:
        shape[open_axis] = floor_divide(own.elements, known)
    return (site.add(Reshape(tuple(shape)), site.value(0)),)


def _flatten(site: Site) -> tuple[Value, ...]:
    own = site.moved(0)
    axis = site.integer("axis", 1)
    axis = axis + own.rank if axis < 0 else axis
    return (site.add(Reshape((product(own.shape[:axis]), product(own.shape[axis:]))), site.value(0)),)


def _axes(site: Site) -> tuple[int, ...] | None:
    if site.opset < 13:
        return site.integers("axes")
    return site.constant_integers(1, "the axes") if site.has(1) else None


def _squeeze(site: Site) -> tuple[Value, ...]:
    own = site.moved(0)
    axes = _axes(site)
    if axes is None:
        if not all(isinstance(size, int) for size in own.shape):
            raise NotLiftedError("which axes are squeezed is only known at run time")
        dropped = {axis for axis, size in enumerate(own.shape) if size == 1}
    else:
        dropped = {axis_of("squeeze", axis, own.rank) for axis in axes}
    kept = tuple(size for axis, size in enumerate(own.shape) if axis not in dropped)
    return (site.add(Reshape(kept), site.value(0)),)


def _unsqueeze(site: Site) -> tuple[Value, ...]:
    own = site.moved(0)
    axes = _axes(site)
    if axes is None:
        raise NotLiftedError("it has no axes")
    rank = own.rank + len(axes)
    added = {axis_of("unsqueeze", axis, rank) for axis in axes}
    old = iter(own.shape)
    shape = tuple(1 if axis in added else next(old) for axis in range(rank))
    return (site.add(Reshape(shape), site.value(0)),)


def _transpose(site: Site) -> tuple[Value, ...]:
    own = site.moved(0)
    permutation = site.integers("perm") or tuple(reversed(range(own.rank)))
    if faster_steps(own, permutation) is not None:
        site.respell()
    result = permuted(site, site.value(0), permutation)
    return (result if site.made else site.add(Reshape(own.shape), result),)


def _concat(site: Site) -> tuple[Value, ...]:
    parts = [site.value(slot) for slot in range(len(site.node.input))]
    rank = site.moved(0).rank
    return (site.add(Concat(_axis(site, rank)), *parts),)


def _axis(site: Site, rank: int) -> int:
    """The axis as written, after validation."""
    axis = site.integer("axis", 0)
    axis_of(site.node.op_type.lower(), axis, rank)
    return axis


def _split(site: Site) -> tuple[Value | None, ...]:
    whole = site.moved(0)
    axis = _axis(site, whole.rank)
    extent = whole.shape[axis]
    sizes: Sequence[Dimension] | None = None
    if site.opset >= 13:
        sizes = site.constant_integers(1, "the sizes") if site.has(1) else None
    else:
        sizes = site.integers("split")
    if sizes is None:
        pieces = len(site.node.output)
        if not isinstance(extent, int):
            raise NotLiftedError(f"how {extent} divides into {pieces} pieces is only known at run time")
        size = -(-extent // pieces)
        sizes = [size] * (pieces - 1) + [extent - size * (pieces - 1)]
    if any(size == 0 for size in sizes):
        raise NotLiftedError("a piece is empty")
    return site.add_many(Split(axis, tuple(sizes)), site.value(0))


def _expand(site: Site) -> tuple[Value, ...]:
    own = site.moved(0)
    wanted = site.sizes(1, "the shape")
    rank = max(own.rank, len(wanted))
    padded = (1,) * (rank - own.rank) + own.shape
    target = (1,) * (rank - len(wanted)) + wanted
    shape = tuple(old if new == 1 else new for old, new in zip(padded, target, strict=True))
    return (site.add(Broadcast(shape), site.value(0)),)


MOVEMENT: Mapping[str, Lifter] = {
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
