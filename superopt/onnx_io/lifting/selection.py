"""Lift choices, comparisons, logic on truth values, and casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from superopt.ir.graph import Value
from superopt.onnx_io.lifting.elementwise import Lifter, pointwise
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.onnx_io.protos import ONNX_ELEMENTS, element_type
from superopt.ops.base import Operator
from superopt.ops.elementwise.arithmetic import Identity
from superopt.ops.elementwise.precision import Cast, precision_of
from superopt.ops.elementwise.selection import Equal, Greater, LogicalAnd, LogicalNot, LogicalOr, Select


def _where(site: Site) -> tuple[Value, ...]:
    return (pointwise(site, Select(), site.value(0), site.value(1), site.value(2)),)


def _of_two(operator: Operator) -> Callable[[Site], tuple[Value, ...]]:
    return lambda site: (pointwise(site, operator, site.value(0), site.value(1)),)


_greater = _of_two(Greater())


def _less(site: Site) -> tuple[Value, ...]:
    return (pointwise(site, Greater(), site.value(1), site.value(0)),)


def _not_less(site: Site) -> tuple[Value, ...]:
    return (site.add(LogicalNot(), *_less(site)),)


def _not_greater(site: Site) -> tuple[Value, ...]:
    return (site.add(LogicalNot(), *_greater(site)),)


def _not(site: Site) -> tuple[Value, ...]:
    site.moved(0)
    return (site.add(LogicalNot(), site.value(0)),)


def _cast(site: Site) -> tuple[Value, ...]:
    """Nothing where the type stays; else only to floating point, because other types cut numbers off."""
    own, wanted = site.moved(0), site.integer("to", 0)
    if wanted == ONNX_ELEMENTS.get(own.element):
        return (site.add(Identity(), site.value(0)),)
    precision = precision_of(element_type(wanted))
    if precision is None:
        raise NotLiftedError("it cuts numbers off")
    return (site.add(Cast(precision), site.value(0)),)


SELECTION: Mapping[str, Lifter] = {
    "And": _of_two(LogicalAnd()),
    "Cast": _cast,
    "Equal": _of_two(Equal()),
    "Greater": _greater,
    "GreaterOrEqual": _not_less,
    "Less": _less,
    "LessOrEqual": _not_greater,
    "Not": _not,
    "Or": _of_two(LogicalOr()),
    "Where": _where,
}
