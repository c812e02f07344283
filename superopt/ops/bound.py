"""An operator bound to the types of its inputs, for callers that only evaluate it on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator
from superopt.ops.sharded.sharding import is_divided

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class BoundOperator(Operator):
    """An operator for inputs of given types. It has no text syntax."""

    name: ClassVar[str] = "bound"
    operator: Operator
    types: tuple[TensorType, ...]

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """As the operator."""
        return self.operator.infer(*types)

    def infer(self, *types: ValueType) -> tuple[TensorType, ...]:
        """As the operator."""
        return self.operator.infer(*types)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Evaluates arrays of its own types."""
        return self.operator.evaluate_typed(self.types, domain, arrays)


def bound(operator: Operator, types: tuple[TensorType, ...]) -> Operator:
    """The operator itself where no input is sharded, since arrays then determine the types."""
    return BoundOperator(operator, types) if is_divided(types) else operator
