"""Transformations of a model that change nothing it computes, but make the lowering work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from superopt.ir import Graph, Node, Plan, Weight
from superopt.onnx_io import LiftedModel, lift, load_model, lower
from superopt.ops import Opaque
from superopt.optimizer.canonical import canonicalise

Rewriting = Callable[[bytes], bytes]


def touched(graph: Graph, which: Callable[[Node], bool] = lambda _: True) -> Graph:
    """The graph with chosen nodes claiming to come from no ONNX node, so that they are written anew."""
    nodes = {
        node.id: replace(node, origin=None)
        if which(node) and not isinstance(node.operator, Opaque | Weight)
        else node
        for node in graph
    }
    return Graph(nodes, graph.inputs, graph.outputs, graph.next_id)


def written_anew(model: bytes, *, for_gradients: bool = False) -> bytes:
    """The model with every node that can be lifted written by the lowering."""
    lifted = lift(load_model(model), for_gradients=for_gradients)
    return lower(lifted, touched(lifted.graph), Plan()).to_bytes()


def canonical(model: bytes) -> bytes:
    """The model in canonical form."""
    lifted = lift(load_model(model))
    return lower(lifted, canonicalise(lifted).graph, Plan()).to_bytes()


def every_other_node_written_anew(model: bytes) -> bytes:
    """The model with copied and new nodes side by side."""
    lifted = lift(load_model(model))
    return lower(lifted, touched(lifted.graph, lambda node: (node.origin or 0) % 2 == 0), Plan()).to_bytes()


def written_as_it_was(model: bytes) -> bytes:
    """The model lifted and lowered; the lowering must see by itself that nothing changed, but for sizes."""
    lifted = lift(load_model(model))
    lowered = lower(lifted, same(lifted), Plan())
    assert lowered.unchanged == (lifted.source.came_from is None)
    return lowered.to_bytes()


def same(lifted: LiftedModel) -> Graph:
    """Another graph equal to the lifted one."""
    return touched(lifted.graph, lambda _: False)
