"""Types of all tensors of a model, by ONNX shape inference on a copy without the weights, and by propagation
of symbolic sizes through it."""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from superopt.domains import Array
from superopt.ir.dimensions import Dimension, symbol
from superopt.ir.types import TensorType, UnknownType, ValueType
from superopt.onnx_io.files.external import bytes_of, is_external
from superopt.onnx_io.protos import STANDARD_DOMAINS, copy_without_graph, element_type
from superopt.onnx_io.sizes.foreign import foreign_types, has_rule, with_own_slices
from superopt.onnx_io.sizes.propagation import Propagation

logger = logging.getLogger(__name__)

ROUNDS = 64
"""Maximum number of consecutive operators of other domains whose types are inferred."""

SMALL = 4096
"""Maximum bytes of a tensor whose content is passed to shape inference: shapes, axes, sizes."""

_COUNTED = ("cats", "classlabels")
"""Beginnings of the names of lists whose length is a size of an output."""

_SAYS_NOTHING = re.compile(r"[\s?*_-]*|-\d+|none|null|nan|any|dynamic|unknown|undefined", re.IGNORECASE)
"""Names that exporters give to every open axis, whatever its size."""


@dataclass(frozen=True)
class InferredTypes:
    """``types`` by tensor name; ``symbols`` gives for each unknown dimension its first occurrence;
    ``contents`` are the small tensors that are computed from sizes alone, with symbolic dimensions in
    them; ``protos`` are the types as ONNX infers them, also of what is not a tensor of known rank."""

    types: Mapping[str, ValueType]
    symbols: Mapping[str, str]
    contents: Mapping[str, Array]
    protos: Mapping[str, onnx.TypeProto]


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A small copy with the same types, in which large tensors of the main graph are graph inputs."""
    copy = copy_without_graph(model)
    copy.ClearField("training_info")
    for entry in copy.opset_import:
        entry.domain = "" if entry.domain in STANDARD_DOMAINS else entry.domain
    graph = copy.graph
    graph.name = model.graph.name or "graph"
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    graph.sparse_initializer.extend(model.graph.sparse_initializer)
    declared = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if is_external(tensor) or bytes_of(tensor) > SMALL:
            if tensor.name not in declared:
                graph.input.append(_declaration(tensor.name, tensor))
        else:
            graph.initializer.append(tensor)
    for node in model.graph.node:
        large = _large_constant(node)
        if large is None:
            graph.node.append(_without_long_lists(node))
            if node.domain:
                _spell_standard_domain(graph.node[-1])
        else:
            graph.input.append(_declaration(node.output[0], large))
    return copy


def _without_long_lists(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node, of whose long lists only the first element is left, as in trees of a trained model."""
    if node.domain in STANDARD_DOMAINS or node.ByteSize() <= SMALL:
        return node
    result = onnx.NodeProto(
        op_type=node.op_type, domain=node.domain, name=node.name, input=node.input, output=node.output
    )
    for attribute in node.attribute:
        values = attribute.floats or attribute.ints or attribute.strings
        if len(values) <= SMALL or attribute.name.startswith(_COUNTED):
            result.attribute.append(attribute)
        else:
            result.attribute.append(helper.make_attribute(attribute.name, values[:1]))
    return result


def _import_all_domains(model: onnx.ModelProto) -> None:
    """Imports domains that some runtimes accept without an import; type inference fails otherwise."""
    imported = {entry.domain for entry in model.opset_import}
    domains = {node.domain for node in model.graph.node if node.domain not in STANDARD_DOMAINS}
    for domain in sorted(domains - imported):
        model.opset_import.append(helper.make_opsetid(domain, 1))


def _spell_standard_domain(node: onnx.NodeProto) -> None:
    """The checker accepts ``ai.onnx`` as the standard domain in imports, but not in nodes."""
    if node.domain in STANDARD_DOMAINS:
        node.domain = ""


def _large_constant(node: onnx.NodeProto) -> TensorProto | None:
    if node.op_type != "Constant" or len(node.attribute) != 1 or not node.attribute[0].HasField("t"):
        return None
    tensor = node.attribute[0].t
    return tensor if is_external(tensor) or bytes_of(tensor) > SMALL else None


def _declaration(name: str, tensor: TensorProto) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))


def infer_types(
    model: onnx.ModelProto, apart: Container[str] = (), known: Mapping[str, Array] | None = None
) -> InferredTypes:
    """The types of all tensors of the main graph, as far as known; the model is not changed. An unknown
    dimension of a graph input gets its own symbol, named after input and axis, and so does one with a
    meaningless name or with one of the names ``apart``, whose axes may differ. ``known`` are contents of
    constants that lie outside the model."""
    skeleton = without_weights(model)
    _import_all_domains(skeleton)
    for value in (*skeleton.graph.input, *skeleton.graph.value_info, *skeleton.graph.output):
        _clear_names(value, apart)
    namer = _Symbols(skeleton)
    for value in skeleton.graph.input:
        namer.name_unknown_dimensions(value)
    try:
        inferred = _inferred(skeleton)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        logger.info("ONNX shape inference failed, only declared types are known: %s", error)
        inferred = skeleton
    types: dict[str, ValueType] = {}
    ports = {value.name for value in inferred.graph.input}
    made = (*inferred.graph.value_info, *inferred.graph.output)
    for value in (*inferred.graph.input, *(value for value in made if value.name not in ports)):
        types[value.name] = namer.type_of(value)
    for tensor in model.graph.initializer:
        if tensor.name not in types:
            types[tensor.name] = TensorType(element_type(tensor.data_type), tuple(tensor.dims))
    given = (types.get(value.name) for value in skeleton.graph.input)
    symbols = frozenset[str]().union(*(type_.symbols for type_ in given if isinstance(type_, TensorType)))
    protos = {value.name: value.type for value in (*inferred.graph.value_info, *inferred.graph.output)}
    propagation = Propagation(skeleton, types, protos, symbols, known or {}, namer.fresh)
    propagation.run()
    given_protos = {value.name: value.type for value in inferred.graph.input}
    return InferredTypes(types, namer.where, propagation.contents, {**given_protos, **protos})


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with all types that ONNX infers, including those behind operators of other domains."""
    model = with_own_slices(model)
    result = onnx.shape_inference.infer_shapes(model, data_prop=True)
    foreign = [node for node in model.graph.node if has_rule(node)]
    for _ in range(min(len(foreign), ROUNDS)):
        graph = result.graph
        values = (*graph.input, *graph.value_info, *graph.output)
        known = {value.name: value.type for value in values if value.type.tensor_type.HasField("shape")}
        known |= {
            tensor.name: _declaration(tensor.name, tensor).type
            for tensor in graph.initializer
            if tensor.name not in known
        }
        fresh: dict[str, onnx.TypeProto] = {}
        for node in foreign:
            fresh.update(foreign_types(node, {**known, **fresh} if fresh else known))
        if not fresh:
            break
        for value in (*graph.value_info, *graph.output):
            if value.name in fresh:
                value.type.CopyFrom(fresh.pop(value.name))
        for name, type_ in fresh.items():
            graph.value_info.add(name=name).type.CopyFrom(type_)
        result = onnx.shape_inference.infer_shapes(result, data_prop=True)
    return result


class _Symbols:
    """Names unnamed dimensions, and records the first occurrence of each symbol."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.where: dict[str, str] = {}
        self._taken = {
            dimension.dim_param
            for value in (*model.graph.input, *model.graph.value_info, *model.graph.output)
            for dimension in _dimensions(value)
            if dimension.dim_param
        }

    def name_unknown_dimensions(self, value: onnx.ValueInfoProto) -> None:
        """Adds a fresh symbol to each unnamed dimension of an input."""
        for axis, dimension in enumerate(_dimensions(value)):
            if _is_unknown(dimension):
                dimension.dim_param = self._fresh(value.name, axis)

    def type_of(self, value: onnx.ValueInfoProto) -> ValueType:
        """The type of a tensor; UnknownType for all that is not a tensor of known rank."""
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return UnknownType((kind or "unknown").removesuffix("_type").replace("_", " "))
        if not value.type.tensor_type.HasField("shape"):
            return UnknownType("tensor of unknown rank")
        if not value.type.tensor_type.elem_type:
            return UnknownType("tensor of unknown element type")
        shape = tuple(self._dimension(value.name, axis, d) for axis, d in enumerate(_dimensions(value)))
        return TensorType(element_type(value.type.tensor_type.elem_type), shape)

    def _dimension(self, name: str, axis: int, dimension: onnx.TensorShapeProto.Dimension) -> Dimension:
        if dimension.HasField("dim_value") and dimension.dim_value >= 0:
            return dimension.dim_value
        if not dimension.dim_param:
            return symbol(self.fresh(name, axis))
        self.where.setdefault(dimension.dim_param, f"{name}, axis {axis}")
        return symbol(dimension.dim_param)

    def fresh(self, name: str, axis: int) -> str:
        """A new symbol for an axis of a tensor."""
        label = self._fresh(name, axis)
        self.where.setdefault(label, f"{name}, axis {axis}")
        return label

    def _fresh(self, name: str, axis: int) -> str:
        label = f"{name}.{axis}"
        while label in self._taken:
            label += "'"
        self._taken.add(label)
        return label


def says_nothing(name: str) -> bool:
    """Whether exporters give every open axis this name, whatever its size."""
    return _SAYS_NOTHING.fullmatch(name) is not None


def _clear_names(value: onnx.ValueInfoProto, names: Container[str]) -> None:
    for dimension in _dimensions(value):
        name = dimension.dim_param
        if dimension.HasField("dim_param") and (name in names or says_nothing(name)):
            dimension.ClearField("dim_param")


def _is_unknown(dimension: onnx.TensorShapeProto.Dimension) -> bool:
    return not dimension.dim_param and (not dimension.HasField("dim_value") or dimension.dim_value < 0)


def _dimensions(value: onnx.ValueInfoProto) -> Iterable[onnx.TensorShapeProto.Dimension]:
    if value.type.WhichOneof("value") != "tensor_type":
        return ()
    return value.type.tensor_type.shape.dim
