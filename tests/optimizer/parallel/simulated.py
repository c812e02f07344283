"""Graphs, clusters and plans to simulate."""

from __future__ import annotations

import itertools
import math
from types import MappingProxyType

from hypothesis import strategies as st

from superopt.ir.graph import Graph, Input, NodeId, Value, Weight
from superopt.ir.plan import Parallelism, Plan
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import Operator
from superopt.ops.elementwise.activation import Relu
from superopt.ops.elementwise.affine import Affine
from superopt.ops.elementwise.arithmetic import Add, Identity
from superopt.ops.matrix import Matmul
from superopt.ops.shape import Concat, Reshape, Split
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.parallel.topology import Cluster


def tensor(*shape: int) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)


def mlp(batch: int, *widths: int) -> Graph:
    """Matrix products with relu between them."""
    editor = Graph.empty().edit()
    x = editor.add(Input("x", tensor(batch, widths[0]))).value
    for number, (before, after) in enumerate(itertools.pairwise(widths)):
        if number:
            x = editor.add(Relu(), (x,)).value
        weight = editor.add(Weight(f"w{number}", tensor(before, after)))
        x = editor.add(Matmul(), (x, weight.value)).value
    editor.set_outputs((x,))
    return editor.build()


def cluster(nodes: int, devices: int, link: str = "10 GB/s, latency: 1 us") -> Cluster:
    """Equal devices of 1 TFLOP/s without anything to start a kernel."""
    return parse_cluster(
        f"""
nodes:
  - device: {{flops: 1 TFLOP/s, memory_bandwidth: 1 PB/s, launch: 0 us}}
    count: {nodes}
    devices: {devices}
    memory: 1 GiB
    link: {{bandwidth: {link}}}
network: {{bandwidth: 1 GB/s, latency: 2 us}}
""",
        "cluster",
    )


def plan_of(how: dict[NodeId, Parallelism], microbatches: int = 1) -> Plan:
    return Plan(parallel=MappingProxyType(how), microbatches=microbatches)


def running(graph: Graph) -> list[NodeId]:
    """The nodes that a plan is about."""
    return [
        node.id for node in graph if node.id not in graph.weight_only and not isinstance(node.operator, Input)
    ]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to ten operators on tensors of 8 x 8, with several outputs of some and several readers."""
    editor = Graph.empty().edit()
    side = tensor(8, 8)
    values = [editor.add(Input("x", side)).value]
    weights = [editor.add(Weight(f"w{number}", side)).value for number in range(2)]
    vectors = [editor.add(Weight(f"v{number}", tensor(8))).value for number in range(2)]
    for _ in range(draw(st.integers(1, 10))):
        x = draw(st.sampled_from(values))
        y = draw(st.sampled_from([*values, *weights]))
        match draw(st.sampled_from(("matmul", "affine", "add", "relu", "halves", "rename", "reshape"))):
            case "matmul":
                values.append(editor.add(Matmul(), (x, y)).value)
            case "affine":
                values.append(editor.add(Affine(1), (x, *vectors)).value)
            case "add":
                values.append(editor.add(Add(), (x, y)).value)
            case "relu":
                values.append(editor.add(Relu(), (x,)).value)
            case "rename":
                values.append(editor.add(Identity(), (x,)).value)
            case "reshape":
                flat = editor.add(Reshape((4, 16)), (x,)).value
                values.append(editor.add(Reshape((8, 8)), (flat,)).value)
            case _:
                axis = draw(st.sampled_from((0, 1)))
                halves = editor.add(Split(axis, (4, 4)), (x,))
                values.append(editor.add(Concat(axis), halves.values[::-1]).value)
    editor.set_outputs(draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=2, unique=True)))
    return editor.build()


@st.composite
def mappings(draw: st.DrawFn, graph: Graph, node: NodeId, devices: int) -> Parallelism:
    """Any way to divide a node on some devices."""
    operator = graph[node].operator
    assert isinstance(operator, Operator)
    splits = operator.splits(
        tuple(_tensor(graph, value) for value in graph[node].inputs),
        tuple(_tensor(graph, value) for value in graph[node].values),
    )
    degrees: list[int] = []
    for dimension in splits.dimensions:
        options = [
            degree
            for degree in (1, 2, 4, 8)
            if math.prod(degrees) * degree <= devices and dimension.size % degree == 0
        ]
        degrees.append(draw(st.sampled_from(options)))
    tasks = math.prod(degrees)
    copies = draw(st.sampled_from([1, 2] if 2 * tasks <= devices else [1]))
    chosen = draw(st.permutations(range(devices)))[: tasks * copies]
    return Parallelism(tuple(degrees), tuple(chosen), copies)


def _tensor(graph: Graph, value: Value) -> TensorType:
    type_ = graph.type_of(value)
    assert isinstance(type_, TensorType)
    return type_


@st.composite
def plans(draw: st.DrawFn, graph: Graph, devices: int) -> Plan:
    """Any plan, perhaps pipelined: stages follow the order of the graph."""
    microbatches = draw(st.sampled_from((1, 1, 2)))
    cut = draw(st.integers(0, len(graph)))
    how: dict[NodeId, Parallelism] = {}
    for node in running(graph):
        found = draw(mappings(graph, node, devices))
        stage = int(graph.position[node] >= cut) if microbatches > 1 else 0
        how[node] = Parallelism(found.degrees, found.devices, found.copies, stage)
    return plan_of(how, microbatches)
