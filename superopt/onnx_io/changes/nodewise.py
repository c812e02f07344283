"""Split a model into one-node models in which all real numbers have one floating-point type.

Used to evaluate a model in another precision than its own: values are passed from node to node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.inliner import inline_local_functions

from superopt.domains import Array
from superopt.errors import UnsupportedError
from superopt.onnx_io.files.external import is_external, stored_tensor
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.files.stored import proto_of
from superopt.onnx_io.protos import (
    IR_WITH_FREE_INITIALIZERS,
    STANDARD_DOMAINS,
    captured_names,
    constant_tensor,
    copy_without_graph,
    subgraphs,
    tensors_in_node,
)

_REAL = frozenset((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16))
_TYPE_ATTRIBUTES = frozenset(("to", "dtype", "output_dtype"))
"""Integer attributes that name the element type of a result."""

_MATRIX_RANK = 2

_SMALL = 1 << 12
"""Maximum bytes of a constant that stays one: shapes, axes and scales, which runtimes require to be
constant."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A node: the tensors that it reads, including captured ones, and produces; "" is omitted."""

    index: int
    domain: str
    op_type: str
    operands: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ByRows:
    """A product with a stored matrix, computed by ranges of the matrix's rows. Results are joined along their
    last axis if they ``join``, else added up. ``axes`` are those along which other operands are cut; the
    operands in ``once`` belong to the first range."""

    matrix: str
    join: bool
    axes: Mapping[str, int]
    once: tuple[str, ...] = ()

    def part(self, operands: Mapping[str, Array], rows: Array, start: int) -> dict[str, Array]:
        """The operands for some rows of the matrix."""
        cut = {
            name: operands[name].take(range(start, start + len(rows)), axis)
            for name, axis in self.axes.items()
        }
        absent = {name: np.zeros_like(operands[name]) for name in self.once if start}
        return {**operands, self.matrix: rows, **cut, **absent}

    def whole(self, parts: Sequence[Array]) -> Array:
        """The result from those of all ranges."""
        return np.concatenate(parts, axis=-1) if self.join else np.sum(parts, axis=0)


class Nodewise:
    """A model as its sequence of nodes, with functions inlined."""

    def __init__(self, source: SourceModel) -> None:
        self._source = source.as_given
        self._proto: onnx.ModelProto = self._source.proto
        if self._proto.functions:
            self._proto = inline_local_functions(self._proto)
        self.outputs = tuple(value.name for value in self._proto.graph.output)

    @cached_property
    def steps(self) -> tuple[NodeUse, ...]:
        """All nodes in order."""
        return tuple(map(self._step, range(len(self._proto.graph.node))))

    def constant(self, name: str) -> Array | None:
        """The content of an initialiser, memory-mapped if external."""
        tensor = self._source.tensors.get(name)
        return None if tensor is None else tensor.numpy()

    def selects_from(self, step: NodeUse) -> str | None:
        """The operand whose elements are the results, unchanged, if there is one."""
        return step.operands[0] if (step.domain, step.op_type) == ("", "Gather") else None

    def by_rows(self, step: NodeUse, operands: Mapping[str, Array]) -> ByRows | None:
        """How the node is computed by rows of a matrix; None if it is no product with a stored one."""
        node = self._proto.graph.node[step.index]
        if step.domain or node.op_type not in ("MatMul", "Gemm") or len(set(node.input)) < len(node.input):
            return None
        data, matrix, *bias = filter(None, node.input)
        if self.constant(matrix) is None or operands[matrix].ndim != _MATRIX_RANK:
            return None
        flags = {entry.name for entry in node.attribute if entry.i}
        if "transB" not in flags:
            axis = 0 if "transA" in flags else operands[data].ndim - 1
            return ByRows(matrix, join=False, axes={data: axis}, once=tuple(bias))
        count = len(operands[matrix])
        axes = {name: operands[name].ndim - 1 for name in bias if operands[name].shape[-1:] == (count,)}
        return ByRows(matrix, join=True, axes=axes)

    def alone(
        self,
        step: NodeUse,
        operands: Mapping[str, Array],
        real: type[np.floating],
        results: Mapping[str, Array] | None = None,
    ) -> bytes:
        """The node as a model in which every floating-point type is ``real``, with its external data inside.
        ``operands`` gives types and shapes, and the content of small constants; outputs are declared where
        ``results`` are known. Raises UnsupportedError for a sparse or text constant."""
        node = onnx.NodeProto()
        node.CopyFrom(self._proto.graph.node[step.index])
        for tensor in filter(is_external, tensors_in_node(node)):
            tensor.CopyFrom(proto_of(stored_tensor(tensor, self._source.base), tensor.name))
        code = helper.np_dtype_to_tensor_dtype(np.dtype(real))
        _retype(node, code)
        model = copy_without_graph(self._proto)
        model.ClearField("training_info")
        model.ClearField("metadata_props")
        model.ir_version = max(model.ir_version, IR_WITH_FREE_INITIALIZERS)
        graph = model.graph
        graph.name = "node"
        graph.node.append(node)
        for name, array in operands.items():
            typed = as_real(array, real)
            if self._is_constant(name) and typed.nbytes <= _SMALL:
                graph.initializer.append(numpy_helper.from_array(np.asarray(typed, order="C"), name))
            else:
                graph.input.append(_declared(name, typed))
        for name in step.results:
            known = None if results is None else results.get(name)
            graph.output.append(
                onnx.ValueInfoProto(name=name) if known is None else _declared(name, as_real(known, real))
            )
        return model.SerializeToString()

    def _is_constant(self, name: str) -> bool:
        return name in self._constants

    @cached_property
    def _constants(self) -> frozenset[str]:
        given = {value.name for value in self._proto.graph.input}
        made = (node.output[0] for node in self._proto.graph.node if node.op_type == "Constant")
        return frozenset(self._source.tensors).difference(given).union(made)

    def _step(self, index: int) -> NodeUse:
        node = self._proto.graph.node[index]
        names = dict.fromkeys((*node.input, *captured_names(node)))
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        return NodeUse(
            index, domain, node.op_type, tuple(filter(None, names)), tuple(filter(None, node.output))
        )


def as_real(array: Array, real: type[np.floating]) -> Array:
    """The array converted to the floating-point type, if it holds real numbers."""
    return array.astype(real, copy=False) if array.dtype.kind == "f" else array


def _declared(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _retype(node: onnx.NodeProto, code: int) -> None:
    """Replaces every real element type in the node and its subgraphs by ``code``."""
    if node.op_type == "Constant" and node.domain in STANDARD_DOMAINS:
        tensor = constant_tensor(node)
        if tensor is None:
            raise UnsupportedError("a constant without numbers")
        kept = TensorProto()
        kept.CopyFrom(tensor)
        del node.attribute[:]
        node.attribute.append(helper.make_attribute("value", kept))
    for attribute in node.attribute:
        if attribute.name in _TYPE_ATTRIBUTES and attribute.type == AttributeProto.INT:
            attribute.i = code if attribute.i in _REAL else attribute.i
        for tensor in _tensors(attribute):
            _retype_tensor(tensor, code)
    for graph in subgraphs(node):
        for tensor in graph.initializer:
            _retype_tensor(tensor, code)
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type in _REAL:
                value.type.tensor_type.elem_type = code
        for nested in graph.node:
            _retype(nested, code)


def _tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
        raise UnsupportedError("a sparse tensor")


def _retype_tensor(tensor: TensorProto, code: int) -> None:
    if tensor.data_type in _REAL and tensor.data_type != code:
        array = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(code))
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


__all__: Sequence[str] = ["ByRows", "NodeUse", "Nodewise", "as_real"]
