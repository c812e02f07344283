"""Incremental graph cost: after a rewrite only the affected kernels are priced again."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from superopt.ir.graph import Graph, Input, NodeId
from superopt.ir.plan import FusionGroup
from superopt.optimizer.cost.deltas import Overlay, in_order, local_order
from superopt.optimizer.cost.kernels.conversions import counted_twice, sources_of
from superopt.optimizer.cost.kernels.extraction import kernel_of
from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.kernels.memo import KernelMemo
from superopt.optimizer.cost.memory import Memory, MemoryLimit, memory_of
from superopt.optimizer.cost.objective import Objective, Price, WeighsMemory
from superopt.optimizer.cost.sizes import Sizes
from superopt.optimizer.fusion import TRANSPARENT, group_of, is_free, partition
from superopt.rewriting import Rewrite


@dataclass(frozen=True, slots=True, eq=False)
class PricedGroup:
    """A fusion group with its kernel and price."""

    group: FusionGroup
    kernel: Kernel
    price: Price


@dataclass(frozen=True, eq=False)
class GraphCost:
    """Immutable cost of a graph under an objective. ``total`` is the sum of all prices, minus conversions
    counted more than once, plus the objective's cost of the graph as a ``whole`` and the ``penalty`` for
    exceeding a memory ``limit``. ``free`` are the nodes that depend on weights alone, ``blocked`` those whose
    output is in the runtime's blocked layout, ``owner`` the priced group of every other node."""

    graph: Graph
    objective: Objective
    sizes: Sizes
    total: float
    owner: Mapping[NodeId, PricedGroup]
    free: set[NodeId]
    blocked: set[NodeId]
    kernels: KernelMemo
    limit: MemoryLimit | None = None
    whole: float = 0.0
    penalty: float = 0.0

    @staticmethod
    def of(
        graph: Graph,
        objective: Objective,
        sizes: Sizes,
        blocked_inputs: Iterable[NodeId] = (),
        limit: MemoryLimit | None = None,
    ) -> GraphCost:
        """The cost of a whole graph under a memory limit; ``blocked`` inputs arrive in the runtime's
        layout."""
        free = set(graph.weight_only)
        groups = partition(graph, free)
        blocked = set(blocked_inputs)
        owner: dict[NodeId, PricedGroup] = {}
        total = 0.0
        for group in in_order(groups, graph.order):
            kernel = kernel_of(graph, group, free, blocked, sizes)
            priced = PricedGroup(group, kernel, objective.price(kernel))
            total += priced.price.cost
            owner.update((member, priced) for member in group.members)
            if priced.price.blocked:
                blocked.add(group.members[-1])
        total -= counted_twice(graph, blocked, owner.get, sizes)
        whole = penalty = 0.0
        if limit is not None or isinstance(objective, WeighsMemory):
            memory = memory_of(graph, free, groups.get, sizes)
            whole = objective.whole(memory) if isinstance(objective, WeighsMemory) else 0.0
            penalty = 0.0 if limit is None else limit.penalty(memory)
        return GraphCost(
            graph,
            objective,
            sizes,
            total + whole + penalty,
            owner,
            free,
            blocked,
            KernelMemo(),
            limit,
            whole,
            penalty,
        )

    def after(self, rewrite: Rewrite, limit: float = math.inf) -> Update | None:
        """The cost update of a rewrite; None when the new cost is certainly not below ``limit``."""
        update = Update(self, rewrite)
        return update if update.price(limit) else None

    def refreshed(self) -> GraphCost:
        """The same graph at current prices."""
        again = GraphCost.of(self.graph, self.objective, self.sizes, limit=self.limit)
        return replace(again, kernels=self.kernels)

    @property
    def memory(self) -> Memory:
        """Peak memory of the graph."""
        return self.memory_beside(())

    def memory_beside(self, placed: Collection[int]) -> Memory:
        """Peak memory of the graph if the caller has that of the outputs with these numbers."""
        owner = self.owner
        return memory_of(
            self.graph,
            self.free,
            lambda node: owner[node].group if node in owner else None,
            self.sizes,
            placed,
        )

    @property
    def groups(self) -> tuple[PricedGroup, ...]:
        """Every group once, in the order of its first node."""
        return self._groups_of(self.owner)

    def price_of(self, nodes: Iterable[NodeId]) -> float:
        """The price of all groups that contain some of the nodes."""
        return sum(priced.price.cost for priced in self._groups_of(nodes))

    def _groups_of(self, nodes: Iterable[NodeId]) -> tuple[PricedGroup, ...]:
        found = (self.owner[node] for node in nodes if node in self.owner)
        return tuple({id(priced): priced for priced in found}.values())


class Update:
    """Cost update for one rewrite: computes the new ``total`` immediately, the new ``GraphCost`` on
    demand."""

    def __init__(self, before: GraphCost, rewrite: Rewrite) -> None:
        self.total = math.inf
        self._whole = self._penalty = 0.0
        self._before = before
        self._rewrite = rewrite
        self._graph = rewrite.graph
        self._free = Overlay(before.free)
        self._blocked = Overlay(before.blocked)
        self._owner: dict[NodeId, PricedGroup] = {}
        self._taken: dict[int, PricedGroup] = {}
        self._seeds: list[NodeId] = []
        self._groups: dict[NodeId, FusionGroup] = {}

    @property
    def free(self) -> Container[NodeId]:
        """The nodes that depend on weights alone, some of the earlier graph among them."""
        return self._free

    def price(self, limit: float) -> bool:
        """Prices what changed; False when the new cost is certainly not below the limit."""
        self._update_free()
        self._touch()
        self._regroup()
        before = self._before
        rest = before.total - before.whole - before.penalty
        rest -= sum(priced.price.cost for priced in self._taken.values())
        order = in_order(self._groups, local_order(self._graph, self._groups))
        if limit < math.inf and self._bound(order) + rest >= limit:
            return False
        self._price(order, rest)
        self._share_conversions()
        if before.limit is not None or isinstance(before.objective, WeighsMemory):
            self._weigh()
        return True

    def build(self) -> GraphCost:
        """The cost of the rewritten graph, complete."""
        before = self._before
        owner = dict(before.owner)
        for priced in self._taken.values():
            for member in priced.group.members:
                owner.pop(member, None)
        owner.update(self._owner)
        removed = self._rewrite.removed
        return GraphCost(
            graph=self._graph,
            objective=before.objective,
            sizes=before.sizes,
            total=self.total,
            owner=owner,
            free=self._free.without(removed),
            blocked=self._blocked.without(removed),
            kernels=before.kernels,
            limit=before.limit,
            whole=self._whole,
            penalty=self._penalty,
        )

    def _update_free(self) -> None:
        """Updates the nodes that depend on weights alone, downstream of the change."""
        graph, free = self._graph, self._free
        added = set(self._rewrite.added)
        flipped: dict[NodeId, None] = {}
        waiting = list(dict.fromkeys((*self._rewrite.added, *self._rewired())))
        for node_id in waiting:
            node = graph.nodes[node_id]
            depends_on_weights = (
                not isinstance(node.operator, Input)
                and getattr(node.operator, "foldable", True)
                and all(value.node in free for value in node.inputs)
            )
            if depends_on_weights == (node_id in free):
                continue
            free.changed[node_id] = depends_on_weights
            flipped[node_id] = None
            waiting.extend(graph.users(node_id))
            if node_id not in added:
                self._seeds.append(node_id)
                self._take(node_id)
        for node_id in flipped:
            self._touch_readers(node_id)

    def _rewired(self) -> Iterable[NodeId]:
        for value in self._rewrite.replaced.values():
            yield from (user for user in self._graph.users(value.node))

    def _touch(self) -> None:
        """Marks every group that lost or gained a member, an operand or a reader."""
        graph, rewrite = self._graph, self._rewrite
        old = self._before.graph
        for node_id in rewrite.removed:
            self._take(node_id)
            for value in old.nodes[node_id].inputs:
                self._take_source(value.node)
        for node_id in rewrite.added:
            self._seeds.append(node_id)
            for value in graph.nodes[node_id].inputs:
                self._take_source(value.node)
        for before, after in rewrite.replaced.items():
            self._take_source(before.node)
            self._take_source(after.node)
            self._touch_readers(after.node)

    def _take(self, node_id: NodeId) -> None:
        priced = self._before.owner.get(node_id)
        if priced is not None and id(priced) not in self._taken:
            self._taken[id(priced)] = priced
            self._seeds.extend(priced.group.members)

    def _take_source(self, node_id: NodeId) -> None:
        """Marks the group that produces a value, skipping nodes that vanish when lowered."""
        node = self._before.graph.nodes.get(node_id)
        while node is not None and node.operator.name in TRANSPARENT and node.id not in self._before.free:
            node = self._before.graph.nodes.get(node.inputs[0].node)
        if node is not None:
            self._take(node.id)

    def _touch_readers(self, node_id: NodeId) -> None:
        for user in self._graph.users(node_id):
            self._take(user)
            if self._graph.nodes[user].operator.name in TRANSPARENT:
                self._touch_readers(user)

    def _regroup(self) -> None:
        """Regroups all marked nodes; a group that loses a node to a new group is marked too."""
        graph = self._graph
        while self._seeds:
            node_id = self._seeds.pop()
            node = graph.nodes.get(node_id)
            if node is None or node_id in self._groups or is_free(node, self._free):
                continue
            group = group_of(graph, node_id, self._free)
            for member in group.members:
                self._groups[member] = group
                self._take(member)

    def _bound(self, order: Iterable[FusionGroup]) -> float:
        """Lower bound on the cost of the new groups, without measuring."""
        before = self._before
        blocked = Overlay(before.blocked)
        unsure: set[NodeId] = set()
        total = 0.0
        for group in order:
            kernel = before.kernels.kernel_of(self._graph, group, self._free, blocked, before.sizes)
            sources = {value.node for m in group.members for value in self._graph.nodes[m].inputs}
            price = None if sources & unsure else before.objective.known(kernel)
            last = group.members[-1]
            if price is None:
                unsure.add(last)
                total += before.objective.bound(kernel)
                continue
            blocked.changed[last] = price.blocked
            total += price.cost - price.restoring
        return total

    def _price(self, order: list[FusionGroup], rest: float) -> None:
        before, graph, blocked = self._before, self._graph, self._blocked
        self.total = rest
        waiting = list(order)
        for group in waiting:
            last = group.members[-1]
            previous = self._owner_of(last)
            kernel = before.kernels.kernel_of(graph, group, self._free, blocked, before.sizes)
            priced = PricedGroup(group, kernel, before.objective.price(kernel))
            self.total += priced.price.cost - (previous.price.cost if previous is not None else 0.0)
            self._owner.update((member, priced) for member in group.members)
            if priced.price.blocked != (last in blocked):
                blocked.changed[last] = priced.price.blocked
                waiting.extend(self._readers_elsewhere(last, group))

    def _share_conversions(self) -> None:
        """Updates the correction for conversions counted more than once, for operands of old and new
        groups."""
        before, graph = self._before, self._graph
        sources = {
            source
            for priced in self._taken.values()
            for source in sources_of(before.graph, priced.group.members)
        }
        sources.update(sources_of(graph, self._owner))
        old = [source for source in sources if source in before.blocked and source in before.graph.nodes]
        new = [source for source in sources if source in self._blocked and source in graph.nodes]
        self.total += counted_twice(before.graph, old, before.owner.get, before.sizes)
        self.total -= counted_twice(graph, new, self._owner_of, before.sizes)

    def _weigh(self) -> None:
        """Adds the cost that depends on the memory of the whole graph."""
        before = self._before

        def group(node_id: NodeId) -> FusionGroup | None:
            found = self._owner_of(node_id)
            return None if found is None else found.group

        memory = memory_of(self._graph, self._free, group, before.sizes)
        if isinstance(before.objective, WeighsMemory):
            self._whole = before.objective.whole(memory)
        self._penalty = 0.0 if before.limit is None else before.limit.penalty(memory)
        self.total += self._whole + self._penalty

    def _owner_of(self, node_id: NodeId) -> PricedGroup | None:
        """The priced group of a node, unless it was removed and not priced again yet."""
        found = self._owner.get(node_id)
        if found is not None:
            return found
        found = self._before.owner.get(node_id)
        return None if found is None or id(found) in self._taken else found

    def _readers_elsewhere(self, node_id: NodeId, group: FusionGroup) -> Iterable[FusionGroup]:
        """Priced groups that read the node, whose layout has changed."""
        found: dict[int, FusionGroup] = {}
        for user in self._graph.users(node_id):
            if self._graph.nodes[user].operator.name in TRANSPARENT:
                found.update((id(g), g) for g in self._readers_elsewhere(user, group))
                continue
            owner = self._owner_of(user)
            if owner is not None and user not in group.members:
                found[id(owner.group)] = owner.group
        return found.values()
