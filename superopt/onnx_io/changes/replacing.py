"""Replace or leave out initialisers of a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import onnx
from onnx import helper, numpy_helper

from superopt.domains import Array
from superopt.errors import InvalidModelError
from superopt.onnx_io.files.external import stored_tensor
from superopt.onnx_io.files.saving import LoweredModel
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.protos import constant_tensor, copy_with_initializers, dtype_of, element_type


def with_tensors(source: SourceModel, contents: Mapping[str, Array]) -> LoweredModel:
    """The model with other contents of initialisers and of Constant nodes of the graph, by name.

    Raises InvalidModelError unless each is one of these in the model, of the same type and shape.
    """
    given = source.as_given
    proto = _without(given.proto, contents)
    kept = {name: tensor for name, tensor in given.tensors.items() if name not in contents}
    stored = {tensor.name: tensor for tensor in given.proto.graph.initializer}
    constants = {node.output[0]: node for node in proto.graph.node if node.op_type == "Constant"}
    for name, content in contents.items():
        constant = None if name in stored else constants.get(name)
        held = stored.get(name) if constant is None else constant_tensor(constant)
        _require_same_type(given.name, held, name, content)
        if constant is None:
            proto.graph.initializer.append(numpy_helper.from_array(content, name))
        else:
            del constant.attribute[:]
            constant.attribute.append(helper.make_attribute("value", numpy_helper.from_array(content)))
    new = {t.name: stored_tensor(t, given.base) for t in proto.graph.initializer if t.name in contents}
    return LoweredModel.of_derived(replace(given, proto=proto, tensors=kept | new, given=None))


def without_tensors(source: SourceModel, names: Collection[str]) -> bytes:
    """The model file without some initialisers; external data stays where it is, relative to the model's
    directory."""
    return _without(source.proto, names).SerializeToString()


def _without(model: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    kept = (tensor for tensor in model.graph.initializer if tensor.name not in names)
    return copy_with_initializers(model, kept)


def _require_same_type(model: str, stored: onnx.TensorProto | None, name: str, content: Array) -> None:
    if stored is None:
        raise InvalidModelError(
            f"{model}: expected an initialiser called {name!r}, and there is none; a parameter that is in a "
            "function or body can be kept as it is when the step is built, with --frozen"
        )
    shape, dtype = tuple(stored.dims), dtype_of(element_type(stored.data_type))
    if (shape, dtype) != (content.shape, content.dtype):
        raise InvalidModelError(
            f"{model}: initialiser {name!r}: expected {dtype}{list(shape)}, "
            f"got {content.dtype}{list(content.shape)}"
        )
