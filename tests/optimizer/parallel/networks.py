"""Small graphs to be planned, and machines to plan them for."""

from __future__ import annotations

import itertools
from dataclasses import replace

from superopt.ir.graph import Graph, Value
from superopt.ops.elementwise.activation import Relu
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.matrix import Matmul
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.topology import Cluster, Node
from tests.optimizer.graphs import Builder


def devices(count: int, memory: int | None = None) -> Cluster:
    """The first devices of a node of Summit, perhaps with another memory."""
    node = named_cluster("summit-node")
    kept = tuple(
        replace(device, socket=0, memory_bytes=memory or device.memory_bytes)
        for device in node.devices[:count]
    )
    return Cluster("some", kept, (Node(tuple(range(count)), node.nodes[0].link, None),))


def mlp(batch: int, *sizes: int) -> Graph:
    """Dense layers of those sizes without biases, relu between them."""
    builder = Builder()
    x = builder.input("x", batch, sizes[0])
    for number, (into, out) in enumerate(itertools.pairwise(sizes)):
        x = builder.add(Relu(), x) if number else x
        x = builder.add(Matmul(), x, builder.weight(into, out))
    return builder.graph(x)


def twins(batch: int, size: int) -> Graph:
    """Two equal branches of dense layers, added."""
    builder = Builder()
    ends: list[Value] = []
    for name in ("left", "right"):
        x = builder.input(name, batch, size)
        for _ in range(3):
            x = builder.add(Relu(), builder.add(Matmul(), x, builder.weight(size, size)))
        ends.append(x)
    return builder.graph(builder.add(Add(), *ends))
