"""Random graphs and random plans for them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from superopt.domains import Array
from superopt.ir.graph import Graph, GraphEditor, Input, NodeId, Value, Weight
from superopt.ir.plan import Fetch, Parallelism, Plan, Residence
from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.activation import Relu, Softmax, Tanh
from superopt.ops.elementwise.arithmetic import Add, Multiply
from superopt.ops.images.convolution import Conv
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.normalization import LayerNormalization
from superopt.ops.reduction import ReduceMean
from superopt.ops.shape import Broadcast, Concat, Reshape, Split
from superopt.optimizer.parallel.tasks import splits_of

DEVICES = 8
Grow = Callable[[random.Random, GraphEditor, Sequence[Value]], Sequence[Value]]


def _tensor(*shape: int) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)


def _shape(editor: GraphEditor, value: Value) -> tuple[int, ...]:
    type_ = editor.type_of(value)
    assert isinstance(type_, TensorType)
    return tuple(size for size in type_.shape if isinstance(size, int))


def _weight(editor: GraphEditor, *shape: int) -> Value:
    return editor.add(Weight(f"w{len(editor.build())}", _tensor(*shape))).value


def _project(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    source = draw.choice(values)
    weight = _weight(editor, _shape(editor, source)[-1], draw.choice((4, 8, 12)))
    return editor.add(Matmul(), (source, weight)).values


def _gate(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    left = draw.choice(values)
    right = draw.choice([value for value in values if _shape(editor, value) == _shape(editor, left)])
    return editor.add(draw.choice((Add(), Multiply())), (left, right)).values


def _bias(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    source = draw.choice(values)
    shape = _shape(editor, source)
    bias = editor.add(Broadcast(shape), (_weight(editor, shape[-1]),))
    return editor.add(Add(), (source, bias.value)).values


def _pointwise(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    return editor.add(draw.choice((Relu(), Tanh(), Softmax(-1))), (draw.choice(values),)).values


def _normalise(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    source = draw.choice(values)
    size = _shape(editor, source)[-1]
    weights = (_weight(editor, size), _weight(editor, size))
    return editor.add(LayerNormalization(), (source, *weights)).values


def _attend(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    source = draw.choice([value for value in values if len(_shape(editor, value)) == 3] or values)
    turned = editor.add(Transpose(), (source,))
    scores = editor.add(Matmul(), (source, turned.value))
    return editor.add(Matmul(), (scores.value, source)).values


def _join(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    source = draw.choice(values)
    return editor.add(Concat(-1), (source, source)).values


def _cut(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    source = draw.choice(values)
    half = _shape(editor, source)[-1] // 2
    return editor.add(Split(-1, (half, half)), (source,)).values


def _heads(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    source = draw.choice(values)
    *outer, last = _shape(editor, source)
    folded = editor.add(Reshape((math.prod(outer), last)), (source,))
    return editor.add(Reshape((*outer, last)), folded.values).values


def _average(draw: random.Random, editor: GraphEditor, values: Sequence[Value]) -> Sequence[Value]:
    source = draw.choice(values)
    shape = _shape(editor, source)
    mean = editor.add(ReduceMean(-1), (source,))
    wide = editor.add(Reshape((*shape[:-1], 1)), mean.values)
    return editor.add(Broadcast(shape), wide.values).values


GROWTH: tuple[Grow, ...] = (
    _project,
    _project,
    _gate,
    _bias,
    _pointwise,
    _normalise,
    _attend,
    _join,
    _cut,
    _heads,
    _average,
)


def random_graph(draw: random.Random) -> Graph:
    """Up to nine steps over a [b, m, k] or [m, k] input, or a small stack of convolutions."""
    editor = Graph.empty().edit()
    if draw.random() < 0.25:
        value = editor.add(Input("x", _tensor(4, 4, 6, 6))).value
        for channels in draw.choices((4, 8), k=draw.randint(1, 3)):
            weight = _weight(editor, channels, _shape(editor, value)[1], 3, 3)
            value = editor.add(Conv(padding="same"), (value, weight)).value
            value = editor.add(Relu(), (value,)).value
        editor.set_outputs((value,))
        return editor.build()
    shape = draw.choice(((8, 8), (4, 4, 8), (2, 8, 4)))
    values = [editor.add(Input("x", _tensor(*shape))).value]
    for _ in range(draw.randint(2, 9)):
        values.extend(draw.choice(GROWTH)(draw, editor, values))
    graph = editor.build()
    ends = [value for value in values if not graph.users(value.node)]
    editor.set_outputs(ends)
    return editor.build()


def random_plan(draw: random.Random, graph: Graph) -> Plan:
    """For most operators degrees that their sizes allow, copies, and devices in any order."""
    mappings: dict[NodeId, Parallelism] = {}
    for node in graph:
        if isinstance(node.operator, Input | Weight) or draw.random() < 0.1:
            continue
        splits = splits_of(graph, node)
        while True:
            degrees = tuple(draw.choice((1, 1, 2, 2, 3, 4)) for _ in splits.dimensions)
            tasks = math.prod(degrees)
            if tasks <= DEVICES and splits.admits(degrees):
                break
        copies = draw.choice([count for count in (1, 1, 2, 4) if count * tasks <= DEVICES])
        mappings[node.id] = Parallelism(degrees, tuple(draw.sample(range(DEVICES), tasks * copies)), copies)
    return Plan(parallel=mappings)


def random_residence(draw: random.Random, graph: Graph) -> Mapping[NodeId, Residence]:
    """For half of the inputs parts on devices in any order, with fetches for some of their readers, issued
    after any operators."""
    found: dict[NodeId, Residence] = {}
    nodes = [node.id for node in graph if not isinstance(node.operator, Weight)]
    for node in graph.inputs:
        (type_,) = graph[node].types
        readers = list(graph.users(node))
        if draw.random() < 0.5 or not isinstance(type_, TensorType):
            continue
        while True:
            degrees = tuple(draw.choice((1, 2, 4, 8)) for _ in type_.shape)
            copies = draw.choice((1, 1, 1, 2))
            divides = all(
                int(str(size)) % degree == 0 for size, degree in zip(type_.shape, degrees, strict=True)
            )
            if divides and math.prod(degrees) * copies <= DEVICES:
                break
        draw.shuffle(readers)
        cuts = sorted(draw.randint(0, len(readers)) for _ in range(3))
        groups = [readers[: cuts[0]], readers[cuts[0] : cuts[1]], readers[cuts[1] : cuts[2]]]
        fetches = tuple(
            Fetch(tuple(group), draw.choice((None, draw.choice(nodes))), draw.choice((None, 1, 2)))
            for group in groups
            if group
        )
        devices = tuple(draw.sample(range(DEVICES), math.prod(degrees) * copies))
        found[node] = Residence(degrees, devices, copies, fetches)
    return found


def random_arrays(graph: Graph) -> Mapping[str, Array]:
    """Content for all inputs and weights, by label."""
    content = np.random.default_rng(0)
    arrays: dict[str, Array] = {}
    for node in graph:
        if isinstance(node.operator, Input | Weight) and isinstance(node.types[0], TensorType):
            shape = [int(str(size)) for size in node.types[0].shape]
            arrays[node.operator.label] = content.uniform(-0.5, 0.5, shape).astype(np.float32)
    return arrays
