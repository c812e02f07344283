"""Small ONNX models for tests, and running them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
Array = NDArray[np.generic]


def value(name: str, shape: Sequence[int | str | None] | None, element: int = FLOAT) -> onnx.ValueInfoProto:
    """A declared tensor; without a shape its rank is unknown."""
    return helper.make_tensor_value_info(name, element, shape)


def weight(name: str, *shape: int, seed: int = 0, dtype: type[np.generic] = np.float32) -> TensorProto:
    """A random initialiser."""
    generator = np.random.default_rng([seed, *name.encode()])
    return numpy_helper.from_array(np.asarray(generator.normal(size=shape)).astype(dtype), name)


def tensor(name: str, content: object, dtype: type[np.generic] = np.float32) -> TensorProto:
    """An initialiser with a given content."""
    return numpy_helper.from_array(np.asarray(content, dtype), name)


def node(op_type: str, inputs: str, outputs: str, /, **attributes: object) -> onnx.NodeProto:
    """A node whose tensors are written with blanks between; ``-`` is a missing one."""
    names = [["" if name == "-" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op_type, *names, **attributes)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[TensorProto] = (),
) -> onnx.GraphProto:
    """A graph."""
    return helper.make_graph(nodes, "graph", inputs, outputs, weights)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[TensorProto] = (),
    *,
    opset: int = 17,
    ir_version: int = 8,
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model."""
    imports = [
        helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()
    ]
    return helper.make_model(
        graph(nodes, inputs, outputs, weights), opset_imports=imports, ir_version=ir_version
    )


def session(content: bytes) -> onnxruntime.InferenceSession:
    """The model in ONNX Runtime as it is, without graph optimisation."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


DTYPES = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "int64": np.int64,
    "bool": np.bool_,
}


def feeds(content: bytes, seed: int = 0, **sizes: int) -> dict[str, Array]:
    """Random inputs; unknown dimensions are as ``sizes`` says, else 3."""
    generator = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for given in session(content).get_inputs():
        shape = [size if isinstance(size, int) else sizes.get(str(size), 3) for size in given.shape]
        dtype = DTYPES[given.type.removeprefix("tensor(").removesuffix(")")]
        found[given.name] = np.asarray(generator.normal(size=shape) * 2).astype(dtype)
    return found


def run(content: bytes, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs."""
    return session(content).run(None, dict(inputs))


def assert_same_results(first: bytes, second: bytes, *, rtol: float = 1e-5, **sizes: int) -> None:
    """Both models give the same outputs for the same random inputs."""
    given = feeds(first, **sizes)
    for expected, got in zip(run(first, given), run(second, given), strict=True):
        assert np.asarray(got).dtype == np.asarray(expected).dtype
        assert np.shape(got) == np.shape(expected)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)


def operators(content: bytes) -> str:
    """The operators of the main graph, in order."""
    return " ".join(n.op_type for n in onnx.ModelProto.FromString(content).graph.node)


def listing(content: bytes) -> str:
    """The nodes of the main graph as text: ``y = Conv(x, w)``."""
    proto = onnx.ModelProto.FromString(content)
    return "\n".join(f"{', '.join(n.output)} = {n.op_type}({', '.join(n.input)})" for n in proto.graph.node)
