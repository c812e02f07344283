"""Bodies of If, Loop and Scan as models of their own: extracted, rewritten by a callback, and put back.

A body's inputs are its formal inputs and the outer tensors that it reads, with the types inferred for them;
outer constants that it reads stay constants. What is put back has the formal inputs, the outputs and their
names of the original body, and stores no constant of the outer graph again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import onnx
from onnx import AttributeProto, TensorProto

from superopt.errors import UnsupportedError
from superopt.onnx_io.bodies.constants import remove_unread, share_constants
from superopt.onnx_io.bodies.inputs import FormalInputs, captured_input, formal_inputs, settle
from superopt.onnx_io.bodies.names import digest, set_apart, with_names_of
from superopt.onnx_io.changes.simplifying import followed_constants, light, simplify
from superopt.onnx_io.files.external import STUB, is_stub, stored_tensor
from superopt.onnx_io.files.saving import LoweredModel
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.files.stored import StoredTensor, proto_of
from superopt.onnx_io.protos import (
    IR_WITH_FREE_INITIALIZERS,
    STANDARD_DOMAINS,
    copy_without_graph,
    free_names,
    names_within,
    subgraphs,
)
from superopt.onnx_io.sizes.declarations import without_false_types
from superopt.onnx_io.sizes.inference import SMALL, InferredTypes, infer_types

ENTERED = frozenset(("If", "Loop", "Scan"))
"""Operators whose bodies are models of their own."""

_SCAN_WITHOUT_BATCH = 9
"""Operator set since which Scan has no batch axis."""


@dataclass(frozen=True, eq=False)
class Body:
    """A body as a model. ``path`` is its place, as in ``If_12/then_branch/Loop_3/body``; ``graph`` is the
    body as it stands in its model, and ``captured`` are the outer names that it reads."""

    path: str
    graph: onnx.GraphProto
    captured: frozenset[str]
    source: SourceModel

    @cached_property
    def digest(self) -> str:
        """Equal for bodies that are equal but for the names of their tensors and nodes. Large constants of
        the outer graph are equal only if they are the same tensor."""
        contents: dict[str, str] = {}
        for name in self.captured.intersection(self.source.tensors):
            tensor = self.source.tensors[name]
            contents[name] = repr(tensor.numpy().tolist()) if _is_small(tensor) else name
        return digest(self.source.proto.graph, contents)


@dataclass(frozen=True, slots=True)
class Refused:
    """A body that cannot be a model of its own, with the reason."""

    path: str
    nodes: int
    why: str


Rewrite = Callable[[Body], LoweredModel | None]
"""Returns the rewritten form of a body's model, or None to leave the body as it is."""


@dataclass(eq=False)
class BodyRewriting:
    """Rewrites the bodies of a model, innermost first. ``rewrite`` is called once for equal bodies;
    ``repeat`` is told (path, path of the first) for the others, and ``refuse`` what cannot be rewritten.
    Nodes with a name in ``keep`` stay as they are."""

    model: onnx.ModelProto
    rewrite: Rewrite
    repeat: Callable[[str, str], None] = lambda _path, _first: None
    refuse: Callable[[Refused], None] = lambda _: None
    keep: Collection[str] = ()
    _known: dict[str, tuple[Body, LoweredModel | None]] = field(
        default_factory=dict[str, "tuple[Body, LoweredModel | None]"]
    )

    def __post_init__(self) -> None:
        self._taken = frozenset(names_within(self.model.graph))

    def enter(self, source: SourceModel, prefix: str = "") -> SourceModel:
        """The model with rewritten bodies; the same model where none was. ``prefix`` is the path of the model
        itself if it is a body, with a slash."""
        if source.fixed_reason is not None or not has_bodies(source.proto.graph):
            return source
        simple = simplify(without_false_types(source))
        bodies = _Extraction(simple)
        found: dict[tuple[int, int], onnx.GraphProto] = {}
        paths: list[str] = []
        for place in places(simple.proto.graph):
            node = simple.proto.graph.node[place.node]
            path = prefix + place.path
            if node.name in self.keep:
                self.refuse(Refused(path, len(place.graph.node), "its node is kept on request"))
                continue
            try:
                body = bodies.extract(place, path)
            except UnsupportedError as error:
                self.refuse(Refused(path, len(place.graph.node), str(error)))
                continue
            graph = self._rewritten(body)
            if graph is not None:
                set_apart(graph, place.graph, path, self._taken)
                found[place.node, place.attribute] = graph
                paths.append(path)
        if not found:
            return source
        steps = tuple(f"body {path} rewritten" for path in paths)
        proto = _with_bodies(simple.proto, found)
        remove_unread(proto.graph, simple.proto.graph)
        tensors = dict(simple.tensors)
        if not prefix:
            tensors.update(share_constants(proto.graph))
        stored = {tensor.name for tensor in proto.graph.initializer}
        return replace(
            simple,
            proto=proto,
            tensors={name: tensor for name, tensor in tensors.items() if name in stored},
            came_from=simple,
            prepared=(*simple.prepared, *steps),
        )

    def _rewritten(self, body: Body) -> onnx.GraphProto | None:
        known = self._known.get(body.digest)
        if known is None:
            lowered = self.rewrite(body)
            self._known[body.digest] = body, lowered
            return None if lowered is None else self._written(body, lowered)
        first, lowered = known
        self.repeat(body.path, first.path)
        if lowered is None:
            return None
        graph = self._written(first, lowered)
        return with_names_of(graph, first.source.proto.graph, body.source.proto.graph, body.graph)

    def _written(self, body: Body, lowered: LoweredModel) -> onnx.GraphProto:
        """The graph that stands in place of a body. Where the model's IR version wants every initialiser to
        be an input, constants are nodes."""
        graph = written_body(body, lowered)
        if self.model.ir_version < IR_WITH_FREE_INITIALIZERS:
            constants = [_constant_node(tensor) for tensor in graph.initializer]
            nodes = [*constants, *graph.node]
            del graph.initializer[:]
            del graph.node[:]
            graph.node.extend(nodes)
        return graph


@dataclass(frozen=True, slots=True)
class Place:
    """A body in a graph: the index of its node, and of the attribute of the node."""

    node: int
    attribute: int
    path: str
    graph: onnx.GraphProto


def has_bodies(graph: onnx.GraphProto) -> bool:
    """Whether a node of the graph has a body."""
    return any(node.op_type in ENTERED and node.domain in STANDARD_DOMAINS for node in graph.node)


def places(graph: onnx.GraphProto) -> Iterator[Place]:
    """The bodies of the nodes of a graph, not those nested deeper. Nodes without a name, or with that of
    another node, are called by their output."""
    names: set[str] = set()
    for index, node in enumerate(graph.node):
        if node.op_type not in ENTERED or node.domain not in STANDARD_DOMAINS:
            continue
        called = next((name for name in (node.name, *node.output) if name and name not in names), f"#{index}")
        names.add(called)
        for place, attribute in enumerate(node.attribute):
            if attribute.type == AttributeProto.GRAPH:
                yield Place(index, place, f"{called}/{attribute.name}", attribute.g)


class _Extraction:
    """Bodies of one simplified model."""

    def __init__(self, outer: SourceModel) -> None:
        self._outer = outer
        self._types: InferredTypes = infer_types(outer.proto, outer.apart, followed_constants(outer))

    def extract(self, place: Place, path: str) -> Body:
        """The body as a model. Raises UnsupportedError where the type of an input is unknown."""
        node, graph = self._outer.proto.graph.node[place.node], place.graph
        if node.op_type == "Scan" and (self._outer.opset or 0) < _SCAN_WITHOUT_BATCH:
            raise UnsupportedError(f"Scan has a batch axis in operator set {self._outer.opset}")
        formal = formal_inputs(node, graph, self._types)
        names = free_names(graph)
        constants = {n: self._outer.constants[n] for n in names if n in self._outer.constants}
        captured = [captured_input(name, self._types) for name in names if name not in constants]
        proto = self._model(node, graph, formal, captured)
        proto.graph.initializer.extend(_referring(name, tensor) for name, tensor in constants.items())
        settle(proto, formal.carried, self._outer.apart)
        own = {tensor.name: stored_tensor(tensor, self._outer.base) for tensor in graph.initializer}
        source = SourceModel(
            proto,
            {**own, **constants},
            self._outer.base,
            f"{self._outer.name}: {path}",
            apart=self._outer.apart,
        )
        if source.fixed_reason is not None:
            raise UnsupportedError(source.fixed_reason)
        return Body(path, graph, frozenset(names), source)

    def _model(
        self,
        node: onnx.NodeProto,
        graph: onnx.GraphProto,
        formal: FormalInputs,
        captured: list[onnx.ValueInfoProto],
    ) -> onnx.ModelProto:
        """The model without the constants of the outer graph. Declared sizes of results may hold for one
        iteration only, and are left out."""
        proto = copy_without_graph(self._outer.proto)
        proto.ClearField("metadata_props")
        proto.ir_version = max(proto.ir_version, IR_WITH_FREE_INITIALIZERS)
        proto.graph.CopyFrom(graph)
        proto.graph.name = graph.name or "body"
        del proto.graph.input[:]
        proto.graph.input.extend((*formal.declared, *captured))
        for value in proto.graph.output:
            _forget_sizes(value)
        for value in proto.graph.value_info if node.op_type != "If" else ():
            _forget_sizes(value)
        return proto


def _forget_sizes(value: onnx.ValueInfoProto) -> None:
    """Leaves of the declaration of a tensor its element type, and nothing if that is undefined."""
    if value.type.HasField("tensor_type"):
        value.type.tensor_type.ClearField("shape")
        if not value.type.tensor_type.elem_type:
            value.ClearField("type")


def _referring(name: str, tensor: StoredTensor) -> TensorProto:
    """An initialiser for an outer constant; the content of a large one stays where it is."""
    if _is_small(tensor):
        return proto_of(tensor, name)
    proto = TensorProto(name=name, data_type=tensor.data_type, dims=tensor.shape)
    proto.data_location = TensorProto.EXTERNAL
    proto.external_data.add(key="location", value=STUB)
    return proto


def _is_small(tensor: StoredTensor) -> bool:
    return tensor.nbytes <= SMALL


def written_body(body: Body, lowered: LoweredModel) -> onnx.GraphProto:
    """The graph that stands in place of a body: the rewritten nodes, with the original declarations."""
    before, written = body.graph, lowered.proto.graph
    graph = onnx.GraphProto(name=before.name, doc_string=before.doc_string)
    graph.metadata_props.extend(before.metadata_props)
    graph.input.extend(before.input)
    graph.output.extend(before.output)
    declared = (*lowered.source.proto.graph.initializer, *before.initializer)
    stored = {tensor.name: tensor for tensor in declared if not is_stub(tensor)}
    own = [
        stored[name] if name in stored else proto_of(tensor, name)
        for name, tensor in lowered.shared.items()
        if name not in body.captured
    ]
    graph.initializer.extend((*own, *written.initializer))
    graph.node.extend(written.node)
    made = {name for node in graph.node for name in node.output}.union(t.name for t in graph.initializer)
    graph.value_info.extend(value for value in before.value_info if value.name in made)
    graph.quantization_annotation.extend(
        entry for entry in before.quantization_annotation if entry.tensor_name in made
    )
    return graph


def _constant_node(tensor: TensorProto) -> onnx.NodeProto:
    return onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)


def _with_bodies(model: onnx.ModelProto, bodies: dict[tuple[int, int], onnx.GraphProto]) -> onnx.ModelProto:
    result = copy_without_graph(model)
    for entry, value in model.graph.ListFields():
        if not entry.is_repeated:
            setattr(result.graph, entry.name, value)
        elif entry.name != "initializer":
            getattr(result.graph, entry.name).extend(value)
    result.graph.initializer.extend(map(light, model.graph.initializer))
    for (node, attribute), graph in bodies.items():
        result.graph.node[node].attribute[attribute].g.CopyFrom(graph)
    return result


def nodes_in_bodies(graph: onnx.GraphProto) -> int:
    """The number of nodes in all subgraphs of the nodes of a graph."""
    return sum(
        len(nested.node) + nodes_in_bodies(nested) for node in graph.node for nested in subgraphs(node)
    )
