"""Operands of one element beside tensors whose last axis has size 1.

ONNX Runtime 1.31 combines a tensor of type [..., 1] with one of lower rank element by element, about 35 times
slower than with one of the same rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from superopt.ir.dimensions import Dimension
from superopt.onnx_io.emit.recipes import Emission, Number, Operand, Writer


@dataclass(frozen=True, slots=True)
class SingleElement:
    """An operand, and the rank to which it is reshaped before it is read; None where it stays as it is."""

    operand: Operand | Number
    rank: int | None = None

    def write(self, writer: Writer, name: str) -> str:
        """Returns the name of the tensor to be read."""
        if self.rank is None:
            return name
        reshaped = writer.temporary("single")
        shape = writer.constant(np.ones(self.rank, np.int64), "sizes")
        writer.node("Reshape", [name, shape], [reshaped])
        return reshaped


def single_element(
    emission: Emission, operand: Operand | Number, target: tuple[Dimension, ...]
) -> SingleElement:
    """An operand of an element-wise operator with results of shape ``target``: one of a single element gets
    their rank if their last axis has size 1."""
    rank = len(target)
    is_slow = rank > 1 and target[-1] == 1 and any(size != 1 for size in target)
    if isinstance(operand, Number):
        return SingleElement(replace(operand, rank=rank) if is_slow else operand)
    shape = emission.type(operand.value).shape
    if not is_slow or len(shape) == rank or any(size != 1 for size in shape):
        return SingleElement(operand)
    if emission.is_constant(emission.resolve(operand.value)):
        return SingleElement(Operand(operand.value, (1,) * rank))
    return SingleElement(operand, rank)


__all__ = ["SingleElement", "single_element"]
