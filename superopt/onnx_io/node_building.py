"""Build ONNX nodes and constants whose names are new in a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import helper, numpy_helper

from superopt.domains import Array
from superopt.onnx_io.protos import copy_with_initializers

Attribute = int | str | Sequence[int]


class NodeBuilder:
    """Collects nodes in order, and the initialisers that they read. No name is one of ``taken``."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._taken = set(taken)
        self._times: Counter[str] = Counter()
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def fresh(self, name: str) -> str:
        """The name, with a number behind it where it is taken; taken from now on."""
        label = name
        while label in self._taken:
            self._times[name] += 1
            label = f"{name}_{self._times[name]}"
        self._taken.add(label)
        return label

    def constant(self, name: str, content: Array) -> str:
        """The name of an initialiser with this content; equal constants are stored once."""
        key = (content.dtype.str, content.shape, content.tobytes())
        if key not in self._constants:
            label = self.fresh(name)
            self.initializers.append(numpy_helper.from_array(content, label))
            self._constants[key] = label
        return self._constants[key]

    def keep(self, node: onnx.NodeProto) -> None:
        """Appends a node as it is."""
        self.nodes.append(node)

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        output: str,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        """Appends a node with one output; returns its name, which is ``output`` or near it."""
        label = self.fresh(output)
        self.write(op_type, inputs, label, attributes)
        return label

    def write(
        self,
        op_type: str,
        inputs: Sequence[str],
        output: str,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Appends a node with exactly this output, which the graph had before."""
        name = self.fresh(f"{output}:{op_type}")
        node = helper.make_node(op_type, inputs, [output], name)
        node.attribute.extend(helper.make_attribute(*pair) for pair in (attributes or {}).items())
        self.nodes.append(node)


def copy_of(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that shares nothing with the model."""
    return copy_with_initializers(model, model.graph.initializer)


def node_label(node: onnx.NodeProto) -> str:
    """How a message names a node: by its name or its first output, and its operator."""
    name = node.name or next((output for output in node.output if output), "")
    return f"node {name!r} ({node.op_type})"
