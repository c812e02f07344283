"""Graph networks: GCN (Kipf and Welling 2017), GIN (Xu et al. 2019), CommNet (Sukhbaatar et al. 2016).

A layer gathers the activations of neighbours, adds them up, and applies dense layers, for a range of the
vertices: all of them in a whole network, or those of one device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder

__all__ = ["KINDS", "Kind", "graph_layer", "graph_network"]

Kind: TypeAlias = Literal["gcn", "gin", "commnet"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_OPSET = 18
"""ScatterND can add rows with the same index since operator set 16."""


def graph_network(kind: Kind, vertices: int | str, edges: int | str, widths: Sequence[int]) -> Blueprint:
    """Float features [vertices, widths[0]], int64 sources and targets [edges], and for GCN and CommNet float
    ``norm`` [vertices, 1], one over the number of neighbours or 1 -> the activations of the last layer.
    Raises InvalidOptionError for an unknown kind, or widths of no layer."""
    if kind not in KINDS or len(widths) < 2:
        raise InvalidOptionError(
            f"graph network: expected one of {', '.join(KINDS)} with two widths or more, got {kind} with "
            f"{list(widths)}"
        )
    graph = GraphBuilder(kind, _OPSET)
    x = graph.input("features", (vertices, widths[0]))
    sources = graph.input("sources", (edges,), np.int64)
    targets = graph.input("targets", (edges,), np.int64)
    norm = graph.input("norm", (vertices, 1)) if kind != "gin" else ""
    column = graph.node("Unsqueeze", [targets, graph.integers("last", [1])], "columns")
    for index, sizes in enumerate(pairwise(widths)):
        gathered = _gathered(graph, f"{index}", x, x, sources, column)
        x = _updated(graph, kind, f"{index}", (x, gathered, norm), sizes)
    graph.output(x, (vertices, widths[-1]))
    return graph.blueprint()


def graph_layer(kind: Kind, widths: tuple[int, int]) -> Blueprint:
    """One layer for a range of vertices: all ``activations`` [vertices, width], those of the range ``own``
    [part, width], ``norm`` [part, 1], the int64 ``sources`` among all vertices and ``targets`` in the range
    [edges] -> the range's activations [part, width]."""
    graph = GraphBuilder(f"{kind}-layer", _OPSET)
    everything = graph.input("activations", ("vertices", widths[0]))
    own = graph.input("own", ("part", widths[0]))
    sources = graph.input("sources", ("edges",), np.int64)
    targets = graph.input("targets", ("edges",), np.int64)
    norm = graph.input("norm", ("part", 1)) if kind != "gin" else ""
    column = graph.node("Unsqueeze", [targets, graph.integers("last", [1])], "columns")
    gathered = _gathered(graph, "0", everything, own, sources, column)
    y = _updated(graph, kind, "0", (own, gathered, norm), widths)
    graph.output(y, ("part", widths[1]))
    return graph.blueprint()


def _gathered(graph: GraphBuilder, name: str, everything: str, own: str, sources: str, column: str) -> str:
    """The sums of the neighbours' activations."""
    rows = graph.node("Gather", [everything, sources], f"{name}.rows", {"axis": 0})
    zeros = graph.node("Sub", [own, own], f"{name}.zeros")
    return graph.node("ScatterND", [zeros, column, rows], f"{name}.sums", {"reduction": "add"})


def _updated(
    graph: GraphBuilder, kind: Kind, name: str, values: tuple[str, str, str], sizes: tuple[int, int]
) -> str:
    own, gathered, norm = values
    if kind == "gin":
        both = graph.node("Add", [own, gathered], f"{name}.both")
        hidden = _dense(graph, f"{name}.0", both, (sizes[0], sizes[1]))
        hidden = graph.node("Relu", [hidden], f"{name}.relu")
        return graph.node("Relu", [_dense(graph, f"{name}.1", hidden, (sizes[1], sizes[1]))], f"{name}.y")
    mean = graph.node("Mul", [gathered, norm], f"{name}.mean")
    if kind == "gcn":
        both = graph.node("Add", [own, mean], f"{name}.both")
        return graph.node("Relu", [_dense(graph, f"{name}.0", both, sizes)], f"{name}.y")
    heard = _dense(graph, f"{name}.heard", mean, sizes)
    kept = _dense(graph, f"{name}.kept", own, sizes)
    return graph.node("Tanh", [graph.node("Add", [heard, kept], f"{name}.sum")], f"{name}.y")


def _dense(graph: GraphBuilder, name: str, x: str, sizes: tuple[int, int]) -> str:
    weight = graph.weight(f"{name}.weight", weights.normal(sizes, math.sqrt(1.0 / sizes[0])))
    return graph.node("MatMul", [x, weight], f"{name}.out")
