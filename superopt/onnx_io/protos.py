"""Traverse ONNX protos: subgraphs, captured names, all tensors, types and attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from superopt.domains import Array
from superopt.ir.types import ElementType
from superopt.onnx_io.files.external import bytes_of

STANDARD_DOMAINS = frozenset(("", "ai.onnx"))

IR_WITH_FREE_INITIALIZERS = 4
"""From this IR version on, an initialiser that is also a graph input is a default that callers can
override."""

ELEMENTS: Mapping[int, ElementType] = {
    getattr(TensorProto, element.value): element
    for element in ElementType
    if element is not ElementType.OTHER
}
ONNX_ELEMENTS: Mapping[ElementType, int] = {element: code for code, element in ELEMENTS.items()}

_BYTES_OF_FLOAT = 4


def element_type(code: int) -> ElementType:
    """The element type of an ONNX code; OTHER for types without a name here (4-bit, 8-bit floats)."""
    return ELEMENTS.get(code, ElementType.OTHER)


def element_name(code: int) -> str:
    """The name of an ONNX code, also of types without a name here: ``bfloat16``, ``float8e4m3fn``."""
    return TensorProto.DataType.Name(code).lower()


def dtype_of(element: ElementType) -> np.dtype[np.generic]:
    """The numpy dtype that holds an element type."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(ONNX_ELEMENTS[element]))


def copy_without_graph(model: onnx.ModelProto) -> onnx.ModelProto:
    """Everything in a model except its graph: versions, metadata, functions, configurations."""
    copy = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name == "graph":
            continue
        if field.is_repeated:
            getattr(copy, field.name).extend(value)
        else:
            setattr(copy, field.name, value)
    return copy


def copy_with_initializers(model: onnx.ModelProto, initializers: Iterable[TensorProto]) -> onnx.ModelProto:
    """A copy that shares nothing with the model and has other initialisers. Tensors are copied one by one: a
    message over 2 GB cannot be copied in one piece."""
    copy = copy_without(model, ("initializer",))
    copy.graph.initializer.extend(initializers)
    return copy


def copy_without(model: onnx.ModelProto, fields: Collection[str]) -> onnx.ModelProto:
    """A copy of a model without some of the lists of its graph, by their names."""
    copy = copy_without_graph(model)
    for field, value in model.graph.ListFields():
        if not field.is_repeated:
            setattr(copy.graph, field.name, value)
        elif field.name not in fields:
            getattr(copy.graph, field.name).extend(value)
    return copy


def renamed(proto: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    """The node with renamed tensors, in its sharding specifications too."""
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    renamed = dict(zip((*proto.input, *proto.output), (*inputs, *outputs), strict=True))
    for configuration in copy.device_configurations:
        for sharding in configuration.sharding_spec:
            sharding.tensor_name = renamed.get(sharding.tensor_name, sharding.tensor_name)
    copy.input[:] = inputs
    copy.output[:] = outputs
    return copy


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in the node's own attributes, not those nested deeper."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def contains_loop(node: onnx.NodeProto) -> bool:
    """Whether the node is or contains a loop, so that its running time depends on values."""
    return node.op_type == "Loop" or has_loop_inside(node)


def nodes_within(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Every node of the graph and its subgraphs."""
    for node in graph.node:
        yield node
        for nested in subgraphs(node):
            yield from nodes_within(nested)


def has_loop_inside(node: onnx.NodeProto) -> bool:
    """Whether a loop is in the subgraphs of the node."""
    return any(contains_loop(nested) for graph in subgraphs(node) for nested in graph.node)


def is_counted_loop(node: onnx.NodeProto) -> bool:
    """Whether the node is a loop limited by an input, with no other loop inside."""
    return node.op_type == "Loop" and bool(node.input[0]) and not has_loop_inside(node)


def stored_bytes(model: onnx.ModelProto) -> int:
    """Bytes of all numbers in a model: initialisers, and tensors and real numbers in attributes, including
    those of nodes in subgraphs and functions."""
    functions = (node for function in model.functions for node in function.node)
    return bytes_of_graph(model.graph) + sum(map(_bytes_of_node, functions))


def bytes_of_graph(graph: onnx.GraphProto) -> int:
    """Bytes of all numbers in a graph, including attributes and subgraphs."""
    return sum(map(bytes_of, _tensors_of_graph(graph))) + sum(map(_bytes_of_node, graph.node))


def _bytes_of_node(node: onnx.NodeProto) -> int:
    tensors = (tensor for attribute in node.attribute for tensor in _tensors_of_attribute(attribute))
    numbers = sum(len(attribute.floats) for attribute in node.attribute)
    bodies = sum(map(bytes_of_graph, subgraphs(node)))
    return sum(map(bytes_of, tensors)) + _BYTES_OF_FLOAT * numbers + bodies


def captured_names(node: onnx.NodeProto) -> tuple[str, ...]:
    """The outer names that the subgraphs of a node read, in order of first use."""
    found: dict[str, None] = {}
    for graph in subgraphs(node):
        _collect_free_names(graph, frozenset(), found)
    return tuple(found)


def free_names(graph: onnx.GraphProto) -> tuple[str, ...]:
    """The outer names that a subgraph reads, those of its own subgraphs included, in order of first use."""
    found: dict[str, None] = {}
    _collect_free_names(graph, frozenset(), found)
    return tuple(found)


def rename_captured(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Renames outer tensors in the subgraphs of the node."""
    places = {name: names[name] for name in captured_names(node) if name in names}
    for graph in subgraphs(node) if places else ():
        for inner in graph.node:
            inner.input[:] = [places.get(name, name) for name in inner.input]
            rename_captured(inner, places)
        for value in graph.output:
            value.name = places.get(value.name, value.name)


def _collect_free_names(graph: onnx.GraphProto, bound: frozenset[str], found: dict[str, None]) -> None:
    known = set(bound)
    known.update(value.name for value in graph.input)
    known.update(tensor.name for tensor in graph.initializer)
    known.update(sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        found.update((name, None) for name in node.input if name and name not in known)
        for nested in subgraphs(node):
            _collect_free_names(nested, frozenset(known), found)
        known.update(node.output)
    found.update((value.name, None) for value in graph.output if value.name not in known)


def names_within(graph: onnx.GraphProto) -> Iterator[str]:
    """Every name of a value or node in the graph and its subgraphs."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
    for tensor in graph.initializer:
        yield tensor.name
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for node in graph.node:
        yield node.name
        yield from node.input
        yield from node.output
        for nested in subgraphs(node):
            yield from names_within(nested)


def tensors_in_model(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Every tensor stored in the model: initialisers, attributes, subgraphs, functions, training graphs."""
    yield from _tensors_in_graph(model.graph)
    for function in model.functions:
        for attribute in function.attribute_proto:
            yield from _tensors_in_attribute(attribute)
        for node in function.node:
            yield from tensors_in_node(node)
    for training in model.training_info:
        yield from _tensors_in_graph(training.initialization)
        yield from _tensors_in_graph(training.algorithm)


def tensors_in_node(node: onnx.NodeProto) -> Iterator[TensorProto]:
    """Every tensor stored in the node's attributes and subgraphs."""
    for attribute in node.attribute:
        yield from _tensors_in_attribute(attribute)


def _tensors_in_graph(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from _tensors_of_graph(graph)
    for node in graph.node:
        yield from tensors_in_node(node)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Tensors of the graph itself, not of its nodes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices


def _tensors_of_attribute(attribute: AttributeProto) -> Iterator[TensorProto]:
    """Tensors of the attribute itself, not of graphs in it."""
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    for sparse in (*((attribute.sparse_tensor,) if attribute.HasField("sparse_tensor") else ()),
                   *attribute.sparse_tensors):  # fmt: skip
        yield sparse.values
        yield sparse.indices


def _tensors_in_attribute(attribute: AttributeProto) -> Iterator[TensorProto]:
    yield from _tensors_of_attribute(attribute)
    if attribute.HasField("g"):
        yield from _tensors_in_graph(attribute.g)
    for graph in attribute.graphs:
        yield from _tensors_in_graph(graph)


def default_opset(imports: Sequence[onnx.OperatorSetIdProto]) -> int | None:
    """The version of the standard operators that a model imports."""
    return next((entry.version for entry in imports if entry.domain in STANDARD_DOMAINS), None)


FEW_DIGITS = 5


def simplest_fraction(value: float) -> Fraction | int:
    """The simplest fraction that rounds to the float32 (an int when it is whole). ONNX stores float
    attributes as float32: 0.1 is read as 0.100000001490116, and this returns 1/10. It is the shortest decimal
    if that has few digits, else the fraction with the smallest denominator that rounds to the same float32,
    found by descending the Stern-Brocot tree. ``value`` must be finite."""
    single = np.float32(value)
    centre = Fraction(float(single))
    if centre.denominator == 1:
        return int(centre)
    digits = np.format_float_scientific(single)
    if len(digits.split("e")[0].strip("-")) <= FEW_DIGITS + 1:
        return Fraction(digits)
    below = Fraction(float(np.nextafter(single, np.float32(-np.inf))))
    above = Fraction(float(np.nextafter(single, np.float32(np.inf))))
    simplest = _simplest_between((below + centre) / 2, (centre + above) / 2)
    if np.float32(float(simplest)) != single:
        simplest = centre
    return int(simplest) if simplest.denominator == 1 else simplest


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator strictly inside the interval."""
    if low < 0 < high:
        return Fraction(0)
    if high <= 0:
        return -_simplest_between(-high, -low)
    whole = low.numerator // low.denominator
    if whole + 1 < high:
        return Fraction(whole + 1)
    if low == whole:
        return whole + Fraction(1, (1 / (high - whole)).__floor__() + 1)
    if high == whole + 1:
        return whole + 1 - _simplest_between(whole + 1 - high, whole + 1 - low)
    return whole + 1 / _simplest_between(1 / (high - whole), 1 / (low - whole))


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes that a node states, as Python values by name; texts are bytes."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def constant_tensor(node: onnx.NodeProto) -> TensorProto | None:
    """The tensor of a Constant node; None for a sparse one, or one bound to a function attribute."""
    if len(node.attribute) != 1 or node.attribute[0].ref_attr_name:
        return None
    attribute = node.attribute[0]
    match attribute.name:
        case "value":
            return attribute.t
        case "value_float":
            array: Array = np.array(attribute.f, np.float32)
        case "value_floats":
            array = np.array(attribute.floats, np.float32)
        case "value_int":
            array = np.array(attribute.i, np.int64)
        case "value_ints":
            array = np.array(attribute.ints, np.int64)
        case "value_string":
            return TensorProto(data_type=TensorProto.STRING, string_data=[attribute.s])
        case "value_strings":
            return TensorProto(
                data_type=TensorProto.STRING, dims=[len(attribute.strings)], string_data=attribute.strings
            )
        case _:
            return None
    return onnx.numpy_helper.from_array(array)
