"""Models of the ``onnx-ir`` package, which is imported only where such a model is given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
import onnx_ir

from superopt.errors import InvalidModelError
from superopt.onnx_io.files.external import LIMIT, STUB, check_external_data, stored_tensor
from superopt.onnx_io.files.stored import ArrayTensor, StoredTensor

_LARGE = 1 << 20
"""Bytes of a tensor that stays in the onnx-ir model if that exceeds the size of one file."""


def read(model: onnx_ir.Model, name: str) -> tuple[onnx.ModelProto, Mapping[str, StoredTensor]]:
    """The model as a proto, with stubs for external weights, and for large ones of a model over 2 GB; and the
    contents of these. Raises InvalidModelError."""
    contents = {
        label: tensor
        for label, value in model.graph.initializers.items()
        if (tensor := value.const_value) is not None
    }
    too_large = sum(tensor.nbytes for tensor in contents.values()) > LIMIT
    outside = {
        label: _stored(tensor, name)
        for label, tensor in contents.items()
        if isinstance(tensor, onnx_ir.ExternalTensor) or (too_large and tensor.nbytes > _LARGE)
    }
    try:
        for label in outside:
            tensor = contents[label]
            shape = onnx_ir.Shape(tensor.shape.numpy())
            model.graph.initializers[label].const_value = onnx_ir.ExternalTensor(
                STUB, None, None, tensor.dtype, shape=shape, name=label
            )
        return onnx_ir.serde.serialize_model(model), outside
    except onnx_ir.serde.SerdeError as error:
        raise InvalidModelError(f"{name} cannot be written as ONNX: {error.__cause__ or error}") from error
    finally:
        for label in outside:
            model.graph.initializers[label].const_value = contents[label]


def _stored(tensor: onnx_ir.TensorProtocol, name: str) -> StoredTensor:
    """The content of a tensor; the path of an external one is validated, which onnx-ir does not do without a
    base directory."""
    if not isinstance(tensor, onnx_ir.ExternalTensor):
        return ArrayTensor.of(tensor.numpy())
    base = Path(tensor.base_dir).absolute()  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    written = onnx_ir.serde.serialize_tensor(tensor)
    check_external_data(written, base, name)
    return stored_tensor(written, base)
