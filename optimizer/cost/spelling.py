"""One spelling of operators that mean the same to the runtime, so that their kernels share a price."""

from __future__ import annotations

import dataclasses
from typing import cast

from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.convolution import Conv
from superopt.ops.matrix import Transpose
from superopt.ops.pooling import Pool
from superopt.ops.windows import explicit_padding


def respelled(operator: Operator, operands: tuple[TensorType, ...]) -> Operator:
    """The operator with padding in numbers, axes counted from 0 and permutations written out.

    Shapes of the operands are known numbers.
    """
    if isinstance(operator, Conv):
        kernel = _last_two(operands[1])
        padding = explicit_padding(
            _last_two(operands[0]), kernel, operator.stride, operator.dilation, operator.padding
        )
        return operator if padding == operator.padding else dataclasses.replace(operator, padding=padding)
    if isinstance(operator, Pool):
        padding = operator.margins(*_last_two(operands[0]))
        return operator if padding == operator.padding else _with(operator, "padding", padding)
    if isinstance(operator, Transpose):
        return operator if operator.perm else Transpose(operator.permutation(operands[0].rank))
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
