"""Write ONNX nodes with one output, and the constants that they read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superopt.domains import Array
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.recipes import OnnxAttribute, Writer
from superopt.onnx_io.lifting.cuts import SLICE_TAKES_OPERANDS
from superopt.onnx_io.protos import dtype_of

EXPAND = 8
"""The operator set since which there is Expand."""

PAD_TAKES_OPERANDS = 11
"""The operator set since which Pad has sizes as an operand."""

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

    def reshaped(self, operand: str, shape: Sequence[int], output: str | None = None) -> str:
        """The operand in another shape."""
        return self.node("Reshape", [operand, self.sizes(shape)], output=output)

    def transposed(self, operand: str, axes: Sequence[int], output: str | None = None) -> str:
        """The operand with permuted axes."""
        return self.node("Transpose", [operand], {"perm": axes}, output)

    def joined(self, parts: Sequence[str]) -> str:
        """The parts one behind the other along the second axis."""
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, {"axis": 1})

    def beginning(self, operand: str, axis: int, size: int) -> str:
        """The first elements along an axis."""
        return self.piece(operand, axis, 0, size)

    def piece(self, operand: str, axis: int, low: int, high: int, output: str | None = None) -> str:
        """The elements ``low`` to ``high`` along an axis."""
        if self.writer.opset < SLICE_TAKES_OPERANDS:
            attributes: dict[str, OnnxAttribute] = {"axes": [axis], "starts": [low], "ends": [high]}
            return self.node("Slice", [operand], attributes, output)
        bounds = [self.sizes([number]) for number in (low, high, axis)]
        return self.node("Slice", [operand, *bounds], output=output)

    def padded(self, image: str, margins: tuple[int, int, int, int]) -> str:
        """An image with zeros (top, left, bottom, right) around it."""
        pads = (0, 0, *margins[:2], 0, 0, *margins[2:])
        if self.writer.opset < PAD_TAKES_OPERANDS:
            return self.node("Pad", [image], {"pads": pads})
        return self.node("Pad", [image, self.sizes(pads)])

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


__all__ = ["EXPAND", "TensorNodes"]
