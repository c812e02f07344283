"""Write ONNX nodes with one output, and the constants that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from superopt.domains import Array
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.recipes import OnnxAttribute, Writer
from superopt.onnx_io.lifting.cuts import SLICE_TAKES_OPERANDS
from superopt.onnx_io.protos import dtype_of

Size: TypeAlias = "int | str"
"""A size, or the name of a vector of one element that holds it when the model runs."""

SPLIT_TAKES_OPERANDS = 13
"""The operator set since which Split has sizes as an operand."""


@dataclass(frozen=True, slots=True)
class TensorNodes:
    """Writes nodes about tensors of one element type."""

    writer: Writer
    element: ElementType

    def node(
        self,
        op_type: str,
        operands: Sequence[str],
        attributes: dict[str, OnnxAttribute] | None = None,
        output: str | None = None,
    ) -> str:
        """A node with one output, whose name is returned."""
        result = self.writer.temporary(op_type.lower()) if output is None else output
        self.writer.node(op_type, operands, [result], attributes)
        return result

    def numbers(self, content: Array) -> str:
        """A constant of the element type."""
        return self.writer.constant(content.astype(dtype_of(self.element)), "matrix")

    def sizes(self, numbers: Sequence[int]) -> str:
        """A constant vector of whole numbers."""
        return self.writer.constant(np.array(numbers, np.int64), "sizes")

    def size_of(self, operand: str, axis: int) -> str:
        """The size of an axis, when the model runs."""
        return self.node("Gather", [self.node("Shape", [operand]), self.sizes([axis])], {"axis": 0})

    def plus(self, size: Size, number: int) -> Size:
        """A size and a number more."""
        if isinstance(size, int):
            return size + number
        return self.node("Add", [size, self.sizes([number])]) if number else size

    def over(self, size: Size, number: int) -> Size:
        """A size divided by a number, without the remainder."""
        if isinstance(size, int):
            return size // number
        return self.node("Div", [size, self.sizes([number])]) if number != 1 else size

    def times(self, size: Size, number: int) -> Size:
        """A multiple of a size."""
        if isinstance(size, int):
            return size * number
        return self.node("Mul", [size, self.sizes([number])]) if number != 1 else size

    def reshaped(self, operand: str, shape: Sequence[Size], output: str | None = None) -> str:
        """The operand in another shape."""
        return self.node("Reshape", [operand, self.vector(shape)], output=output)

    def vector(self, sizes: Sequence[Size]) -> str:
        """Sizes as a vector."""
        known = [size for size in sizes if isinstance(size, int)]
        if len(known) == len(sizes):
            return self.sizes(known)
        parts = [self.sizes([size]) if isinstance(size, int) else size for size in sizes]
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, {"axis": 0})

    def transposed(self, operand: str, axes: Sequence[int]) -> str:
        """The operand with permuted axes."""
        return self.node("Transpose", [operand], {"perm": axes})

    def joined(self, parts: Sequence[str]) -> str:
        """The parts one behind the other along the second axis."""
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, {"axis": 1})

    def beginning(self, operand: str, axis: int, size: int) -> str:
        """The first elements along an axis."""
        return self.piece(operand, axis, 0, size)

    def cut(self, operand: str, axes: Sequence[int], sizes: Sequence[Size], output: str) -> str:
        """The first elements along some axes, from operator set 10 on."""
        if not axes:
            return self.node("Identity", [operand], output=output)
        operands = [operand, self.sizes([0] * len(axes)), self.vector(sizes), self.sizes(axes)]
        return self.node("Slice", operands, output=output)

    def piece(self, operand: str, axis: int, low: int, high: int) -> str:
        """The elements ``low`` to ``high`` along an axis."""
        if self.writer.opset < SLICE_TAKES_OPERANDS:
            return self.node("Slice", [operand], {"axes": [axis], "starts": [low], "ends": [high]})
        return self.node("Slice", [operand, *(self.sizes([number]) for number in (low, high, axis))])

    def for_each_sample(self, matrix: str, operand: str) -> str:
        """The matrix, repeated for each sample of the operand. ONNX Runtime does that itself, but for 0
        samples it fails."""
        samples = self.beginning(self.node("Shape", [operand]), 0, 1)
        shape = self.node("Concat", [samples, self.sizes((1, 1))], {"axis": 0})
        return self.node("Expand", [matrix, shape])

    def divided(self, operand: str, parts: int, size: int, axis: int = 0) -> list[str]:
        """Parts of equal size along an axis."""
        if parts == 1:
            return [operand]
        outputs = [self.writer.temporary("part") for _ in range(parts)]
        if self.writer.opset < SPLIT_TAKES_OPERANDS:
            self.writer.node("Split", [operand], outputs, {"axis": axis, "split": (size,) * parts})
        else:
            self.writer.node("Split", [operand, self.sizes((size,) * parts)], outputs, {"axis": axis})
        return outputs


__all__ = ["Size", "TensorNodes"]
