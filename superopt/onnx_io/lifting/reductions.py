"""Lift reductions, and normalisations made of them: one axis per node, kept as an axis of size 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from superopt.ir.dimensions import Dimension, product
from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.lifting.elementwise import Lifter, pointwise
from superopt.onnx_io.lifting.layers import normalised
from superopt.onnx_io.lifting.shape import reshaped
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops.base import Operator, axis_of
from superopt.ops.elementwise.activation import LogSoftmax
from superopt.ops.elementwise.arithmetic import Add, Identity, Multiply, Power, Scale, Sqrt, Subtract
from superopt.ops.elementwise.order import Absolute
from superopt.ops.images.pooling import GlobalAveragePool
from superopt.ops.normalization import LayerNormalization, RmsNormalization
from superopt.ops.reduction import Exp, Log, ReduceMax, ReduceMean, ReduceMin, ReduceSum
from superopt.ops.shape import Broadcast, Reshape


def axes_are_an_operand(op_type: str, opset: int) -> bool:
    """Whether the axes of a reduction are an operand in that operator set, instead of an attribute."""
    return opset >= (13 if op_type == "ReduceSum" else 18)


_MANY = 8192
"""Elements from which on a product with a row is faster than a reduction."""


def is_faster_as_product(type_: TensorType, axis: int) -> bool:
    """Whether ONNX Runtime 1.31 sums along an axis faster as a product with a row (``benchmarks composed``):
    where the axis is not the last, and those before it have a size of 1, or are a batch that is open."""
    before, own, behind = type_.shape[:axis], type_.shape[axis], type_.shape[axis + 1 :]
    if type_.element is not ElementType.FLOAT or not isinstance(own, int) or own < 2 or not behind:
        return False
    if any(size != 1 for size in before) and (axis != 1 or isinstance(before[0], int)):
        return False
    elements = product((own, *behind))
    return not isinstance(elements, int) or (elements >= _MANY and elements > own)


def _axes(site: Site, rank: int) -> tuple[int, ...]:
    """The reduced axes, non-negative; all if none is given."""
    if axes_are_an_operand(site.node.op_type, site.opset):
        named = site.constant_integers(1, "the axes") if site.has(1) else None
        if not named and site.integer("noop_with_empty_axes", 0):
            return ()
    else:
        named = site.integers("axes")
    if not named:
        return tuple(range(rank))
    return tuple(sorted({axis_of(site.node.op_type, axis, rank) for axis in named}))


def _some_axes(site: Site, rank: int) -> tuple[int, ...]:
    """The reduced axes of an operator whose meaning without any differs from runtime to runtime."""
    axes = _axes(site, rank)
    if not axes:
        raise NotLiftedError("it reduces along no axis")
    return axes


def _along(site: Site, operator: Callable[[int], Operator], data: Value, axes: tuple[int, ...]) -> Value:
    """The reduction along each of the axes, which keep a size of one."""
    rank = site.type_of(data).rank
    for axis in axes:
        data = site.add(operator(axis - rank if axis == rank - 1 else axis), data)
    return data


def _dropped(site: Site, own: TensorType, axes: tuple[int, ...], data: Value) -> Value:
    """What was reduced along the axes of a tensor, without them if the node does not keep them."""
    if not axes or site.integer("keepdims", 1):
        return data
    return site.add(Reshape(tuple(size for axis, size in enumerate(own.shape) if axis not in axes)), data)


def _reduction(operator: Callable[[int], Operator], *, adds: bool = False) -> Lifter:
    def lifter(site: Site) -> tuple[Value | None, ...]:
        own = site.type(0)
        axes = _axes(site, own.rank)
        if adds and len(axes) == 1 and is_faster_as_product(own, axes[0]):
            site.respell()
        result = _dropped(site, own, axes, _along(site, operator, site.value(0), axes))
        return (result if axes else site.add(Identity(), result),)

    return lifter


def _sum_of(each: Callable[[Site, Value], Value] | None, total: Operator | None = None) -> Lifter:
    """A function of the sum of a function of the elements."""

    def lifter(site: Site) -> tuple[Value | None, ...]:
        own = site.type(0)
        axes = _some_axes(site, own.rank)
        if each is None or (own.rank - 1 in axes and len(axes) < own.rank):
            site.respell()
        data = site.value(0) if each is None else each(site, site.value(0))
        result = _along(site, ReduceSum, data, axes)
        result = _dropped(site, own, axes, result)
        return (result if total is None else site.add(total, result),)

    return lifter


def _size(site: Site, data: Value) -> Value:
    return site.add(Absolute(), data)


def _square(site: Site, data: Value) -> Value:
    return site.add(Multiply(), data, data)


def _log_sum_exp(site: Site) -> tuple[Value | None, ...]:
    """The largest element, which is taken off before the exponentials and added after their logarithm."""
    own = site.type(0)
    axes = _some_axes(site, own.rank)
    site.respell()
    largest = _along(site, ReduceMax, site.value(0), axes)
    less = pointwise(site, Subtract(), site.value(0), largest)
    total = site.add(Log(), _along(site, ReduceSum, site.add(Exp(), less), axes))
    return (_dropped(site, own, axes, site.add(Add(), total, largest)),)


def _log_softmax(site: Site) -> tuple[Value | None, ...]:
    """Along an axis before the last two the runtime is faster in parts: all less the largest, less the
    logarithm of the sum of their exponentials."""
    data, axis = normalised(site)
    rank = site.type_of(data).rank
    place = axis_of(site.node.op_type, axis, rank)
    if place >= rank - 2:
        return (reshaped(site, site.add(LogSoftmax(axis), data), site.type(0).shape),)
    site.respell()
    less = pointwise(site, Subtract(), data, site.add(ReduceMax(place), data))
    total = site.add(Log(), site.add(ReduceSum(place), site.add(Exp(), less)))
    return (pointwise(site, Subtract(), less, total),)


def _global(operator: Callable[[int], Operator]) -> Lifter:
    """One number for each channel of each sample."""

    def lifter(site: Site) -> tuple[Value, ...]:
        rank = site.type(0).rank
        if rank < 3:
            raise NotLiftedError("it has no positions to reduce")
        result = site.value(0)
        for axis in reversed(range(2, rank)):
            result = site.add(operator(axis), result)
        return (result,)

    return lifter


def _global_average(site: Site) -> tuple[Value | None, ...]:
    """Of images the operator of that name, of others a mean along each axis."""
    if site.type(0).rank == 4:
        return (site.add(GlobalAveragePool(), site.value(0)),)
    return _global(ReduceMean)(site)


def usual_epsilon(site: Site) -> Fraction | int:
    """The epsilon attribute, if the node calculates in the usual precision."""
    if site.integer("stash_type", 1) != 1:
        raise NotLiftedError("it calculates in another precision (stash_type)")
    return site.fraction("epsilon", Fraction(1, 100000))


def _rows(site: Site) -> tuple[Value, tuple[Dimension, ...]]:
    """The operand with the axes along which the node normalises as one, the last, and their sizes."""
    own = site.type(0)
    first = axis_of(site.node.op_type, site.integer("axis", -1), own.rank)
    sizes = own.shape[first:]
    return reshaped(site, site.value(0), (*own.shape[:first], product(sizes))), sizes


def _row(site: Site, slot: int, sizes: tuple[Dimension, ...]) -> Value:
    """A factor or term of that operand, as one row."""
    if site.type(slot).shape != sizes:
        raise NotLiftedError(f"operand {slot} has not the sizes of the axes along which it normalises")
    return reshaped(site, site.value(slot), (product(sizes),))


def _layer_normalization(site: Site) -> tuple[Value | None, ...]:
    site.require_unused(1)
    site.require_unused(2)
    own, epsilon = site.type(0), usual_epsilon(site)
    data, sizes = _rows(site)
    if site.has(2):
        bias = _row(site, 2, sizes)
    else:
        bias = site.add(Broadcast((product(sizes),)), site.number(0, own.element))
    normal = site.add(LayerNormalization(epsilon), data, _row(site, 1, sizes), bias)
    return (reshaped(site, normal, own.shape), *(None for _ in site.node.output[1:]))


def _rms_normalization(site: Site) -> tuple[Value, ...]:
    epsilon = usual_epsilon(site)
    data, sizes = _rows(site)
    normal = site.add(RmsNormalization(epsilon), data, _row(site, 1, sizes))
    return (reshaped(site, normal, site.type(0).shape),)


def _negation(site: Site) -> tuple[Value, ...]:
    return (site.add(Scale(), site.value(0), site.number(-1, site.type(0).element)),)


def _reciprocal(site: Site) -> tuple[Value, ...]:
    site.type(0)
    return (site.add(Power(-1), site.value(0)),)


REDUCTIONS: Mapping[str, Lifter] = {
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global(ReduceMax),
    "LayerNormalization": _layer_normalization,
    "LogSoftmax": _log_softmax,
    "Neg": _negation,
    "RMSNormalization": _rms_normalization,
    "Reciprocal": _reciprocal,
    "ReduceL1": _sum_of(_size),
    "ReduceL2": _sum_of(_square, Sqrt()),
    "ReduceLogSum": _sum_of(None, Log()),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _reduction(ReduceMax),
    "ReduceMean": _reduction(ReduceMean, adds=True),
    "ReduceMin": _reduction(ReduceMin),
    "ReduceSum": _reduction(ReduceSum, adds=True),
    "ReduceSumSquare": _sum_of(_square),
}
