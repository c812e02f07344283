"""Whether the loops of a model end on inputs that are not those of its users."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from superopt.domains import Array
from superopt.onnx_io.files.external import is_external
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.protos import STANDARD_DOMAINS, constant_tensor, nodes_within, subgraphs

_MOST = 10_000
"""A constant limit above this is none: exporters write while loops with the largest integer."""


def may_not_end(source: SourceModel) -> bool:
    """Whether a loop ends only when its condition says so, which generated inputs may never bring about."""
    loops = [node for node in nodes_within(source.proto.graph) if _is_loop(node)]
    if not loops:
        return False
    limits: dict[str, Array] = {
        name: np.asarray(tensor.numpy()) for name, tensor in source.constants.items() if tensor.size == 1
    }
    limits.update((name, numpy_helper.to_array(tensor)) for name, tensor in _numbers(source.proto.graph))
    return any(not node.input[0] or _is_large(limits.get(node.input[0])) for node in loops)


def _is_loop(node: onnx.NodeProto) -> bool:
    return node.op_type == "Loop" and node.domain in STANDARD_DOMAINS


def _is_large(limit: Array | None) -> bool:
    return limit is not None and limit.size == 1 and bool(limit.item() > _MOST)


def _numbers(graph: onnx.GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """The single numbers that are constants in the subgraphs of a graph."""
    for node in graph.node:
        for nested in subgraphs(node):
            yield from ((t.name, t) for t in nested.initializer if not is_external(t) and _is_single(t))
            for inner in nested.node:
                tensor = constant_tensor(inner) if inner.op_type == "Constant" else None
                if tensor is not None and not is_external(tensor) and _is_single(tensor):
                    yield inner.output[0], tensor
            yield from _numbers(nested)


def _is_single(tensor: TensorProto) -> bool:
    return all(size == 1 for size in tensor.dims) and tensor.data_type == TensorProto.INT64
