"""Name-independent identity of a graph: equal for graphs with the same kernels connected in the same way."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper

from superopt.errors import InvalidModelError
from superopt.onnx_io.protos import nodes_within, subgraphs

_FLOATS = frozenset(
    (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.UNDEFINED)
)


@dataclass(frozen=True, slots=True)
class Executed:
    """Counts of operators, those in bodies included, and a digest of all nodes with their connections.
    Inputs are identified by place and type, weights by type and shape, integers (which may be sizes) by
    content."""

    kernels: Mapping[str, int]
    digest: str

    @property
    def count(self) -> int:
        """The number of nodes."""
        return sum(self.kernels.values())


def executed(path: Path) -> Executed:
    """The operators executed by the model in a file, without reading external data. Raises InvalidModelError
    for a file that is not a model."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except (DecodeError, OSError) as error:
        raise InvalidModelError(f"{path.name} is not a valid ONNX model: {error}") from error
    kernels = Counter(f"{node.domain}.{node.op_type}".lstrip(".") for node in nodes_within(model.graph))
    return Executed(kernels, _graph(model.graph, {}))


def _graph(graph: onnx.GraphProto, outer: Mapping[str, str]) -> str:
    """The digest of a graph: of its nodes, each identified by its operands, and of its outputs in order."""
    known = dict(outer)
    known.update(
        (port.name, _digest(b"input", str(place), port.type.SerializeToString(deterministic=True)))
        for place, port in enumerate(graph.input)
    )
    known.update((tensor.name, _digest(_weight(tensor))) for tensor in graph.initializer)
    known.update(
        (sparse.values.name, _digest(sparse.SerializeToString())) for sparse in graph.sparse_initializer
    )
    nodes: list[str] = []
    for node in graph.node:
        read = [known.get(name, name) for name in node.input]
        nodes.append(_digest(_operator(node, known), *read))
        known.update((name, _digest(nodes[-1], str(place))) for place, name in enumerate(node.output))
    return _digest(*sorted(nodes), *(known.get(port.name, port.name) for port in graph.output))


def _operator(node: onnx.NodeProto, known: Mapping[str, str]) -> bytes:
    """An operator with its attributes, without its names."""
    copy = onnx.NodeProto(op_type=node.op_type, domain=node.domain, overload=node.overload)
    copy.attribute.extend(attribute for attribute in node.attribute if not attribute.HasField("g"))
    for attribute in copy.attribute:
        attribute.doc_string = ""
        if attribute.HasField("t"):
            attribute.t.name = ""
    copy.attribute.sort(key=lambda attribute: attribute.name)
    present = ",".join("1" if name else "0" for name in (*node.input, *node.output))
    nested = (_graph(graph, known) for graph in subgraphs(node))
    return _digest(copy.SerializeToString(deterministic=True), present, *nested).encode()


def _weight(tensor: TensorProto) -> bytes:
    """A weight: its type, shape, and, of integers, content."""
    shape = f"{tensor.data_type}:{','.join(map(str, tensor.dims))}"
    if tensor.data_type in _FLOATS:
        return shape.encode()
    if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type == TensorProto.STRING:
        place = [f"{entry.key}={entry.value}" for entry in tensor.external_data if entry.key == "length"]
        return "".join((shape, *place)).encode()
    return shape.encode() + numpy_helper.to_array(tensor).tobytes()


def _digest(*parts: bytes | str) -> str:
    found = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        found.update(len(content).to_bytes(8, "little"))
        found.update(content)
    return found.hexdigest()
