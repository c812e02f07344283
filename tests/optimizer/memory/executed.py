"""Executes a model node by node, frees every tensor at its last read, and counts the bytes that are alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from superopt.onnx_io.protos import captured_names
from superopt.optimizer.memory.liveness import Program

Array = np.ndarray[Any, np.dtype[Any]]

VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Execution:
    """The outputs by name, and the peak bytes of computed tensors: a view has none of its own."""

    outputs: Mapping[str, Array]
    peak: int


def execute(nodes: Sequence[onnx.NodeProto], given: Mapping[str, Array], outputs: Sequence[str]) -> Execution:
    """Runs the nodes in their order on the given inputs and weights."""
    last = {name: place for place, node in enumerate(nodes) for name in reads_of(node)}
    last.update(dict.fromkeys(outputs, len(nodes)))
    values = dict(given)
    owners = {name: name for name in given}
    held: dict[str, int] = {}
    peak = 0
    for place, node in enumerate(nodes):
        found = ReferenceEvaluator(node).run(None, {name: values[name] for name in node.input if name})
        for position, (name, value) in enumerate(zip(node.output, found, strict=False)):
            is_view = node.op_type in VIEWS and position == 0 and name not in outputs
            values[name] = np.asarray(value)
            owners[name] = owners[node.input[0]] if is_view else name
            if owners[name] == name and node.op_type != "Constant":
                held[name] = values[name].nbytes
        peak = max(peak, sum(held.values()))
        needed = {owners[name] for name in values if last.get(name, -1) > place}
        for name in [name for name in held if name not in needed]:
            del held[name]
        for name in [name for name in values if last.get(name, -1) <= place]:
            del values[name]
    return Execution({name: values[name] for name in outputs}, peak)


def reads_of(node: onnx.NodeProto) -> tuple[str, ...]:
    return tuple(name for name in (*node.input, *captured_names(node)) if name)


def results_alone(program: Program) -> Program:
    """The program without what kernels need beside their results, and without resident bytes."""
    plain = tuple(replace(one, overwrites=(), workspace=0) for one in program.operations)
    return replace(program, operations=plain, resident=0, placed=frozenset())


def arrays_for(model: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Weights, and random inputs; whole ones are 0 or 1."""
    random = np.random.default_rng(seed)
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in arrays:
            continue
        shape = tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2, shape)
        arrays[value.name] = drawn.astype(dtype)
    return arrays
