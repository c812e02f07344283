"""Layout conversions shared by several kernels: image tensors that leave the runtime's blocked layout.

The price of a kernel includes converting the blocked tensors that it reads. Where several kernels need the
same tensor converted, the runtime converts it once, so all but one of these shares are subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from superopt.ir.graph import Graph, NodeId
from superopt.ir.types import TensorType
from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.machine import bytes_of
from superopt.optimizer.cost.objective import Price, rounded
from superopt.optimizer.cost.sizes import Sizes
from superopt.optimizer.fusion import TRANSPARENT


class Priced(Protocol):
    """A kernel and its price."""

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        ...

    @property
    def price(self) -> Price:
        """What it costs."""
        ...


def counted_twice(
    graph: Graph, sources: Iterable[NodeId], priced: Callable[[NodeId], Priced | None], sizes: Sizes
) -> float:
    """The cost of layout conversions included in several prices but executed once, over all readers of the
    sources; ``priced`` gives the kernel that contains a node."""
    total = 0.0
    for source in sources:
        readers = {id(reader): reader for reader in _restoring_readers(graph, source, priced)}
        if len(readers) > 1:
            shares = [_share(graph, source, reader, sizes) for reader in readers.values()]
            total += sum(shares) - max(shares)
    return total


def sources_of(graph: Graph, members: Iterable[NodeId]) -> Iterator[NodeId]:
    """The producers of the nodes' operands, skipping nodes that vanish when lowered."""
    for member in members:
        for value in graph.nodes[member].inputs:
            source = graph.nodes[value.node]
            while source.operator.name in TRANSPARENT:
                source = graph.nodes[source.inputs[0].node]
            yield source.id


def _restoring_readers(
    graph: Graph, source: NodeId, priced: Callable[[NodeId], Priced | None]
) -> Iterator[Priced]:
    for user in graph.users(source):
        if graph.nodes[user].operator.name in TRANSPARENT:
            yield from _restoring_readers(graph, user, priced)
            continue
        found = priced(user)
        if found is not None and found.price.restoring:
            yield found


def _share(graph: Graph, source: NodeId, reader: Priced, sizes: Sizes) -> float:
    """The part of a price that converts one of the tensors read, proportional to its bytes."""
    type_ = graph.nodes[source].types[0]
    if not isinstance(type_, TensorType):
        return 0.0
    blocked = sum(bytes_of(s.type) for s in reader.kernel.sources if s.blocked)
    return rounded(min(1.0, bytes_of(sizes.type(type_)) / blocked) * reader.price.restoring)


__all__ = ["counted_twice", "sources_of"]
