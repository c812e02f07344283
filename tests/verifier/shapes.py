"""Types of variables for tests."""

from __future__ import annotations

from superopt.ir.dimensions import symbol
from superopt.ir.types import ElementType, TensorType


def shapes(**given: tuple[int | str, ...]) -> dict[str, TensorType]:
    """Types of variables; names are symbols."""
    return {
        name: TensorType(ElementType.FLOAT, tuple(symbol(d) if isinstance(d, str) else d for d in shape))
        for name, shape in given.items()
    }
