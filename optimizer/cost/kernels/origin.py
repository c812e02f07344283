"""Context from the source model: constants that decide the runtime's fusions, and its opaque nodes.

A kernel is measured outside its model, with random weights. Two things must be preserved: constants that the
runtime inspects when fusing (the square root of two in a gelu) or that an opaque node uses as a shape, and
nodes that only ONNX describes.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Container, Mapping
from functools import cached_property
from typing import Final

import numpy as np

from superopt.ir.graph import Graph, GraphOperator, Input, NodeId, Value, Weight
from superopt.ir.types import TensorType
from superopt.onnx_io import LiftedModel, build_model
from superopt.onnx_io.changes.copies import with_open_sizes
from superopt.onnx_io.emit.folding import Folder
from superopt.onnx_io.protos import bytes_of_graph, contains_loop, is_counted_loop, subgraphs
from superopt.ops.opaque import Opaque
from superopt.optimizer.cost.machine import Residence, bytes_of, residence_of
from superopt.optimizer.cost.observed import Port, observed_types
from superopt.optimizer.cost.runtime.session import Array

_FEW = 64
"""Maximum elements of a constant that is kept, and of the constants it is computed from."""

_STANDARD = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")


class Origin:
    """The model that a graph was lifted from; rewriting preserves its weights and opaque nodes."""

    def __init__(self, lifted: LiftedModel) -> None:
        self.lifted: Final = lifted
        self._spelled: dict[int, Opaque | None] = {}
        self._labels: dict[str, bytes] = {}
        self._observed: Mapping[Port, TensorType] | None = None

    @cached_property
    def residence(self) -> Residence:
        """Location of the model's weights between two runs."""
        weights = (node.operator.type for node in self.lifted.graph if isinstance(node.operator, Weight))
        return residence_of(sum(map(bytes_of, weights)))

    def comes_from_memory(self, operator: GraphOperator) -> bool:
        """Whether enough other data is read between two uses of a weight to evict it from the caches. Values
        computed from weights count as read once per run."""
        if self.residence is not Residence.MEMORY:
            return False
        return not isinstance(operator, Weight) or operator.label not in self._returning

    def observed(
        self, operator: Opaque, port: int, sized: Callable[[TensorType], TensorType]
    ) -> TensorType | None:
        """The type of an output of unknown rank, determined by running; None where that is not possible."""
        if self._observed is None:
            self._observed = observed_types(self.lifted, sized)
        return self._observed.get((operator.index, port))

    def content(self, graph: Graph, value: Value, free: Container[NodeId]) -> bytes | None:
        """The bytes of a small constant; None for larger ones and for non-constants."""
        node = graph.nodes[value.node]
        if isinstance(node.operator, Weight):
            return self._weight(node.operator)
        if value.node not in free or not self._is_small(graph, value):
            return None
        return Folder(graph, self.lifted.weight).value(value).tobytes()

    def spelled(self, operator: Opaque) -> Opaque | None:
        """Return a representative operator for all nodes equal to this one, with their hash as its reason.
        None if the node cannot run outside its model, or if random numbers would determine its running time.
        A counted loop runs once if its count is unknown."""
        if operator.index not in self._spelled:
            self._spelled[operator.index] = self._spell(operator)
        return self._spelled[operator.index]

    def model(self, graph: Graph, weights: Callable[[str], Array]) -> bytes:
        """Return the graph as a model with its opaque nodes copied; raises as ``build_model`` does. If a node
        has subgraphs, sizes are left open, because observed ones may be wrong for a branch that was not
        taken."""
        model = build_model(graph, weights, source=self.lifted.source)
        operators = (node.operator for node in graph)
        if any(
            isinstance(operator, Opaque) and self.body_bytes(operator) is not None for operator in operators
        ):
            return with_open_sizes(model)
        return model

    def body_bytes(self, operator: Opaque) -> int | None:
        """Return the bytes of the constants in the node's subgraphs (for branches, of the largest); None
        without subgraphs."""
        node = self.lifted.source.proto.graph.node[operator.index]
        return max((bytes_of_graph(graph) for graph in subgraphs(node)), default=None)

    @cached_property
    def _returning(self) -> frozenset[str]:
        """The weights that are usually still cached when they are read again."""
        graph = self.lifted.graph
        passed, places = 0, defaultdict[str, list[int]](list)
        for node in map(graph.nodes.__getitem__, graph.order):
            for source in dict.fromkeys(value.node for value in node.inputs):
                operator = graph.nodes[source].operator
                if isinstance(operator, Weight):
                    places[operator.label].append(passed)
                    passed += bytes_of(operator.type)
        found: set[str] = set()
        for label, read in places.items():
            distances = [
                after - before for before, after in zip(read, (*read[1:], read[0] + passed), strict=True)
            ]
            near = sum(residence_of(distance) is not Residence.MEMORY for distance in distances)
            if 2 * near > len(distances):
                found.add(label)
        return frozenset(found)

    def _weight(self, weight: Weight) -> bytes | None:
        if not _is_few(weight.type):
            return None
        found = self._labels.get(weight.label)
        if found is None:
            found = self._labels[weight.label] = np.asarray(self.lifted.weight(weight.label)).tobytes()
        return found

    def _is_small(self, graph: Graph, value: Value) -> bool:
        waiting, seen = [value.node], {value.node}
        while waiting:
            node = graph.nodes[waiting.pop()]
            if isinstance(node.operator, Input | Opaque) or len(seen) > _FEW:
                return False
            if not all(isinstance(type_, TensorType) and _is_few(type_) for type_ in node.types):
                return False
            for source in node.inputs:
                if source.node not in seen:
                    seen.add(source.node)
                    waiting.append(source.node)
        return True

    def _spell(self, operator: Opaque) -> Opaque | None:
        node = self.lifted.source.proto.graph.node[operator.index]
        if (
            node.domain not in _STANDARD
            or (contains_loop(node) and not is_counted_loop(node))
            or self._functions.intersection({node.op_type})
        ):
            return None
        bare = type(node)()
        bare.CopyFrom(node)
        bare.ClearField("name")
        bare.ClearField("doc_string")
        bare.ClearField("metadata_props")
        slots = ["x" if name else "" for name in node.input], ["y" if name else "" for name in node.output]
        del bare.input[:], bare.output[:]
        bare.input.extend(slots[0])
        bare.output.extend(slots[1])
        content = bare.SerializeToString(deterministic=True)
        digest = hashlib.blake2b(content, digest_size=8, key=self._opsets).hexdigest()
        return self._first.setdefault(digest, Opaque(node.domain, node.op_type, operator.index, digest))

    @cached_property
    def _first(self) -> dict[str, Opaque]:
        return {}

    @cached_property
    def _functions(self) -> frozenset[str]:
        return frozenset(function.name for function in self.lifted.source.proto.functions)

    @cached_property
    def _opsets(self) -> bytes:
        imports = self.lifted.source.proto.opset_import
        return ",".join(sorted(f"{entry.domain}:{entry.version}" for entry in imports)).encode()[:64]


def _is_few(type_: TensorType) -> bool:
    return isinstance(type_.elements, int) and type_.elements <= _FEW


__all__ = ["Origin"]
