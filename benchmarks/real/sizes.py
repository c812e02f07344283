"""The sizes that a real model is run at: those of its inputs, and the model with these sizes written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

Shapes = Mapping[str, Sequence[int]]


def declared_shapes(path: Path, shapes: Shapes) -> dict[str, tuple[int, ...]]:
    """The shapes of all inputs that callers give: as wanted, else as declared with 1 for what is open."""
    graph = onnx.load(path, load_external_data=False).graph
    stored = {tensor.name for tensor in graph.initializer}
    found: dict[str, tuple[int, ...]] = {}
    for info in graph.input:
        if info.name not in stored:
            declared = info.type.tensor_type.shape.dim
            found[info.name] = tuple(shapes.get(info.name, [max(1, dim.dim_value) for dim in declared]))
    return found


def open_dimensions(path: Path, shapes: Shapes) -> dict[str, int]:
    """The sizes of what inputs leave open, by name; an axis is INPUT.AXIS if it has no name, or ``?``, or one
    that stands for several sizes."""
    found: list[tuple[str, str, int]] = []
    for info in onnx.load(path, load_external_data=False).graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if info.name in shapes and dim.dim_value < 1:
                found.append((dim.dim_param, f"{info.name}.{axis}", shapes[info.name][axis]))
    sizes: dict[str, set[int]] = {}
    for name, _, size in found:
        sizes.setdefault(name, set()).add(size)
    named = {name for name, of in sizes.items() if len(of) == 1} - {"", "?"}
    return {name if name in named else place: size for name, place, size in found}


def fixed(path: Path, shapes: Shapes, target: Path) -> Path:
    """The model with inputs of these shapes and no others, written to ``target``; what was declared of other
    tensors, which would contradict that, is left out, or stays as a rank."""
    model = onnx.load(path)
    by_name: dict[str, int] = open_dimensions(path, shapes)
    for info in model.graph.input:
        if info.name in shapes:
            for dim, size in zip(info.type.tensor_type.shape.dim, shapes[info.name], strict=True):
                dim.dim_value = size
    del model.graph.value_info[:]
    for info in model.graph.output:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in by_name:
                dim.dim_value = by_name[dim.dim_param]
    onnx.save(model, target)
    return target
