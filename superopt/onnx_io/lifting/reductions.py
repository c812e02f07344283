"""Lift reductions, and normalisations made of them: one axis per node, kept as an axis of size 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from superopt.ir.graph import Value
from superopt.onnx_io.lifting.elementwise import Lifter
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops.base import Operator, axis_of
from superopt.ops.elementwise import Identity, Power, Scale
from superopt.ops.normalization import LayerNormalization, RmsNormalization
from superopt.ops.pooling import GlobalAveragePool
from superopt.ops.reduction import ReduceMax, ReduceMean, ReduceMin, ReduceSum
from superopt.ops.shape import Broadcast, Reshape

AXES_ARE_AN_OPERAND = {"ReduceSum": 13, "ReduceMean": 18, "ReduceMax": 18, "ReduceMin": 18}
"""The opsets since which the axes are an operand instead of an attribute."""


def _axes(site: Site, rank: int) -> tuple[int, ...]:
    """The reduced axes, non-negative; all if none is given."""
    if site.opset < AXES_ARE_AN_OPERAND[site.node.op_type]:
        named = site.integers("axes")
    else:
        named = site.constant_integers(1, "the axes") if site.has(1) else None
        if not named and site.integer("noop_with_empty_axes", 0):
            return ()
    if not named:
        return tuple(range(rank))
    return tuple(sorted({axis_of(site.node.op_type, axis, rank) for axis in named}))


def _reduction(operator: Callable[[int], Operator]) -> Lifter:
    def lifter(site: Site) -> tuple[Value | None, ...]:
        own = site.type(0)
        axes = _axes(site, own.rank)
        result = site.value(0)
        for axis in axes:
            result = site.add(operator(axis - own.rank if axis == own.rank - 1 else axis), result)
        if axes and not site.integer("keepdims", 1):
            kept = tuple(size for axis, size in enumerate(own.shape) if axis not in axes)
            result = site.add(Reshape(kept), result)
        return (result if axes else site.add(Identity(), result),)

    return lifter


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


def _epsilon(site: Site) -> Fraction | int:
    """The epsilon attribute, if the node normalises along the last axis only, in the usual precision."""
    rank = site.type(0).rank
    if axis_of(site.node.op_type, site.integer("axis", -1), rank) != rank - 1:
        raise NotLiftedError("it normalises along several axes")
    if site.integer("stash_type", 1) != 1:
        raise NotLiftedError("it calculates in another precision (stash_type)")
    return site.fraction("epsilon", Fraction(1, 100000))


def _layer_normalization(site: Site) -> tuple[Value | None, ...]:
    site.require_unused(1)
    site.require_unused(2)
    own, epsilon = site.type(0), _epsilon(site)
    bias = site.value(2) if site.has(2) else site.add(Broadcast(own.shape[-1:]), site.number(0, own.element))
    normal = site.add(LayerNormalization(epsilon), site.value(0), site.value(1), bias)
    return (normal, *(None for _ in site.node.output[1:]))


def _rms_normalization(site: Site) -> tuple[Value, ...]:
    epsilon = _epsilon(site)
    return (site.add(RmsNormalization(epsilon), site.value(0), site.value(1)),)


def _negation(site: Site) -> tuple[Value, ...]:
    return (site.add(Scale(), site.value(0), site.number(-1, site.type(0).element)),)


def _reciprocal(site: Site) -> tuple[Value, ...]:
    site.type(0)
    return (site.add(Power(-1), site.value(0)),)


REDUCTIONS: Mapping[str, Lifter] = {
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global(ReduceMax),
    "LayerNormalization": _layer_normalization,
    "Neg": _negation,
    "RMSNormalization": _rms_normalization,
    "Reciprocal": _reciprocal,
    "ReduceMax": _reduction(ReduceMax),
    "ReduceMean": _reduction(ReduceMean),
    "ReduceMin": _reduction(ReduceMin),
    "ReduceSum": _reduction(ReduceSum),
}
