"""Normalise operators that are equivalent to the runtime, so that their kernels share a price."""

from __future__ import annotations

import dataclasses
from typing import cast

from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.shape import reordering_nothing


def respelled(operator: Operator, operands: tuple[TensorType, ...]) -> Operator:
    """The operator with explicit padding, non-negative axes and explicit permutations, which are reshapes
    where they only move axes of size 1. Shapes of the operands must be concrete."""
    window = operator.window(*operands)
    if window is not None:
        padding = window.margins(_last_two(operands[0]))
        return operator if padding == window.padding else _with(operator, "padding", padding)
    permutation = operator.permutation(operands[0].rank) if operands else None
    if permutation is not None:
        return reordering_nothing(operator, operands[0]) or _with(operator, "perm", permutation)
    axis: object = getattr(operator, "axis", None)
    if isinstance(axis, int) and axis < 0:
        return _with(operator, "axis", axis % operands[0].rank)
    return operator


def _with(operator: Operator, name: str, value: object) -> Operator:
    return cast("Operator", dataclasses.replace(operator, **{name: value}))  # pyright: ignore[reportArgumentType]


def _last_two(type_: TensorType) -> tuple[int, int]:
    height, width = type_.shape[-2:]
    assert isinstance(height, int)
    assert isinstance(width, int)
    return height, width
