"""The inputs in which operators are linear: where a partial sum may be an operand."""

from __future__ import annotations

from superopt.ops.base import Operator, attributes_of
from superopt.ops.elementwise.precision import Cast

_NO_ACTIVATION = "none"


def linear_inputs(operator: Operator, count: int) -> tuple[tuple[int, ...], ...]:
    """The sets of inputs, of ``count`` operands, in which the operator is jointly linear: applied to one term
    of each of these inputs after the other, with the other inputs whole, it gives the terms of its results.
    A fused activation is not linear."""
    if attributes_of(operator).get("activation", _NO_ACTIVATION) != _NO_ACTIVATION:
        return ()
    return (tuple(range(count)),) if operator.linear and count else operator.linear_in


def rounded_inputs(operator: Operator) -> tuple[tuple[int, ...], ...]:
    """The sets of inputs in which the operator is jointly linear but for rounding, which no axiom claims: of
    a conversion to another precision, its only one."""
    return ((0,),) if isinstance(operator, Cast) else ()


__all__ = ["linear_inputs", "rounded_inputs"]
