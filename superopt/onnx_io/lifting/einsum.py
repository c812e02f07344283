"""Lift sums of products (Einsum) to reductions, transpositions and products of matrices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from superopt.ir.dimensions import Dimension, product
from superopt.ir.graph import Value
from superopt.onnx_io.lifting.elementwise import Lifter, pointwise
from superopt.onnx_io.lifting.layers import matrix_product
from superopt.onnx_io.lifting.shape import permuted, reshaped
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops.elementwise.arithmetic import Identity, Multiply
from superopt.ops.reduction import ReduceSum

_EQUATION = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*(->[A-Za-z]*)?")


@dataclass(frozen=True, slots=True)
class _Factor:
    """A tensor whose axes have these labels."""

    value: Value
    labels: str


def _einsum(site: Site) -> tuple[Value, ...]:
    """The operands are multiplied from left to right; an axis is summed as soon as nothing else has it."""
    site.respell()
    factors, wanted = _read(site)
    sizes = _sizes(site, factors)
    result = factors[0]
    for place, factor in enumerate(factors[1:], 1):
        later = wanted + "".join(other.labels for other in factors[place + 1 :])
        result = _multiplied(site, result, factor, later, sizes)
    result = _summed(site, result, wanted)
    value = permuted(site, result.value, tuple(result.labels.index(label) for label in wanted))
    return (value if site.made else site.add(Identity(), value),)


def _read(site: Site) -> tuple[tuple[_Factor, ...], str]:
    """The operands with the labels of their axes, and the labels of the result."""
    equation = site.text("equation", "").replace(" ", "")
    if not _EQUATION.fullmatch(equation):
        raise NotLiftedError(f"its equation is {equation}")
    left, arrow, wanted = equation.partition("->")
    operands = left.split(",")
    if not arrow:
        wanted = "".join(
            sorted(label for label, count in Counter(left).items() if count == 1 and label != ",")
        )
    factors: list[_Factor] = []
    for slot, labels in enumerate(operands):
        if site.type(slot).rank != len(labels):
            raise NotLiftedError(f"operand {slot} has not as many axes as its equation {equation} says")
        if len(set(labels)) < len(labels):
            raise NotLiftedError(f"its equation {equation} takes a diagonal")
        factors.append(_Factor(site.value(slot), labels))
    if len(operands) != len(site.node.input) or len(set(wanted)) < len(wanted) or set(wanted) - set(left):
        raise NotLiftedError(f"its equation is {equation}")
    return tuple(factors), wanted


def _sizes(site: Site, factors: Iterable[_Factor]) -> Mapping[str, Dimension]:
    """The size that each label has in all operands."""
    sizes: dict[str, Dimension] = {}
    for factor in factors:
        for label, size in zip(factor.labels, site.type_of(factor.value).shape, strict=True):
            if sizes.setdefault(label, size) != size:
                raise NotLiftedError(f"whether {sizes[label]} and {size} are equal is only known at run time")
    return sizes


def _summed(site: Site, factor: _Factor, kept: str) -> _Factor:
    """The sum over all axes but those of the labels."""
    dropped = [axis for axis, label in enumerate(factor.labels) if label not in kept]
    if not dropped:
        return factor
    shape, value = site.type_of(factor.value).shape, factor.value
    for axis in dropped:
        value = site.add(ReduceSum(axis - len(shape) if axis == len(shape) - 1 else axis), value)
    labels = "".join(label for label in factor.labels if label in kept)
    kept_shape = tuple(size for axis, size in enumerate(shape) if axis not in dropped)
    return _Factor(reshaped(site, value, kept_shape), labels)


def _multiplied(
    site: Site, left: _Factor, right: _Factor, later: str, sizes: Mapping[str, Dimension]
) -> _Factor:
    """The product of two tensors: of their elements if no axis is summed, else of matrices for every value of
    the labels that both and the result have. Rows are what only the left one has, columns what only the right
    one has."""
    left = _summed(site, left, later + right.labels)
    right = _summed(site, right, later + left.labels)
    shared = [label for label in left.labels if label in right.labels]
    batch = "".join(label for label in shared if label in later)
    inner = "".join(label for label in shared if label not in later)
    rows = "".join(label for label in left.labels if label not in shared)
    columns = "".join(label for label in right.labels if label not in shared)

    def arranged(factor: _Factor, *parts: str) -> Value:
        """The tensor with the labels of each part as one axis."""
        order = "".join(parts)
        value = permuted(site, factor.value, tuple(factor.labels.index(label) for label in order))
        return reshaped(site, value, tuple(product(sizes[label] for label in part) for part in parts))

    labels = batch + rows + columns
    if not inner:
        first = arranged(left, *batch, *rows, *([""] * len(columns)))
        second = arranged(right, *batch, *([""] * len(rows)), *columns)
        return _Factor(pointwise(site, Multiply(), first, second), labels)
    found = matrix_product(site, arranged(left, *batch, rows, inner), arranged(right, *batch, inner, columns))
    return _Factor(reshaped(site, found, tuple(sizes[label] for label in labels)), labels)


PRODUCTS: Mapping[str, Lifter] = {"Einsum": _einsum}
