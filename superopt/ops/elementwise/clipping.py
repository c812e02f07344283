"""A clip between 0 and a number, which the algebra has as a hard sigmoid times that number."""

from __future__ import annotations

from superopt.ir.graph import GraphOperator, Weight
from superopt.ops.elementwise.activation import HardSigmoid
from superopt.ops.elementwise.order import Clip


def clip_of(gate: GraphOperator, factor: GraphOperator) -> Clip | None:
    """The clip that the product of an operator's result and a constant is; None if it is none."""
    if not isinstance(gate, HardSigmoid) or not isinstance(factor, Weight) or factor.number is None:
        return None
    is_clip = gate.alpha * factor.number == 1 and gate.beta == 0
    return Clip(0, factor.number) if is_clip else None


__all__ = ["clip_of"]
