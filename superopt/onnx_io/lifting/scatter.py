"""Lift Scatter nodes that sum: gradients of tables of which rows were looked up, and of maxima of windows."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from superopt.ir.graph import Value, Weight
from superopt.onnx_io.lifting.elementwise import Lifter
from superopt.onnx_io.lifting.layers import window
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops import Opaque
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.gradients.pooling import MaxPoolGradient
from superopt.ops.gradients.transposes import LookupGradient
from superopt.ops.images.pooling import MaxPool
from superopt.ops.shape import Broadcast, Reshape


def _scatter_nd(site: Site) -> tuple[Value, ...]:
    """Sums of rows at indices that are computed, added to a table; alone where the table is of zeros."""
    _require_sum(site)
    table, indices = site.type(0), site.moved(1)
    if table.rank != 2 or indices.rank < 2 or indices.shape[-1] != 1:
        raise NotLiftedError("it does not add to the rows of a matrix")
    _require_known_sizes(site)
    numbers = site.add(Reshape(indices.shape[:-1]), site.value(1))
    return _with_rows(site, numbers, site.value(2))


def _require_sum(site: Site) -> None:
    reduction = site.text("reduction", "none")
    if reduction == "none":
        raise NotLiftedError("it puts numbers in place of others")
    if reduction != "add":
        raise NotLiftedError(f"its reduction is {reduction}, not a sum")


def _with_rows(site: Site, indices: Value, rows: Value) -> tuple[Value, ...]:
    """The rows added to the table that is the first operand; alone where it is of zeros."""
    sums = site.add(LookupGradient(site.type(0).shape[0]), indices, rows)
    if _repeated_number(site, site.value(0)) == 0:
        site.read_beside(0)
        return (sums,)
    return (site.add(Add(), site.value(0), sums),)


def _scatter_elements(site: Site) -> tuple[Value, ...]:
    """Sums of elements at the places of the maxima that a MaxPool gives, alone in a tensor of zeros; or of
    rows, where an index is repeated along its row."""
    _require_sum(site)
    rows = _rows(site)
    if rows is not None:
        return _with_rows(site, rows, site.value(2))
    places = _before(site, site.value(1), Reshape)
    pooling = site.producer(places)
    if not isinstance(pooling.operator, Opaque) or (pooling.operator.op_type, places.port) != ("MaxPool", 1):
        raise NotLiftedError("it does not add at the places of maxima")
    pool = site.site_of(pooling.operator)
    image = site.type_of(pooling.inputs[0])
    if image.rank != 4 or pool.integer("storage_order", 0):
        raise NotLiftedError("the maxima are not those of an image in rows")
    if site.type(0).shape != (image.elements,) or _repeated_number(site, site.value(0)) != 0:
        raise NotLiftedError("it does not add to as many zeros as the image has elements")
    windows = MaxPool(*window(pool, 2))
    (pooled,) = windows.infer_whole(image)
    cotangent = site.add(Reshape(pooled.shape), site.value(2))
    sums = site.add(
        MaxPoolGradient(windows.kernel, windows.stride, windows.padding), pooling.inputs[0], cotangent
    )
    site.read_beside(0)
    site.read_beside(1)
    return (site.add(Reshape((image.elements,)), sums),)


def _rows(site: Site) -> Value | None:
    """The indices of the rows of a matrix that a ScatterElements adds to, if it does."""
    table, column = site.type(0), _before(site, site.value(1), Broadcast)
    own, places = site.moved_type(column), site.moved(1)
    if table.rank != 2 or places.rank != 2 or site.integer("axis", 0) != 0:
        return None
    if own.shape != (places.shape[0], 1) or places.shape[1] != table.shape[1]:
        return None
    _require_known_sizes(site)
    site.read_beside(1)
    return site.add(Reshape(own.shape[:1]), column)


def _require_known_sizes(site: Site) -> None:
    """Rows are added to a table of known sizes only: ONNX could not be given others."""
    if not all(isinstance(size, int) for size in site.type(0).shape):
        raise NotLiftedError("the sizes of the table are known at run time only")


def _before(site: Site, value: Value, kind: type[Reshape | Broadcast]) -> Value:
    """What a value is made of by operators of that kind."""
    node = site.producer(value)
    while isinstance(node.operator, kind):
        (value,) = node.inputs
        node = site.producer(value)
    return value


def _repeated_number(site: Site, value: Value) -> Fraction | int | None:
    """The number that all elements of a tensor are known to equal; None for others."""
    operator = site.producer(_before(site, value, Broadcast)).operator
    return operator.number if isinstance(operator, Weight) else None


SCATTER: Mapping[str, Lifter] = {"ScatterElements": _scatter_elements, "ScatterND": _scatter_nd}
