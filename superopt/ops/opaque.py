"""Opaque: an ONNX node that no operator describes; it is copied unchanged, measured, and never rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.errors import UnsupportedError
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator
from superopt.ops.splits import SplitKind, Splits, TaskDimension, axis_by_axis, kind_of_axis, undivided

A = TypeVar("A")

_ELEMENT_WISE = frozenset(
    (
        *("Abs", "Cast", "Ceil", "Clip", "Cos", "Elu", "Floor", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg"),
        *("Not", "Reciprocal", "Round", "Selu", "Sign", "Sin", "Softplus", "Softsign", "Tan"),
    )
)
"""Operators of ONNX that make each element of one element of the first input."""


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

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """Unknown to superopt: the lifted node carries the types that ONNX inferred."""
        raise UnsupportedError(f"{self.op_type}: types of an opaque node are given, not inferred")

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Unknown to superopt."""
        raise UnsupportedError(f"{self.op_type}: an opaque node cannot be evaluated")

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Of a lookup, as of an embedding: the indices, and all other axes of the data; of an operator on
        single elements: every axis. Nothing else is known."""
        if self.domain not in ("", "ai.onnx") or len(outputs) != 1:
            return undivided(inputs, outputs)
        if self.op_type == "Gather" and (axis := _looked_up_axis(inputs, outputs[0])) is not None:
            return _lookup(inputs[1], outputs[0], axis)
        if self.op_type in _ELEMENT_WISE and inputs[0].shape == outputs[0].shape:
            only = axis_by_axis(inputs[:1], outputs)
            return Splits(only.dimensions, (*only.inputs, *undivided(inputs[1:], ()).inputs), only.outputs)
        return undivided(inputs, outputs)


def _looked_up_axis(inputs: tuple[TensorType, ...], output: TensorType) -> int | None:
    """The axis of the data that indices are along; None where the shapes leave that open."""
    if len(inputs) != 2:
        return None
    data, indices = inputs
    fitting = [
        axis
        for axis in range(data.rank)
        if (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]) == output.shape
    ]
    return fitting[0] if len(fitting) == 1 else None


def _lookup(indices: TensorType, output: TensorType, axis: int) -> Splits:
    """data[..., v, ...], indices[i, ...] -> [..., i, ..., ...]: every axis of the result.

    Along the first axis the data is a table, as of an embedding: the axes of its rows are parameters.
    """
    every = tuple(range(output.rank))
    end = axis + indices.rank
    kinds = [
        SplitKind.PARAMETER if axis == 0 and position >= end else kind_of_axis(position) for position in every
    ]
    return Splits(
        tuple(TaskDimension(size, kind) for size, kind in zip(output.shape, kinds, strict=True)),
        ((*every[:axis], None, *every[end:]), every[axis:end]),
        (every,),
    )
