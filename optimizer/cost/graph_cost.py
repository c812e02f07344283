"""The cost of a graph, kept up to date rewrite by rewrite: only what a rewrite touched is priced again."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from optimizer.cost.kernel import Kernel, Sizes, kernel_of
from optimizer.cost.objective import Objective, Price
from optimizer.fusion import group_of, is_free, partition
from superopt.ir.graph import Graph, Input, Node, NodeId
from superopt.ir.plan import FusionGroup
from superopt.rewriting import Rewrite

_MAX_KERNELS = 1 << 16
_MAX_REMEMBERED = 32
_TRANSPARENT = ("broadcast", "identity")


@dataclass(frozen=True, slots=True, eq=False)
class PricedGroup:
    """A group, the kernel that it is, and what that costs."""

    group: FusionGroup
    kernel: Kernel
    price: Price


@dataclass(frozen=True, eq=False)
class GraphCost:
    """What a graph costs under an objective. Nothing in it may be changed.

    ``free`` are the nodes that depend on weights alone, ``blocked`` those whose output lies in the runtime's
    own layout, ``owner`` the priced group of every other node.
    """

    graph: Graph
    objective: Objective
    sizes: Sizes
    total: float
    owner: Mapping[NodeId, PricedGroup]
    free: set[NodeId]
    blocked: set[NodeId]
    kernels: KernelMemo

    @staticmethod
    def of(
        graph: Graph, objective: Objective, sizes: Sizes, blocked_inputs: Iterable[NodeId] = ()
    ) -> GraphCost:
        """The cost of a whole graph; of some inputs it may be said that they come in the runtime's layout."""
        free = set(graph.weight_only)
        groups = partition(graph, free)
        blocked = set(blocked_inputs)
        owner: dict[NodeId, PricedGroup] = {}
        total = 0.0
        for group in _in_order(groups, graph.order):
            kernel = kernel_of(graph, group, free, blocked, sizes)
            priced = PricedGroup(group, kernel, objective.price(kernel))
            total += priced.price.cost
            owner.update((member, priced) for member in group.members)
            if priced.price.blocked:
                blocked.add(group.members[-1])
        return GraphCost(graph, objective, sizes, total, owner, free, blocked, KernelMemo())

    def after(self, rewrite: Rewrite, limit: float = math.inf) -> Update | None:
        """What the rewrite does to the cost; None when the result is certainly not below ``limit``."""
        update = Update(self, rewrite)
        return update if update.price(limit) else None

    def refreshed(self) -> GraphCost:
        """The same graph at the prices known now."""
        return GraphCost.of(self.graph, self.objective, self.sizes)

    @property
    def groups(self) -> tuple[PricedGroup, ...]:
        """Every group once, in the order of its first node."""
        return tuple({id(priced): priced for priced in self.owner.values()}.values())


class KernelMemo:
    """Kernels of groups by the nodes that they are cut out of: a rewrite leaves most of them as they were."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Kernel, tuple[Node, ...]]] = {}

    def kernel_of(
        self,
        graph: Graph,
        group: FusionGroup,
        free: Container[NodeId],
        blocked: Container[NodeId],
        sizes: Sizes,
    ) -> Kernel:
        """The kernel of a group, as ``kernel_of`` gives it."""
        nodes: list[Node] = []
        context: list[object] = []
        for member in group.members:
            node = graph.nodes[member]
            users = graph.users(member)
            if len(node.types) > 1 or len(nodes) > _MAX_REMEMBERED:
                return kernel_of(graph, group, free, blocked, sizes)
            context.append(member in graph.output_nodes or any(user not in group.members for user in users))
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
        """Notes the node, and of what it reads all that has a say in the kernel."""
        nodes.append(node)
        for value in node.inputs:
            source = graph.nodes[value.node]
            is_free = value.node in free
            if source.operator.name == "broadcast" or (source.operator.name == "identity" and not is_free):
                self._look(graph, source, free, blocked, nodes, context)
            context.append((is_free, value.node in blocked))


class _Overlay:
    """A set of nodes with changes on top; the set itself stays as it is."""

    __slots__ = ("base", "changed")

    def __init__(self, base: set[NodeId]) -> None:
        self.base = base
        self.changed: dict[NodeId, bool] = {}

    def __contains__(self, node_id: object) -> bool:
        changed = self.changed.get(cast("NodeId", node_id))
        return node_id in self.base if changed is None else changed

    def without(self, removed: Iterable[NodeId]) -> set[NodeId]:
        """The set with the changes made and some nodes left out."""
        result = self.base.difference(removed)
        for node_id, is_member in self.changed.items():
            (result.add if is_member else result.discard)(node_id)
        return result


class Update:
    """What one rewrite does to a cost: the new ``total`` at once, the new ``GraphCost`` on demand."""

    def __init__(self, before: GraphCost, rewrite: Rewrite) -> None:
        self.total = math.inf
        self._before = before
        self._rewrite = rewrite
        self._graph = rewrite.graph
        self._free = _Overlay(before.free)
        self._blocked = _Overlay(before.blocked)
        self._owner: dict[NodeId, PricedGroup] = {}
        self._taken: dict[int, PricedGroup] = {}
        self._seeds: list[NodeId] = []
        self._groups: dict[NodeId, FusionGroup] = {}

    def price(self, limit: float) -> bool:
        """Prices what changed; False when the new cost is certainly not below the limit."""
        self._update_free()
        self._touch()
        self._regroup()
        rest = self._before.total - sum(priced.price.cost for priced in self._taken.values())
        order = _in_order(self._groups, _local_order(self._graph, self._groups))
        if limit < math.inf and self._bound(order) + rest >= limit:
            return False
        self._price(order, rest)
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
        )

    def _update_free(self) -> None:
        """Which nodes depend on weights alone, followed downwards from what changed."""
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
        """Every group that lost or gained a member, an operand or a reader."""
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
        """The group that makes a value, looked for behind steps that vanish when lowered."""
        node = self._before.graph.nodes.get(node_id)
        while node is not None and node.operator.name in _TRANSPARENT and node.id not in self._before.free:
            node = self._before.graph.nodes.get(node.inputs[0].node)
        if node is not None:
            self._take(node.id)

    def _touch_readers(self, node_id: NodeId) -> None:
        for user in self._graph.users(node_id):
            self._take(user)
            if self._graph.nodes[user].operator.name in _TRANSPARENT:
                self._touch_readers(user)

    def _regroup(self) -> None:
        """Groups of everything touched; what a new group takes from an untouched one touches that one."""
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
        """What the new groups cost at least, nothing measured."""
        before = self._before
        blocked = _Overlay(before.blocked)
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
            total += price.cost
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

    def _owner_of(self, node_id: NodeId) -> PricedGroup | None:
        """The priced group of a node, unless it was taken and not priced again yet."""
        found = self._owner.get(node_id)
        if found is not None:
            return found
        found = self._before.owner.get(node_id)
        return None if found is None or id(found) in self._taken else found

    def _readers_elsewhere(self, node_id: NodeId, group: FusionGroup) -> Iterable[FusionGroup]:
        """Groups already priced that read the node and now find it in another layout."""
        found: dict[int, FusionGroup] = {}
        for user in self._graph.users(node_id):
            if self._graph.nodes[user].operator.name in _TRANSPARENT:
                found.update((id(g), g) for g in self._readers_elsewhere(user, group))
                continue
            owner = self._owner_of(user)
            if owner is not None and user not in group.members:
                found[id(owner.group)] = owner.group
        return found.values()


def _in_order(groups: Mapping[NodeId, FusionGroup], order: Iterable[NodeId]) -> list[FusionGroup]:
    """Distinct groups, each where its last member stands in the order."""
    position = {node_id: index for index, node_id in enumerate(order)}
    distinct = {id(group): group for group in groups.values()}.values()
    return sorted(distinct, key=lambda group: max(position[member] for member in group.members))


def _local_order(graph: Graph, groups: Mapping[NodeId, FusionGroup]) -> list[NodeId]:
    """The nodes of the groups, operands first; ties by id."""
    ordered: list[NodeId] = []
    done: set[NodeId] = set()
    for start in sorted(groups):
        stack = [(start, False)]
        while stack:
            node_id, ready = stack.pop()
            if ready:
                ordered.append(node_id)
                continue
            if node_id in done or node_id not in groups:
                continue
            done.add(node_id)
            stack.append((node_id, True))
            stack.extend((value.node, False) for value in graph.nodes[node_id].inputs)
    return ordered
