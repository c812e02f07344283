"""Contents of small constants, by which sizes are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from superopt.domains import Array
from superopt.onnx_io.files.external import is_external
from superopt.onnx_io.protos import IR_WITH_FREE_INITIALIZERS, STANDARD_DOMAINS, constant_tensor
from superopt.onnx_io.sizes.shape_data import LARGEST

_NUMBERS = (
    TensorProto.BOOL,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
)


def small_constants(model: onnx.ModelProto) -> Iterator[tuple[str, Array]]:
    """Names and contents of tensors of the main graph that hold at most ``LARGEST`` numbers, are in the model
    itself, and that callers cannot override."""
    is_free = model.ir_version >= IR_WITH_FREE_INITIALIZERS
    given = {value.name for value in model.graph.input} if is_free else frozenset[str]()
    nodes = (node for node in model.graph.node if node.op_type == "Constant" and node.output)
    made = ((node.output[0], constant_tensor(node)) for node in nodes if node.domain in STANDARD_DOMAINS)
    stored = ((tensor.name, tensor) for tensor in model.graph.initializer if tensor.name not in given)
    for name, tensor in (*stored, *made):
        if tensor is None or is_external(tensor) or tensor.data_type not in _NUMBERS:
            continue
        if np.prod(tensor.dims, dtype=np.int64) <= LARGEST:
            yield name, np.asarray(numpy_helper.to_array(tensor))


__all__ = ["small_constants"]
