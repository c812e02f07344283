"""A node of an ONNX model with its operands as numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

Array: TypeAlias = "NDArray[np.generic]"
Arrays: TypeAlias = "Mapping[str, Array]"
Real: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True)
class Call:
    """A node with its operands, None where one is left out."""

    node: onnx.NodeProto
    operands: tuple[Array | None, ...]
    opset: int

    def __getitem__(self, slot: int) -> Real:
        operand = self.operands[slot]
        assert operand is not None, f"{self.node.op_type} lacks operand {slot}"
        return operand

    def has(self, slot: int) -> bool:
        """Whether that operand is given."""
        return slot < len(self.operands) and self.operands[slot] is not None

    def attribute(self, name: str, default: object = None) -> object:
        """The attribute as a Python value."""
        for given in self.node.attribute:
            if given.name == name:
                found = helper.get_attribute_value(given)
                return found.decode() if isinstance(found, bytes) else found
        return default

    def number(self, name: str, default: float) -> float:
        """A floating-point attribute."""
        found = self.attribute(name, default)
        assert isinstance(found, (float, int))
        return float(found)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return int(self.number(name, default))

    def integers(self, name: str, default: Sequence[int] = ()) -> list[int]:
        """An attribute of several integers."""
        found = self.attribute(name, list(default))
        assert isinstance(found, list)
        return [int(number) for number in found]

    def axes(self, slot: int) -> list[int]:
        """Axes that are an attribute, or an operand in newer operator sets."""
        return self[slot].tolist() if self.has(slot) else self.integers("axes")


class NoWindowError(Exception):
    """Windows are larger than the image."""


Rule = Callable[[Call], "Array | list[Array]"]


def as_real(array: Array) -> Array:
    """Floating-point numbers as float64, others as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array
