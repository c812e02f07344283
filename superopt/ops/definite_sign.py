"""Terms whose elements are never positive, for any real variables."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeGuard

from superopt.ir.terms import Application, Term
from superopt.ops.elementwise.activation import Relu, Sigmoid
from superopt.ops.elementwise.arithmetic import Scale, Sqrt, Subtract
from superopt.ops.elementwise.order import Absolute, Minimum
from superopt.ops.filled import Full
from superopt.ops.reduction import Exp, ReduceMax
from superopt.ops.shape import Broadcast

_NEVER_NEGATIVE = frozenset(operator.name for operator in (Absolute, Exp, Relu, Sigmoid, Sqrt))


def is_nonpositive(term: Term) -> bool:
    """Whether no element is positive, as far as the outermost operators show."""
    return isinstance(term, Application) and (
        _is_negated(term) or _is_at_most_0(term) or _is_below_maximum(term)
    )


def _is_at_most_0(term: Application) -> bool:
    """Whether it is a minimum with a number that is not positive."""
    numbers = map(_number, term.inputs) if term.operator == Minimum.name else ()
    return any(number is not None and number <= 0 for number in numbers)


def _is_below_maximum(term: Application) -> bool:
    """Whether it is a tensor less its maximum along an axis."""
    if term.operator != Subtract.name:
        return False
    tensor, repeated = term.inputs
    largest = repeated.inputs[0] if _is(repeated, Broadcast.name) else None
    return _is(largest, ReduceMax.name) and largest.inputs == (tensor,)


def _is(term: Term | None, operator: str) -> TypeGuard[Application]:
    return isinstance(term, Application) and term.operator == operator


def _is_negated(term: Application) -> bool:
    """Whether it is a term that is never negative, times a number that is not positive."""
    if term.operator != Scale.name:
        return False
    scaled, factor = term.inputs
    number = _number(factor)
    is_nonnegative = isinstance(scaled, Application) and scaled.operator in _NEVER_NEGATIVE
    return is_nonnegative and number is not None and number <= 0


def _number(term: Term) -> Fraction | int | None:
    """The number that a constant tensor repeats, None for other terms."""
    if not _is(term, Full.name):
        return None
    number = term.attribute("value")
    return number if isinstance(number, int | Fraction) else None


__all__ = ["is_nonpositive"]
