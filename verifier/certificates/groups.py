"""Number of groups of a convolution that its sizes do not determine."""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.dimensions import Dimension
from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.sharded.sharding import whole


def unknown_groups(
    operator: Operator, inputs: Sequence[TensorType]
) -> tuple[Dimension, Dimension, Dimension] | None:
    """Return channels, channels per group and outputs if the number of groups is open, otherwise None."""
    channels = operator.grouped(*map(whole, inputs))
    if channels is None:
        return None
    data, per_group, outputs = channels
    if data == per_group:
        return None
    groups = _quotient(data, per_group)
    return None if groups is not None and _quotient(outputs, groups) is not None else channels


def known_groups(operator: Operator, inputs: Sequence[TensorType]) -> Dimension | None:
    """Return the number of groups that the sizes determine; None for another operator."""
    channels = operator.grouped(*map(whole, inputs))
    return None if channels is None else _quotient(channels[0], channels[1])


def _quotient(numerator: Dimension, denominator: Dimension) -> Dimension | None:
    """Return the exact quotient; None if the division is not exact or not known to be."""
    if denominator == 0:
        return None
    quotient = numerator // denominator
    return quotient if quotient * denominator == numerator else None


__all__ = ["known_groups", "unknown_groups"]
