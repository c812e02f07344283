"""Shapes of all tensors of a model for given input shapes, and the values of its symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from superopt.ir.dimensions import Dimension, solve, substitute
from superopt.ir.types import TensorType
from superopt.onnx_io.changes.simplifying import simplify
from superopt.onnx_io.files.external import stored_tensor
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.lifting.models import LiftedModel
from superopt.onnx_io.sizes.inference import infer_types, without_weights

Shape = Sequence[int]


def sizes_inside(
    lifted: LiftedModel, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape] | None = None
) -> dict[str, int]:
    """Values of symbolic dimensions, including those of intermediate tensors, implied by input shapes;
    ``outputs`` are shapes observed in a run. Dimensions that depend on tensor contents but appear in no
    output are not included."""
    shapes = shapes_at(lifted.source, inputs)
    for name, shape in (*(outputs or {}).items(), *inputs.items()):
        shapes[name] = tuple(shape)
    found: dict[str, Dimension] = {}
    composed: list[tuple[Dimension, int]] = []
    for node in lifted.graph:
        for value in node.values:
            type_ = node.types[value.port]
            shape = shapes.get(lifted.names.get(value, ""), ())
            if not isinstance(type_, TensorType) or len(shape) != type_.rank:
                continue
            composed.extend(
                (own, size)
                for own, size in zip(type_.shape, shape, strict=True)
                if not isinstance(own, int) and size is not None
            )
    for own, size in sorted(composed, key=lambda pair: _terms(pair[0])):
        for name, solution in (solve(substitute(own, found), size) or {}).items():
            if isinstance(solution, int):
                found.setdefault(name, solution)
    return {name: size for name, size in found.items() if isinstance(size, int)}


def shapes_at(source: SourceModel, inputs: Mapping[str, Shape]) -> dict[str, tuple[int | None, ...]]:
    """Shapes of all tensors of known rank by name, inferred from input shapes; None for an unknown size."""
    skeleton = without_weights(source.proto)
    for value in skeleton.graph.input:
        if value.name in inputs:
            _fix(value, inputs[value.name])
    for value in (*skeleton.graph.value_info, *skeleton.graph.output):
        _forget_names(value)
    tensors = {tensor.name: stored_tensor(tensor, source.base) for tensor in skeleton.graph.initializer}
    sized = simplify(replace(source, proto=skeleton, tensors=tensors, given=None, came_from=None))
    types = infer_types(sized.proto).types
    return {
        name: tuple(size if isinstance(size, int) else None for size in type_.shape)
        for name, type_ in types.items()
        if isinstance(type_, TensorType)
    }


def _fix(value: onnx.ValueInfoProto, shape: Shape) -> None:
    if value.type.WhichOneof("value") != "tensor_type":
        return
    value.type.tensor_type.ClearField("shape")
    value.type.tensor_type.shape.SetInParent()
    for size in shape:
        value.type.tensor_type.shape.dim.add(dim_value=size)


def _forget_names(value: onnx.ValueInfoProto) -> None:
    if value.type.WhichOneof("value") == "tensor_type":
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.HasField("dim_param"):
                dimension.ClearField("dim_param")


def _terms(dimension: Dimension) -> int:
    return 0 if isinstance(dimension, int) else len(dimension.symbols)
