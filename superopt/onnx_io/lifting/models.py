"""Lifting: converts an ONNX model to a graph of operators; unsupported nodes become opaque nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx

from superopt.domains import Array
from superopt.errors import IllTypedError, InvalidModelError
from superopt.ir.dimensions import Dimension, as_symbol, substitute, symbols_of
from superopt.ir.graph import Graph, GraphEditor, GraphOperator, Input, NodeId, Value, Weight
from superopt.ir.types import TensorType, UnknownType, ValueType
from superopt.onnx_io.changes.simplifying import followed_constants, simplify
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.lifting.composed import COMPOSED, FOR_GRADIENTS
from superopt.onnx_io.lifting.cuts import CUTS
from superopt.onnx_io.lifting.einsum import PRODUCTS
from superopt.onnx_io.lifting.elementwise import ELEMENTWISE, Lifter
from superopt.onnx_io.lifting.fourier import FOURIER
from superopt.onnx_io.lifting.layers import LAYERS
from superopt.onnx_io.lifting.reductions import REDUCTIONS
from superopt.onnx_io.lifting.resizing import RESIZING
from superopt.onnx_io.lifting.scatter import SCATTER
from superopt.onnx_io.lifting.selection import SELECTION
from superopt.onnx_io.lifting.shape import MOVEMENT
from superopt.onnx_io.lifting.site import NotLiftedError, Site, known_number
from superopt.onnx_io.lifting.volumes import CONVOLUTIONS, CONVOLUTIONS_FOR_GRADIENTS
from superopt.onnx_io.protos import STANDARD_DOMAINS, captured_names, element_type, names_within, subgraphs
from superopt.onnx_io.sizes.declarations import without_false_types
from superopt.onnx_io.sizes.inference import infer_types
from superopt.onnx_io.sizes.shape_data import RULES as SIZE_ARITHMETIC
from superopt.onnx_io.sizes.shape_data import SIZE_READERS, dimensions, holds_sizes
from superopt.ops import OPERATORS, Opaque

COMPUTES_SIZES = "it computes from sizes alone"
"""Why a node stays as it is that depends on sizes and constants alone; no rule is missing for it."""


def computes_sizes(operator: GraphOperator) -> bool:
    """Whether a node of a lifted model stays as it is because it computes from sizes alone."""
    return isinstance(operator, Opaque) and operator.reason == COMPUTES_SIZES


_FEW_ELEMENTS = 65_536
"""Weights of at most this many elements are read, to see whether they repeat one number."""


@dataclass(frozen=True, slots=True)
class Group:
    """The graph nodes created for one ONNX node. ``slots`` and ``outputs`` are the values of its operands and
    results, None where missing or not needed by the graph; ``captures`` those that its subgraphs read by
    name. ``respelled``: the runtime runs what the graph nodes are written as at least as fast."""

    nodes: tuple[NodeId, ...]
    slots: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    captures: tuple[tuple[str, Value], ...] = ()
    respelled: bool = False


@dataclass(frozen=True, eq=False)
class LiftedModel:
    """A model as a graph, with the information needed to write it back. ``groups`` by the index of the ONNX
    node; ``names`` are the ONNX names of values; ``symbols`` gives the first occurrence of each unknown
    dimension of the graph; ``numbers`` are weights added by lifting."""

    graph: Graph
    source: SourceModel
    groups: Mapping[int, Group]
    names: Mapping[Value, str]
    symbols: Mapping[str, str]
    numbers: Mapping[str, Array]

    @property
    def opaque(self) -> tuple[tuple[str, str, str], ...]:
        """(name, operator, reason) of every node that rules do not affect, unless it computes from sizes
        alone; unnamed nodes by their output."""
        return tuple(
            (self._name(operator.index), operator.op_type, operator.reason)
            for operator in self._kept
            if not computes_sizes(operator)
        )

    @property
    def computing_sizes(self) -> tuple[str, ...]:
        """The operators of the nodes that compute from sizes alone, and stay as they are."""
        return tuple(operator.op_type for operator in self._kept if computes_sizes(operator))

    @property
    def _kept(self) -> tuple[Opaque, ...]:
        return tuple(node.operator for node in self.graph if isinstance(node.operator, Opaque))

    def _name(self, index: int) -> str:
        proto = self.source.proto.graph.node[index]
        return proto.name or next((output for output in proto.output if output), f"#{index}")

    def weight(self, label: str) -> Array:
        """The content of a weight, memory-mapped if external."""
        if label in self.numbers:
            return self.numbers[label]
        try:
            return self.source.constants[label].numpy()
        except KeyError:
            raise InvalidModelError(f"{self.source.name}: there is no weight {label!r}") from None


def lift(source: SourceModel, *, for_gradients: bool = False) -> LiftedModel:
    """Lifts a model to a graph. Every node that cannot be typed or has no operator becomes opaque, with the
    reason; so does one that the runtime runs faster than what it is made of, unless its gradient is asked
    for."""
    lifters = GRADIENT_LIFTERS if for_gradients else LIFTERS
    return _Lifting(simplify(without_false_types(source)), lifters).run()


def _generic(name: str) -> Lifter:
    """The lifter of an operator whose inputs are those of its ONNX node."""
    operator = OPERATORS[name]
    form = operator.onnx
    assert form is not None

    def lifter(site: Site) -> tuple[Value | None, ...]:
        if site.opset < form.since:
            raise NotLiftedError(
                f"its meaning in operator set {site.opset} differs (known from {form.since} on)"
            )
        fields = {
            field: site.attribute_value(attribute)
            for field, attribute in form.attributes
            if site.has_attribute(attribute)
        }
        operands = [site.value(slot) for slot in range(len(site.node.input))]
        for operand in operands:
            site.type_of(operand)
        return site.add_many(operator(**fields), *operands)

    return lifter


SPECIAL: Mapping[str, Lifter] = {
    **COMPOSED,
    **CONVOLUTIONS,
    **CUTS,
    **ELEMENTWISE,
    **FOURIER,
    **LAYERS,
    **MOVEMENT,
    **PRODUCTS,
    **REDUCTIONS,
    **RESIZING,
    **SCATTER,
    **SELECTION,
}
LIFTERS: Mapping[str, Lifter] = {
    **{
        operator.onnx.op_type: _generic(name)
        for name, operator in OPERATORS.items()
        if operator.onnx is not None and operator.onnx.op_type not in SPECIAL
    },
    **SPECIAL,
}
"""Lifters by ONNX operator. An operator with a declared ONNX form needs no entry."""

GRADIENT_LIFTERS: Mapping[str, Lifter] = {**LIFTERS, **FOR_GRADIENTS, **CONVOLUTIONS_FOR_GRADIENTS}
"""Lifters where gradients are asked for."""


class _Lifting:
    def __init__(self, source: SourceModel, lifters: Mapping[str, Lifter]) -> None:
        self._source = source
        self._lifters = lifters
        self._model = source.proto
        self._followed = followed_constants(source)
        self._inferred = infer_types(source.proto, source.apart, self._followed)
        self._editor = GraphEditor(Graph.empty())
        self._values: dict[str, Value] = {}
        self._groups: dict[int, Group] = {}
        self._solved: dict[str, Dimension] = {}
        self._given = self._symbols_of_inputs()
        self._numbers: dict[str, Array] = {}
        self._from_sizes: set[str] = set()
        self._weight_only: set[NodeId] = set()
        self._by_operand: defaultdict[tuple[str, str, str], list[onnx.NodeProto]] | None = None
        self._functions = {(f.domain, f.name) for f in self._model.functions}
        self._taken = set(names_within(self._model.graph))
        used = {name for node in self._model.graph.node for name in (*node.input, *captured_names(node))}
        used.update(value.name for value in self._model.graph.output)
        self._unused = frozenset(
            name for node in self._model.graph.node for name in node.output if name and name not in used
        )
        self._constant_nodes = {
            node.output[0]: index
            for index, node in enumerate(self._model.graph.node)
            if node.output and node.output[0] in source.constants and node.output[0] not in source.tensors
        }

    def run(self) -> LiftedModel:
        overridable = self._source.overridable
        for value in self._model.graph.input:
            if value.name not in self._source.tensors or value.name in overridable:
                node = self._editor.add(Input(value.name, self._type_named(value.name)))
                self._values[value.name] = node.value
        for index, node in enumerate(self._model.graph.node):
            if not node.output or self._constant_nodes.get(node.output[0]) != index:
                self._lift_node(index, node)
        self._editor.set_outputs(self._output(value.name) for value in self._model.graph.output)
        names = {value: name for name, value in self._values.items()}
        graph = self._editor.build()
        types = (type_ for node in graph for type_ in node.types if isinstance(type_, TensorType))
        used = frozenset[str]().union(*(type_.symbols for type_ in types))
        symbols = {name: where for name, where in self._inferred.symbols.items() if name in used}
        return LiftedModel(graph, self._source, self._groups, names, symbols, self._numbers)

    def _symbols_of_inputs(self) -> frozenset[str]:
        types = (self._inferred.types.get(value.name) for value in self._model.graph.input)
        return frozenset[str]().union(*(t.symbols for t in types if isinstance(t, TensorType)))

    def _output(self, name: str) -> Value:
        value = self._value(name)
        if value is None:
            raise InvalidModelError(f"{self._source.name}: nothing produces the output {name!r}")
        return value

    def _type_named(self, name: str) -> ValueType:
        type_ = self._inferred.types.get(name, UnknownType("tensor of unknown type"))
        return type_.substitute(self._solved) if isinstance(type_, TensorType) and self._solved else type_

    def _value(self, name: str) -> Value | None:
        """The value of that name; a weight becomes a node on first use."""
        if name in self._values:
            return self._values[name]
        tensor = self._source.constants.get(name)
        if tensor is None:
            return None
        type_ = TensorType(element_type(tensor.data_type), tensor.shape)
        origin = self._constant_nodes.get(name)
        is_read = type_.element.is_float and tensor.size <= _FEW_ELEMENTS
        number = known_number(tensor.numpy()) if is_read else None
        node = self._editor.add(Weight(name, type_, number), origin=origin)
        self._values[name] = node.value
        self._weight_only.add(node.id)
        if origin is not None:
            self._groups[origin] = Group((node.id,), (), (node.value,))
        return node.value

    def _lift_node(self, index: int, node: onnx.NodeProto) -> None:
        reason = self._source.fixed_reason or self._why_unknown(node)
        self._follow(node)
        if reason is None and not self._is_size(node):
            site = self._site(index)
            try:
                outputs = self._lifters[node.op_type](site)[: len(node.output)]
                slots = site.slots()
                self._compare_with_onnx(node, outputs)
            except (NotLiftedError, IllTypedError) as error:
                reason = str(error)
                self._editor.remove(site.made)
            else:
                self._groups[index] = Group(tuple(site.made), slots, outputs, respelled=site.is_respelled)
                self._bind(node, outputs)
                return
        self._add_opaque(index, node, COMPUTES_SIZES if self._is_from_sizes(node) else reason or "")

    def _site(self, index: int) -> Site:
        return Site(
            self._editor, self._model.graph.node[index], index, self._source.opset or 0, self._value,
            self._source.constants, self._unused, self._weight_only, self._register,
            self._sizes_in, self._alike, self._site,
        )  # fmt: skip

    def _is_size(self, node: onnx.NodeProto) -> bool:
        """Whether the node computes sizes, or truth values about them: what is written reads them."""
        types = (self._type_named(name) for name in node.output)
        return self._is_from_sizes(node) and not any(
            isinstance(type_, TensorType) and type_.element.is_float for type_ in types
        )

    def _is_from_sizes(self, node: onnx.NodeProto) -> bool:
        """Whether the outputs depend on sizes and constants alone."""
        return node.domain in STANDARD_DOMAINS and self._from_sizes.issuperset(node.output)

    def _follow(self, node: onnx.NodeProto) -> None:
        """Records the outputs of a node that reads sizes, or computes with nothing else."""
        if node.domain not in STANDARD_DOMAINS:
            return
        read = [name for name in node.input if name and name not in self._source.constants]
        if node.op_type in SIZE_READERS or (
            node.op_type in SIZE_ARITHMETIC and self._from_sizes.issuperset(read)
        ):
            self._from_sizes.update(node.output)

    def _alike(self, node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
        """The nodes with the operator and the first operand of a node, itself among them."""
        if self._by_operand is None:
            self._by_operand = defaultdict(list)
            for other in self._model.graph.node:
                if other.input:
                    self._by_operand[other.domain, other.op_type, other.input[0]].append(other)
        return self._by_operand[node.domain, node.op_type, node.input[0]]

    def _sizes_in(self, name: str) -> tuple[Dimension, ...] | None:
        """The numbers in an integer tensor, as far as it is computed from sizes and constants."""
        content = self._inferred.contents.get(name, self._followed.get(name))
        if content is None or not holds_sizes(content):
            return None
        return tuple(substitute(size, self._solved) for size in dimensions(content))

    def _why_unknown(self, node: onnx.NodeProto) -> str | None:
        if (node.domain, node.op_type) in self._functions:
            return "it calls a function of the model"
        if node.domain not in STANDARD_DOMAINS:
            return f"the algebra has no operators of its domain, {node.domain}"
        if node.op_type not in self._lifters:
            if any(subgraphs(node)):
                return "its bodies are models of their own"
            if node.op_type in FOR_GRADIENTS:
                return "it is faster than the operators that it is made of"
            return "no operator describes it"
        return None

    def _bind(self, node: onnx.NodeProto, outputs: tuple[Value | None, ...]) -> None:
        for name, value in zip(node.output, outputs, strict=False):
            if name and value is not None:
                self._values[name] = value

    def _add_opaque(self, index: int, node: onnx.NodeProto, reason: str) -> None:
        inputs = tuple(self._value(name) if name else None for name in node.input)
        captures = tuple(
            (name, value) for name in captured_names(node) if (value := self._value(name)) is not None
        )
        types = tuple(
            self._type_named(name) if name else UnknownType("unused output") for name in node.output
        )
        operands = [value for value in inputs if value is not None]
        made = self._editor.add(
            Opaque(node.domain, node.op_type, index, reason),
            (*operands, *(value for _, value in captures)),
            origin=index,
            types=types,
        )
        self._groups[index] = Group((made.id,), inputs, made.values, captures)
        self._bind(node, made.values)

    def _compare_with_onnx(self, node: onnx.NodeProto, outputs: tuple[Value | None, ...]) -> None:
        """Rejects types that contradict ONNX's; expresses ONNX's symbols in superopt's."""
        self._learn(
            (self._editor.type_of(value), self._type_named(name))
            for name, value in zip(node.output, outputs, strict=False)
            if name and value is not None
        )

    def _learn(self, pairs: Iterable[tuple[ValueType, ValueType]]) -> None:
        """Unifies superopt's and ONNX's output types; raises NotLiftedError where they contradict."""
        learned: dict[str, Dimension] = {}
        for own, theirs in pairs:
            if not isinstance(own, TensorType) or not isinstance(theirs, TensorType):
                continue
            if own.element is not theirs.element or own.rank != theirs.rank:
                raise NotLiftedError(f"superopt types it {own}, ONNX {theirs}")
            for a, b in zip(own.shape, theirs.shape, strict=True):
                if isinstance(a, int) and isinstance(b, int) and a != b:
                    raise NotLiftedError(f"superopt types it {own}, ONNX {theirs}")
                label = as_symbol(b)
                if label is not None and a != b and label not in self._given and label not in symbols_of(a):
                    learned.setdefault(label, a)
        for label, dimension in learned.items():
            replaced = substitute(dimension, self._solved)
            self._solved = {key: substitute(d, {label: replaced}) for key, d in self._solved.items()}
            self._solved[label] = replaced

    def _register(self, name: str, content: Array) -> str:
        """The label of a weight that the model does not contain."""
        label = f"superopt/{name}"
        while label in self._taken:
            label += "'"
        self._numbers[label] = content
        return label
