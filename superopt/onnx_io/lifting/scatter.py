"""Lift Scatter nodes that sum rows: gradients of tables of which rows were looked up."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from superopt.ir.graph import Value, Weight
from superopt.onnx_io.lifting.elementwise import Lifter
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops.elementwise import Add
from superopt.ops.gradients import LookupGradient
from superopt.ops.shape import Broadcast, Reshape


def _scatter_nd(site: Site) -> tuple[Value, ...]:
    """Sums of rows at indices that are computed, added to a table; alone where the table is of zeros."""
    if site.text("reduction", "none") != "add":
        raise NotLiftedError("it puts numbers in place of others")
    table, indices = site.type(0), site.moved(1)
    if table.rank != 2 or indices.rank < 2 or indices.shape[-1] != 1:
        raise NotLiftedError("it does not add to the rows of a matrix")
    numbers = site.add(Reshape(indices.shape[:-1]), site.value(1))
    sums = site.add(LookupGradient(table.shape[0]), numbers, site.value(2))
    if _repeated_number(site, site.value(0)) == 0:
        site.read_as_sizes(0)
        return (sums,)
    return (site.add(Add(), site.value(0), sums),)


def _repeated_number(site: Site, value: Value) -> Fraction | int | None:
    """The number that all elements of a tensor are known to equal; None for others."""
    node = site.producer(value)
    while isinstance(node.operator, Broadcast):
        node = site.producer(node.inputs[0])
    return node.operator.number if isinstance(node.operator, Weight) else None


SCATTER: Mapping[str, Lifter] = {"ScatterND": _scatter_nd}
