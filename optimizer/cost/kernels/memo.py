"""Kernels of fusion groups, remembered by the nodes that they are made of."""

from __future__ import annotations

from collections.abc import Container

from superopt.ir.graph import Graph, Node, NodeId
from superopt.ir.plan import FusionGroup
from superopt.ops.traits import traits
from superopt.optimizer.cost.kernels.extraction import is_read_outside, kernel_of
from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.sizes import Sizes
from superopt.optimizer.fusion import TRANSPARENT

_MAX_KERNELS = 1 << 16
_MAX_REMEMBERED = 32


class KernelMemo:
    """Cache of kernels by the nodes of their group: a rewrite leaves most of them unchanged."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Kernel, tuple[Node, ...]]] = {}

    def clear(self) -> None:
        """Forgets all kernels, to free their memory."""
        self._known.clear()

    def kernel_of(
        self,
        graph: Graph,
        group: FusionGroup,
        free: Container[NodeId],
        blocked: Container[NodeId],
        sizes: Sizes,
    ) -> Kernel:
        """The kernel of a group; see ``kernel_of``."""
        nodes: list[Node] = []
        context: list[object] = []
        for member in group.members:
            node = graph.nodes[member]
            if len(node.types) > 1 or len(nodes) > _MAX_REMEMBERED:
                return kernel_of(graph, group, free, blocked, sizes)
            context.append(member in graph.output_nodes or is_read_outside(graph, group, member))
            self._look(graph, node, free, blocked, nodes, context)
        key = (*map(id, nodes), *context)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_KERNELS:
                self._known.clear()
            found = self._known[key] = kernel_of(graph, group, free, blocked, sizes), tuple(nodes)
        return found[0]

    def _look(
        self,
        graph: Graph,
        node: Node,
        free: Container[NodeId],
        blocked: Container[NodeId],
        nodes: list[Node],
        context: list[object],
    ) -> None:
        """Records the node and everything about its operands that affects the kernel."""
        nodes.append(node)
        for value in node.inputs:
            source = graph.nodes[value.node]
            is_free = value.node in free
            if source.operator.name in TRANSPARENT and (traits(source.operator.name).repeats or not is_free):
                self._look(graph, source, free, blocked, nodes, context)
            context.append((is_free, value.node in blocked))
