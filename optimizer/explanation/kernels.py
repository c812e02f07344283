"""The most expensive kernels of a graph, with the ONNX nodes that they execute, and the arithmetic of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from superopt.ir.graph import Graph, Node
from superopt.onnx_io import LiftedModel
from superopt.ops.base import Operator
from superopt.ops.opaque import Opaque
from superopt.optimizer.cost import GraphCost, Kernel, Latency, PricedGroup

_SHOWN = 20
_NODES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node by its ONNX name and operator; the name is empty for nodes created by rewriting."""

    name: str
    op_type: str


@dataclass(frozen=True, slots=True)
class KernelCost:
    """A class of equal kernels: operators, result, cost of each, count. ``share`` is their part of the total;
    ``nodes`` are the first nodes in them; ``flops`` are the arithmetic operations of one, None where a node
    has no operator in the algebra."""

    operators: str
    type: str
    cost: float
    count: int
    total: float
    share: float
    nodes: tuple[OnnxNode, ...]
    node_count: int
    flops: int | None


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Kernels by decreasing cost; ``others`` kernels are left out, with the cost ``others_total``
    together.

    ``flops`` are the arithmetic operations of all kernels; one with a node that has no operator counts as 0.
    ``peak`` is the machine's measured rate, in FLOP per microsecond; None for costs not measured here."""

    kernels: tuple[KernelCost, ...]
    others: int
    others_total: float
    flops: int
    peak: float | None

    def to_json(self) -> dict[str, object]:
        """The table as JSON values."""
        return asdict(self)


def slowest_kernels(cost: GraphCost, lifted: LiftedModel) -> KernelTable:
    """The kernels of a graph by the total cost of equal ones."""
    groups: dict[Kernel, list[PricedGroup]] = {}
    for priced in cost.groups:
        groups.setdefault(priced.kernel, []).append(priced)
    ordered = sorted(groups.values(), key=lambda equal: -_total(equal))
    return KernelTable(
        tuple(_kernel_cost(equal, cost, lifted) for equal in ordered[:_SHOWN]),
        sum(len(equal) for equal in ordered[_SHOWN:]),
        sum(_total(equal) for equal in ordered[_SHOWN:]),
        sum(_flops(priced.kernel) or 0 for priced in cost.groups),
        cost.objective.roofline.flops if isinstance(cost.objective, Latency) else None,
    )


def onnx_node(node: Node, lifted: LiftedModel) -> OnnxNode:
    """The ONNX node that a node of a graph came from."""
    if node.origin is None:
        form = node.operator.onnx if isinstance(node.operator, Operator) else None
        return OnnxNode("", node.operator.name if form is None else form.op_type)
    proto = lifted.source.proto.graph.node[node.origin]
    name = proto.name or next((output for output in proto.output if output), f"#{node.origin}")
    return OnnxNode(name, proto.op_type)


def operator_name(node: Node) -> str:
    """The operator's name in rules; for an opaque node the ONNX operator."""
    return node.operator.op_type if isinstance(node.operator, Opaque) else node.operator.name


def _kernel_cost(equal: list[PricedGroup], cost: GraphCost, lifted: LiftedModel) -> KernelCost:
    first = equal[0]
    nodes = dict.fromkeys(
        onnx_node(cost.graph.nodes[member], lifted) for priced in equal for member in priced.group.members
    )
    named: Mapping[OnnxNode, None] = {node: None for node in nodes if node.name} or nodes
    total = _total(equal)
    return KernelCost(
        operators=_operators(cost.graph, first),
        type=", ".join(str(type_) for type_ in first.kernel.output_types),
        cost=first.price.cost,
        count=len(equal),
        total=total,
        share=total / cost.total if cost.total else 0.0,
        nodes=tuple(named)[:_NODES_SHOWN],
        node_count=len(named),
        flops=_flops(first.kernel),
    )


def _flops(kernel: Kernel) -> int | None:
    return None if kernel.opaque else kernel.flops


def _operators(graph: Graph, priced: PricedGroup) -> str:
    return " + ".join(operator_name(graph.nodes[member]) for member in priced.group.members)


def _total(groups: Iterable[PricedGroup]) -> float:
    return sum(priced.price.cost for priced in groups)
