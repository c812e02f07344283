"""Conversion of a tensor to floating point of another precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, TypeVar, get_args

from superopt.domains import Domain
from superopt.errors import UnfitTypesError
from superopt.ir.types import ElementType, TensorType, ValueType
from superopt.ops.base import Operator, register, tensors

A = TypeVar("A")

Precision: TypeAlias = Literal["f16", "bf16", "f32", "f64"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
_ELEMENTS: dict[Precision, ElementType] = {
    "f16": ElementType.FLOAT16,
    "bf16": ElementType.BFLOAT16,
    "f32": ElementType.FLOAT,
    "f64": ElementType.DOUBLE,
}


def precision_of(element: ElementType) -> Precision | None:
    """The word for a floating point type; None for other types."""
    return next((word for word, known in _ELEMENTS.items() if known is element), None)


@register
@dataclass(frozen=True, slots=True)
class Cast(Operator):
    """Numbers or truth values as floating point numbers: over the reals the same, but of type ``to``.

    Rounding keeps the order of numbers, and every element is rounded by itself. Axioms claim no more, so that
    no rule moves a sum or a product across a cast, where it would be rounded otherwise.
    """

    name: ClassVar[str] = "cast"
    inputs: ClassVar[int] = 1
    element_wise: ClassVar[bool] = True
    polynomial: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    to: Precision

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """If the tensor has that type."""
        return "it has that precision already" if inputs[0] == output else None

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """The same shape, of type ``to``."""
        (only,) = tensors(self.name, 1, types)
        if not only.element.is_movable:
            raise UnfitTypesError(f"{self.name}: expected numbers or truth values, got {only}")
        return (TensorType(_ELEMENTS[self.to], only.shape),)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The same numbers."""
        del domain
        return arrays
