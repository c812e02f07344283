"""A terminating order on graphs, for rules applied without search: every step makes the graph smaller.

Compared are, in this order: the operations of products, passes over memory, the operators that run, the
elements that they write, those of them that are no polynomial, and their operands. Each is a whole number, so
that no sequence of decreasing steps is infinite. What depends on weights alone is folded before the run and
counts nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from superopt.ir.graph import Graph, Input, Node, NodeId, Value
from superopt.ir.terms import Application, Term, Variable, applications, subterms, variables
from superopt.ir.types import TensorType
from superopt.ops.base import Operator
from superopt.ops.roles import FusionRole
from superopt.ops.traits import sums_products, traits
from superopt.optimizer.cost import GraphCost, Launches
from superopt.optimizer.cost.graph_cost import Update
from superopt.optimizer.cost.kernels.extraction import SMALL_WEIGHTS
from superopt.optimizer.cost.kernels.kernel import Kernel
from superopt.optimizer.cost.machine import bytes_of, number_of
from superopt.optimizer.cost.objective import Price, is_free
from superopt.optimizer.fusion import TRANSPARENT
from superopt.rewriting import Rewrite, Substitution

_TENSOR, _SIDE = 2, 1
"""Weights of an operand of full size, and of a number or vector beside it."""

_FUSED = frozenset(FusionRole) - {FusionRole.TRANSPARENT}
"""Roles of operators that may belong to the kernel of a product."""


class Size(NamedTuple):
    """The size of a part of a graph, compared lexicographically."""

    product_flops: int = 0
    passes: int = 0
    operators: int = 0
    elements: int = 0
    irrational: int = 0
    operands: int = 0

    def plus(self, other: Size) -> Size:
        """The sum of two sizes."""
        return Size(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: Size) -> Size:
        """The difference of two sizes."""
        return Size(*(a - b for a, b in zip(self, other, strict=True)))


_NOTHING = Size()

_EVEN = 4
"""Number of parts of a size that a step must not change if another is to make the graph smaller."""


class Passes(Launches):
    """Passes over memory: one for a product with what is folded into it, else one for each operator. Whether
    the runtime fuses operators around a gate is not relied on."""

    def known(self, kernel: Kernel) -> Price:
        """Return the number of passes; none for a kernel that only reshapes a tensor."""
        operators = [
            s.operator.name for s in kernel.steps if s.operands and s.operator.name not in TRANSPARENT
        ]
        if is_free(kernel) or any(map(sums_products, operators)):
            return super().known(kernel)
        return Price(float(max(1, len(operators))))


class Sized:
    """A graph at concrete sizes of its tensors, compared with its rewrites; ``cost`` counts passes."""

    def __init__(self, cost: GraphCost) -> None:
        self.cost = cost if isinstance(cost.objective, Passes) else _passes(cost)

    @property
    def size(self) -> Size:
        """The size of the whole graph."""
        own = self._sum(self.cost.graph, self.cost.graph.nodes, self.cost.free)
        return own.plus(Size(passes=round(self.cost.total)))

    def smaller(self, rewrite: Rewrite, grown: Size = _NOTHING) -> Sized | None:
        """The rewritten graph if it is smaller and stores no large constants instead. Steps before may have
        ``grown`` the graph."""
        update = self._update(rewrite)
        if self._growth(rewrite, update).plus(grown) >= _NOTHING or self._stores(rewrite, update):
            return None
        return Sized(update.build())

    def even(self, rewrite: Rewrite) -> Even | None:
        """The rewritten graph if it has no more products, passes, operators and elements than before, and
        stores no large constants instead."""
        update = self._update(rewrite)
        growth = self._growth(rewrite, update)
        if any(growth[:_EVEN]) or self._stores(rewrite, update):
            return None
        return Even(growth, update)

    def _update(self, rewrite: Rewrite) -> Update:
        update = self.cost.after(rewrite)
        assert update is not None, "without a limit there is always a cost"
        return update

    def _growth(self, rewrite: Rewrite, update: Update) -> Size:
        """The size of what is added less that of what is removed. Nodes that become folded behind the rewrite
        make the graph smaller still."""
        before = self._sum(self.cost.graph, rewrite.removed, self.cost.free)
        after = self._sum(rewrite.graph, rewrite.added, update.free)
        return after.minus(before).plus(Size(passes=round(update.total - self.cost.total)))

    def _sum(self, graph: Graph, nodes: Iterable[NodeId], free: Container[NodeId]) -> Size:
        total = _NOTHING
        for node_id in nodes:
            if node_id not in free:
                total = total.plus(self._of_node(graph, graph.nodes[node_id]))
        return total

    def _of_node(self, graph: Graph, node: Node) -> Size:
        operator = node.operator
        if isinstance(operator, Input) or operator.name in TRANSPARENT:
            return _NOTHING
        sizes, own = self.cost.sizes, traits(operator.name)
        types = [sizes.type(type_) for type_ in node.types if isinstance(type_, TensorType)]
        return Size(
            product_flops=self._product_flops(graph, node),
            operators=1,
            elements=sum(number_of(type_.elements) for type_ in types),
            irrational=int(not _is_polynomial(operator.name)),
            operands=_operands(len(node.inputs), own),
        )

    def _product_flops(self, graph: Graph, node: Node) -> int:
        operator, sizes = node.operator, self.cost.sizes
        if not sums_products(operator.name) or not isinstance(operator, Operator):
            return 0
        types = (*map(graph.type_of, node.inputs), *node.types)
        known = [sizes.type(type_) for type_ in types if isinstance(type_, TensorType)]
        if len(known) < len(types):
            return 0
        inputs, outputs = tuple(known[: len(node.inputs)]), tuple(known[len(node.inputs) :])
        return number_of(sizes.operator(operator).work(inputs, outputs).flops)

    def _stores(self, rewrite: Rewrite, update: Update) -> bool:
        """Whether large constants are read after the rewrite that were not before."""
        before, after = self.cost.graph, rewrite.graph
        rewired = {user for value in rewrite.replaced.values() for user in after.users(value.node)}
        old = [*rewrite.removed, *(node for node in rewired if node in before.nodes)]
        more = self._stored(after, {*rewrite.added, *rewired}, update.free)
        return more - self._stored(before, old, self.cost.free) > SMALL_WEIGHTS

    def _stored(self, graph: Graph, nodes: Iterable[NodeId], free: Container[NodeId]) -> int:
        """Bytes of the constants that the nodes read."""
        read = {
            _stored_value(graph, value)
            for node in nodes
            if node not in free
            for value in graph.nodes[node].inputs
            if value.node in free
        }
        types = (graph.type_of(value) for value in read)
        return sum(bytes_of(self.cost.sizes.type(type_)) for type_ in types if isinstance(type_, TensorType))


@dataclass(frozen=True, eq=False)
class Even:
    """A rewritten graph that is about as large as before: by how much it has grown, and its cost."""

    growth: Size
    update: Update

    @cached_property
    def sized(self) -> Sized:
        """The graph."""
        return Sized(self.update.build())

    @property
    def free(self) -> Container[NodeId]:
        """The nodes of the graph that depend on weights alone."""
        return self.update.free

    def smaller(self, rewrite: Rewrite) -> Sized | None:
        """The graph after another rewrite if it is smaller than before both."""
        return self.sized.smaller(rewrite, self.growth)


def _passes(cost: GraphCost) -> GraphCost:
    return GraphCost.of(cost.graph, Passes(), cost.sizes)


def _stored_value(graph: Graph, value: Value) -> Value:
    """The constant that is stored for an operand: what is only repeated is stored once."""
    while traits(graph.nodes[value.node].operator.name).repeats:
        value = graph.nodes[value.node].inputs[0]
    return value


class _Terms(NamedTuple):
    """What is known of the size of terms."""

    products: int
    operators: int
    irrational: int
    operands: int
    fused: int


@lru_cache(maxsize=1 << 16)
def may_decrease(substitution: Substitution, folded: frozenset[str]) -> bool:
    """Whether the terms allow the target to be smaller than the source where the variables ``folded`` depend
    on weights alone and nothing else reads what is inside the source. Terms of equal size may differ in what
    the runtime fuses with a product. Whether what rounds more is worth it only measuring says."""
    if _rounds_more(substitution):
        return False
    source, target = (_size_of(terms, folded) for terms in (substitution.source, substitution.target))
    if source[:-1] == target[:-1]:
        return bool(source.products and source.fused) and substitution.source != substitution.target
    return target < source


@lru_cache(maxsize=1 << 16)
def may_be_even(substitution: Substitution, folded: frozenset[str]) -> bool:
    """Whether the terms have as many products and operators in the target as in the source, and no larger
    rounding errors."""
    if _rounds_more(substitution):
        return False
    source, target = (_size_of(terms, folded) for terms in (substitution.source, substitution.target))
    return source[:2] == target[:2] and substitution.source != substitution.target


@lru_cache(maxsize=1 << 14)
def can_decrease(substitution: Substitution) -> bool:
    """Whether the rule may make some graph smaller, whatever depends on weights alone there."""
    return any(may_decrease(substitution, folded) for folded in _foldings(substitution))


@lru_cache(maxsize=1 << 14)
def can_be_even(substitution: Substitution) -> bool:
    """Whether the rule may be even in some graph."""
    return any(may_be_even(substitution, folded) for folded in _foldings(substitution))


def _foldings(substitution: Substitution) -> Iterator[frozenset[str]]:
    """All sets of its variables but the whole: something runs."""
    names = variables(*substitution.source)
    for count in range(max(len(names), 1)):
        yield from map(frozenset, itertools.combinations(names, count))


def _rounds_more(substitution: Substitution) -> bool:
    return any(traits(term.operator).rounds_more for term in applications(*substitution.target))


def _size_of(terms: Iterable[Term], folded: frozenset[str]) -> _Terms:
    products = operators = irrational = operands = fused = 0
    runs: set[Term] = set()
    halved: set[tuple[object, ...]] = set()
    for term in subterms(*terms):
        if isinstance(term, Variable):
            if term.name not in folded:
                runs.add(term)
            continue
        if runs.isdisjoint(term.inputs):
            continue
        runs.add(term)
        own = traits(term.operator)
        if term.operator in TRANSPARENT or _is_other_half(term, halved):
            continue
        products += sums_products(term.operator)
        fused += own.role in _FUSED
        operators += 1
        irrational += not _is_polynomial(term.operator)
        operands += _operands(len(term.inputs), own)
    return _Terms(products, operators, irrational, operands, fused)


def _is_polynomial(operator: str) -> bool:
    return traits(operator).polynomial or sums_products(operator)


def _operands(inputs: int, own: type[Operator]) -> int:
    return _TENSOR * (inputs - own.side_inputs) + _SIDE * own.side_inputs


def _is_other_half(term: Application, halved: set[tuple[object, ...]]) -> bool:
    """Whether a graph has one operator for this half of a tensor and the other."""
    if traits(term.operator).half is None:
        return False
    key = (term.attributes, term.inputs)
    is_known = key in halved
    halved.add(key)
    return is_known
