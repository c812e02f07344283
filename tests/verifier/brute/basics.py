"""What the definitions share: shapes, arrays of reals, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
"""Numbers, words and tuples by name; what is missing has its default."""

Real = npt.NDArray[np.float64]
ShapeOf = Callable[..., Shape]
ValueOf = Callable[..., Real]


class IllTyped(Exception):  # noqa: N818 (the word of the field)
    """These operands do not fit the operator."""


def need(condition: object) -> None:
    """Raises IllTyped unless the condition holds."""
    if not condition:
        raise IllTyped


def axis_of(attributes: Attributes, shape: Shape) -> int:
    """The attribute ``axis`` counted from 0."""
    axis = attributes.get("axis", -1)
    need(-len(shape) <= axis < len(shape))
    return axis % len(shape)
