"""Opaque: an ONNX node that no operator describes. It is kept untouched, measured, and never rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.errors import UnsupportedError
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Opaque(Operator):
    """An ONNX node by its index in the source model, with the reason why it has no operator.

    It is not registered: it has no text syntax. It is never folded or removed.
    """

    name: ClassVar[str] = "opaque"
    foldable: ClassVar[bool] = False
    domain: str
    op_type: str
    index: int
    reason: str

    def infer(self, *types: ValueType) -> tuple[TensorType, ...]:
        """Unknown to superopt: the lifted node carries the types that ONNX inferred."""
        raise UnsupportedError(f"{self.op_type}: types of an opaque node are given, not inferred")

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Unknown to superopt."""
        raise UnsupportedError(f"{self.op_type}: an opaque node cannot be evaluated")
