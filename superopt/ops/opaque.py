"""Opaque: an ONNX node that no operator describes; it is copied unchanged, measured, and never rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.errors import UnsupportedError
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import Operator
from superopt.ops.sharded.splits import (
    SplitKind,
    Splits,
    TaskDimension,
    axis_by_axis,
    kind_of_axis,
    undivided,
)

A = TypeVar("A")

_ELEMENT_WISE = frozenset(
    (
        *("Abs", "Cast", "Ceil", "Clip", "Cos", "Elu", "Floor", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg"),
        *("Not", "Reciprocal", "Round", "Selu", "Sign", "Sin", "Softplus", "Softsign", "Tan"),
    )
)
"""ONNX operators that compute each element from one element of the first input."""


@dataclass(frozen=True, slots=True)
class Opaque(Operator):
    """An ONNX node without an operator in the algebra, by its index in the source model, with the reason. It
    is not registered and has no text syntax. It is never folded or removed."""

    name: ClassVar[str] = "opaque"
    foldable: ClassVar[bool] = False
    domain: str
    op_type: str
    index: int
    reason: str

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """Not available: the lifted node has the types inferred by ONNX."""
        raise UnsupportedError(f"{self.op_type}: types of an opaque node are given, not inferred")

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Not available."""
        raise UnsupportedError(f"{self.op_type}: an opaque node cannot be evaluated")

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """For a lookup, such as an embedding: the indices, and all other axes of the data; for an elementwise
        operator: every axis; otherwise none."""
        if self.domain not in ("", "ai.onnx") or len(outputs) != 1:
            return undivided(inputs, outputs)
        if self.op_type == "Gather" and (axis := _looked_up_axis(inputs, outputs[0])) is not None:
            return _lookup(inputs[1], outputs[0], axis)
        if self.op_type in _ELEMENT_WISE and inputs[0].shape == outputs[0].shape:
            only = axis_by_axis(inputs[:1], outputs)
            return Splits(only.dimensions, (*only.inputs, *undivided(inputs[1:], ()).inputs), only.outputs)
        return undivided(inputs, outputs)


def _looked_up_axis(inputs: tuple[TensorType, ...], output: TensorType) -> int | None:
    """The axis of the data that is indexed; None where the shapes do not determine it."""
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
    """data[..., v, ...], indices[i, ...] -> [..., i, ..., ...]: every axis of the result. Indexed along the
    first axis the data is a table, as in an embedding, and the axes of its rows are parameters."""
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
