"""Arithmetic of single sizes: where the result is the same for all values of their symbols, it is known."""

from __future__ import annotations

from typing import SupportsInt, TypeAlias

from superopt.errors import SuperoptError
from superopt.ir.bounds import is_not_negative, is_positive
from superopt.ir.dimensions import Dimension, SymbolicDimension, floor_divide
from superopt.onnx_io.sizes.real_sizes import RealSize

Size: TypeAlias = "Dimension | RealSize"


class UnknownContentError(SuperoptError):
    """The content of a tensor is not known before the model runs."""


def whole(size: Size) -> Dimension:
    """The size as an integer, as a Cast gives it."""
    return size.floor() if isinstance(size, RealSize) else size


def real(size: Size) -> RealSize:
    """The size as a floating-point number; raises InexactError."""
    return size if isinstance(size, RealSize) else RealSize.of(size)


def quotient(left: Size, right: Dimension) -> Size:
    """The quotient, rounded towards zero for integers; raises UnknownContentError and InexactError."""
    if isinstance(left, RealSize):
        return left / right
    if isinstance(left, SymbolicDimension) or isinstance(right, SymbolicDimension):
        if not is_not_negative(left) or not is_positive(right):
            raise UnknownContentError("a size of unknown sign")
        return floor_divide(left, right)
    magnitude = abs(int(left)) // abs(int(right))
    return magnitude if (int(left) < 0) == (int(right) < 0) else -magnitude


def is_equal(left: object, right: object) -> bool:
    """Equality of sizes, whose symbols are at least 1; raises UnknownContentError."""
    if left == right:
        return True
    for size, other in ((left, right), (right, left)):
        if isinstance(size, RealSize) or (isinstance(size, SymbolicDimension) and not _differ(size, other)):
            raise UnknownContentError("a size that is not known")
    return False


def _differ(size: SymbolicDimension, other: object) -> bool:
    if not isinstance(other, SymbolicDimension | SupportsInt):
        return False
    number = other if isinstance(other, SymbolicDimension) else int(other)
    return is_positive(size - number) or is_positive(number - size)


def larger(left: Dimension, right: Dimension) -> Dimension:
    """The larger size; raises UnknownContentError where that depends on symbols."""
    if not is_not_negative(left - right) and not is_not_negative(right - left):
        raise UnknownContentError("a size that is not known")
    return left if is_not_negative(left - right) else right


def smaller(left: Dimension, right: Dimension) -> Dimension:
    """The smaller size; raises UnknownContentError where that depends on symbols."""
    return left + right - larger(left, right)


def is_greater(left: Dimension, right: Dimension) -> bool:
    """Whether ``left > right``; raises UnknownContentError where that depends on symbols."""
    if not is_positive(left - right) and not is_not_negative(right - left):
        raise UnknownContentError("a size that is not known")
    return is_positive(left - right)


def is_not_less(left: Dimension, right: Dimension) -> bool:
    """Whether ``left >= right``; raises UnknownContentError where that depends on symbols."""
    return not is_greater(right, left)
