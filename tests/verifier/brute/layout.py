"""Matrices and operators that move elements, written anew in plain numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tests.verifier.brute.basics import Attributes, Real, Shape, ShapeOf, ValueOf, axis_of, need


def _matmul(_: Attributes, left: Shape, right: Shape) -> Shape:
    need(len(left) >= 2 and len(right) >= 2 and left[-1] == right[-2])
    need(len(left) == 2 or len(right) == 2 or left[:-2] == right[:-2])
    return (*(left[:-2] or right[:-2]), left[-2], right[-1])


def _permutation(attributes: Attributes, rank: int) -> Shape:
    given = attributes.get("perm", ())
    if not given:
        need(rank >= 2)
        return (*range(rank - 2), rank - 1, rank - 2)
    need(sorted(given) == list(range(rank)))
    return given


def _concat_shape(attributes: Attributes, *shapes: Shape) -> Shape:
    axis = axis_of(attributes, shapes[0])
    need(all(len(shape) == len(shapes[0]) for shape in shapes))
    rests = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    need(len(rests) == 1)
    return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def _half_shape(attributes: Attributes, shape: Shape, second: int) -> Shape:
    axis = axis_of(attributes, shape)
    cut = attributes["size"]
    need(0 < cut < shape[axis])
    return (*shape[:axis], (cut, shape[axis] - cut)[second], *shape[axis + 1 :])


def _halves(attributes: Attributes, x: Real) -> list[Real]:
    return np.split(x, [attributes["size"]], axis=axis_of(attributes, x.shape))


def _reshape_shape(attributes: Attributes, shape: Shape) -> Shape:
    need(math.prod(shape) == math.prod(attributes["shape"]))
    return attributes["shape"]


def _broadcast_shape(attributes: Attributes, shape: Shape) -> Shape:
    target = attributes["shape"]
    need(len(shape) <= len(target))
    pairs = zip(reversed(shape), reversed(target), strict=False)
    need(all(own in (1, wanted) for own, wanted in pairs))
    return target


def _rows_shape(_: Attributes, table: Shape, indices: Shape) -> Shape:
    need(len(table) == 2)
    return (*indices, *table[1:])


def _rows(_: Attributes, table: Real, indices: Real) -> Real:
    """By the nearest whole number that is an index, also from the end."""
    nearest = np.nan_to_num(np.ceil(indices - 0.5)).clip(-len(table), len(table) - 1).astype(int)
    unknown = np.isnan(indices).reshape(*indices.shape, *(1,) * (table.ndim - 1))
    return np.where(unknown, np.nan, table[nearest])


SHAPES: Mapping[str, ShapeOf] = {
    "matmul": _matmul,
    "transpose": lambda a, s: tuple(s[axis] for axis in _permutation(a, len(s))),
    "identity_matrix": lambda a: (a["size"], a["size"]),
    "concat": _concat_shape,
    "split0": lambda a, s: _half_shape(a, s, 0),
    "split1": lambda a, s: _half_shape(a, s, 1),
    "reshape": _reshape_shape,
    "broadcast": _broadcast_shape,
    "lookup": _rows_shape,
    "ones": lambda a: a["shape"],
    "full": lambda a: a["shape"],
}

VALUES: Mapping[str, ValueOf] = {
    "matmul": lambda _, x, y: np.einsum("...ij,...jk->...ik", x, y),
    "transpose": lambda a, x: np.transpose(x, _permutation(a, x.ndim)),
    "identity_matrix": lambda a: np.eye(a["size"]),
    "concat": lambda a, *parts: np.concatenate(parts, axis=axis_of(a, parts[0].shape)),
    "split0": lambda a, x: _halves(a, x)[0],
    "split1": lambda a, x: _halves(a, x)[1],
    "lookup": _rows,
    "reshape": lambda a, x: x.reshape(a["shape"]),
    "broadcast": lambda a, x: np.broadcast_to(x, a["shape"]),
    "ones": lambda a: np.ones(a["shape"]),
    "full": lambda a: np.full(a["shape"], float(a["value"])),
}
