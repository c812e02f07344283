"""Freeze a model: fix sizes of open input dimensions, and compute what follows from them in advance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import cast

import onnx

from superopt.errors import InvalidOptionError
from superopt.ir.types import TensorType
from superopt.onnx_io.changes.simplifying import simplify
from superopt.onnx_io.files.external import stored_tensor
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.protos import copy_without_graph
from superopt.onnx_io.sizes.declarations import without_false_types
from superopt.onnx_io.sizes.inference import infer_types, says_nothing

FROZEN_KEY = "superopt.frozen"
"""Metadata of a frozen model: the sizes by the name of the dimension, as JSON."""

_FEW, _NEAR, _MOST_COMPARED = 6, 3, 2000
"""Numbers of names: up to how many all are listed, how many similar ones otherwise, compared at most."""


@dataclass(frozen=True, slots=True)
class OpenAxis:
    """An axis of an input without a size. ``name`` is that of its dimension, which several axes may share;
    the axis alone is called ``place``, as in ``x.0``."""

    port: str
    axis: int
    name: str

    @property
    def place(self) -> str:
        """The name of this axis alone."""
        return f"{self.port}.{self.axis}"


def open_axes(source: SourceModel) -> tuple[OpenAxis, ...]:
    """The axes without a size of all inputs of known rank that callers give."""
    return tuple(_open_axes(source.proto.graph))


def _open_axes(graph: onnx.GraphProto) -> Iterator[OpenAxis]:
    for value in graph.input:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if not dimension.HasField("dim_value") or dimension.dim_value < 0:
                has_name = bool(dimension.dim_param) and not says_nothing(dimension.dim_param)
                place = f"{value.name}.{axis}"
                yield OpenAxis(value.name, axis, dimension.dim_param if has_name else place)


def freeze(source: SourceModel, sizes: Mapping[str, int]) -> SourceModel:
    """The model for these sizes alone, by names of dimensions or axes (``OpenAxis``). Nodes that compute with
    sizes become constants where they are known; ``superopt.frozen`` in the metadata records the sizes. Its
    identity in reports stays that of the given model. Raises InvalidOptionError for an unknown name and for
    two sizes of one axis."""
    axes = open_axes(source)
    known = {name for axis in axes for name in (axis.name, axis.place)}
    for name in sizes:
        if name not in known:
            names = tuple(dict.fromkeys(axis.name for axis in axes))
            raise InvalidOptionError(f"freeze: {unknown_dimension(name, names, source)}")
    fixed = replace(
        source,
        proto=_fixed(source.proto, axes, sizes),
        given=None,
        came_from=None,
        unadapted=source.received,
        frozen={**source.frozen, **sizes},
    )
    whole = _folded(fixed)
    tensors = {tensor.name: stored_tensor(tensor, source.base) for tensor in whole.graph.initializer}
    return replace(fixed, proto=whole, tensors=tensors)


def unknown_dimension(name: str, known: Sequence[str], source: SourceModel) -> str:
    """Message about a name that is none of the ``known`` open dimensions of a model, with the most similar
    ones."""
    absent = f"the model has no open dimension {name!r}"
    if is_of_outputs(name, source):
        absent = f"{absent} (only outputs declare it)"
    if not known:
        return f"{absent}: all sizes of its inputs are fixed"
    if len(known) <= _FEW:
        return f"{absent}; it has: {', '.join(known)}"
    near = get_close_matches(name, known[:_MOST_COMPARED], cutoff=0.4) or known[:_NEAR]
    return (
        f"{absent}; among its {len(known)} are {', '.join(near[:_NEAR])}; "
        "`superopt inspect MODEL` lists those of its inputs"
    )


def is_of_outputs(name: str, source: SourceModel) -> bool:
    """Whether outputs declare a dimension of that name."""
    outputs = source.as_given.proto.graph.output
    return any(own.dim_param == name for value in outputs for own in value.type.tensor_type.shape.dim)


def sizes_at(source: SourceModel, shapes: Mapping[str, Sequence[int | None]]) -> dict[str, int]:
    """The sizes of open axes at given shapes of inputs: under the name of the dimension where all axes with
    it agree, else under those of the axes."""
    found: dict[OpenAxis, int] = {}
    for axis in open_axes(source):
        shape = shapes.get(axis.port, ())
        size = shape[axis.axis] if axis.axis < len(shape) else None
        if size is not None:
            found[axis] = size
    sizes: dict[str, set[int]] = {}
    for axis, size in found.items():
        sizes.setdefault(axis.name, set()).add(size)
    return {axis.name if len(sizes[axis.name]) == 1 else axis.place: size for axis, size in found.items()}


def declared_sizes(source: SourceModel) -> dict[str, tuple[int | None, ...]]:
    """The declared sizes of all inputs of known rank; None for open ones."""
    return {
        value.name: tuple(
            dimension.dim_value if dimension.dim_value > 0 else None
            for dimension in value.type.tensor_type.shape.dim
        )
        for value in source.proto.graph.input
    }


def frozen_sizes(model: onnx.ModelProto) -> dict[str, int]:
    """The sizes that a model was frozen at, from its metadata; empty if it was not."""
    text = next((entry.value for entry in model.metadata_props if entry.key == FROZEN_KEY), "{}")
    try:
        found: object = json.loads(text)
    except ValueError:
        return {}
    sizes = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    return {name: size for name, size in sizes.items() if isinstance(size, int)}


def _fixed(model: onnx.ModelProto, axes: Sequence[OpenAxis], sizes: Mapping[str, int]) -> onnx.ModelProto:
    """The model with these sizes declared, and without the names of other sizes in declarations, which may
    depend on them; ranks stay declared."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    inputs = {value.name: value for value in fixed.graph.input}
    for axis in axes:
        wanted = {sizes[name] for name in (axis.name, axis.place) if name in sizes}
        if len(wanted) > 1:
            raise InvalidOptionError(f"freeze: {axis.name} and {axis.place} are one axis, got two sizes")
        for size in wanted:
            inputs[axis.port].type.tensor_type.shape.dim[axis.axis].dim_value = size
    for value in (*fixed.graph.output, *fixed.graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param in sizes:
                dimension.dim_value = sizes[dimension.dim_param]
    for value in fixed.graph.value_info:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.ClearField("dim_param")
    recorded = {**frozen_sizes(fixed), **sizes}
    for entry in [entry for entry in fixed.metadata_props if entry.key == FROZEN_KEY]:
        fixed.metadata_props.remove(entry)
    fixed.metadata_props.add(key=FROZEN_KEY, value=json.dumps(recorded, ensure_ascii=False))
    return fixed


def _folded(source: SourceModel) -> onnx.ModelProto:
    """The complete model with known sizes as initialisers, and the known sizes of its outputs."""
    simple = simplify(without_false_types(source))
    graph, light = source.proto.graph, simple.proto.graph
    whole = copy_without_graph(source.proto)
    for field, value in graph.ListFields():
        if not field.is_repeated:
            setattr(whole.graph, field.name, value)
        elif field.name not in ("node", "initializer", "value_info", "quantization_annotation"):
            getattr(whole.graph, field.name).extend(value)
    whole.graph.node.extend(light.node)
    whole.graph.value_info.extend(light.value_info)
    whole.graph.quantization_annotation.extend(light.quantization_annotation)
    own = {tensor.name: tensor for tensor in graph.initializer}
    whole.graph.initializer.extend(own.get(tensor.name, tensor) for tensor in light.initializer)
    types = infer_types(simple.proto, simple.apart).types
    for output in whole.graph.output:
        type_ = types.get(output.name)
        declared = output.type.tensor_type.shape.dim
        if isinstance(type_, TensorType) and type_.rank == len(declared):
            for dimension, size in zip(declared, type_.shape, strict=True):
                if isinstance(size, int) and not dimension.HasField("dim_value"):
                    dimension.dim_value = size
    return whole


__all__ = [
    "FROZEN_KEY",
    "OpenAxis",
    "declared_sizes",
    "freeze",
    "frozen_sizes",
    "is_of_outputs",
    "open_axes",
    "sizes_at",
    "unknown_dimension",
]
