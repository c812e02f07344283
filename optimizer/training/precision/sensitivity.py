"""Which operators may run in low precision, by their traits (RAF, section 3.1.2)."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from superopt.ir.graph import Graph, GraphOperator, Node, NodeId, Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops import Opaque, Operator
from superopt.ops.elementwise.precision import Cast


class Sensitivity(enum.StrEnum):
    """Where an operator runs: always in low precision; as its operands do; never."""

    ALWAYS = "always"
    INFER = "infer"
    NEVER = "never"


def sensitivity_of(operator: GraphOperator) -> Sensitivity:
    """Products of two tensors, convolutions and their gradients always; never what sums without multiplying,
    is undefined for some numbers (quotients, roots, logarithms), overflows (exponentials), or normalises;
    other element-wise operators and those that move or compare elements as their operands."""
    if not isinstance(operator, Operator) or isinstance(operator, Opaque):
        return Sensitivity.NEVER
    if is_product(operator):
        return Sensitivity.ALWAYS
    if operator.moves or (operator.windowed and operator.comparing):
        return Sensitivity.INFER
    if operator.overflows or not type(operator).is_total({}) or isinstance(operator, Cast):
        return Sensitivity.NEVER
    is_by_element = operator.element_wise or operator.per_channel
    return Sensitivity.INFER if is_by_element else Sensitivity.NEVER


def is_product(operator: GraphOperator) -> bool:
    """Whether it sums products of the elements of two tensors."""
    if not isinstance(operator, Operator) or operator.element_wise or operator.per_channel:
        return False
    return operator.product is not None or {0, 1} <= {
        slot for slots in operator.linear_in for slot in slots if len(slots) == 1
    }


def keeps_format(operator: GraphOperator) -> bool:
    """Whether the results for operands in a number format are numbers of that format."""
    if not isinstance(operator, Operator):
        return False
    return operator.moves or (operator.comparing and operator.monotone and operator.keeps_zero)


def fuses_casts(operator: GraphOperator) -> bool:
    """Whether a compiler can put a conversion of an operand into the operator's kernel: those that are no
    products, which libraries compute on operands of one type."""
    return isinstance(operator, Operator) and not isinstance(operator, Opaque) and not is_product(operator)


def is_float32(graph: Graph, value: Value) -> bool:
    """Whether the value is a float32 tensor with at least one axis; numbers stay in the precision of the
    kernel that reads them."""
    type_ = graph.type_of(value)
    return isinstance(type_, TensorType) and type_.element is ElementType.FLOAT and type_.rank > 0


def may_be_low(graph: Graph, node: Node) -> bool:
    """Whether a node computes float32 tensors with an operator that may run in low precision."""
    return (
        sensitivity_of(node.operator) is not Sensitivity.NEVER
        and bool(node.inputs)
        and all(is_float32(graph, value) for value in node.values)
        and any(is_float32(graph, value) for value in node.inputs)
        and node.id not in graph.weight_only
    )


def by_list(graph: Graph, region: Iterable[NodeId]) -> frozenset[NodeId]:
    """The nodes of a region in low precision by the list of operators alone: products, and what reads
    results in low precision and none in float32 but graph inputs and constants."""
    allowed = frozenset(region)
    low: set[NodeId] = set()
    for node_id in graph.order:
        node = graph[node_id]
        if node_id not in allowed or not may_be_low(graph, node):
            continue
        computed = [value for value in node.inputs if is_float32(graph, value) and _is_computed(graph, value)]
        follows = bool(computed) and all(value.node in low for value in computed)
        if sensitivity_of(node.operator) is Sensitivity.ALWAYS or follows:
            low.add(node_id)
    return frozenset(low)


def _is_computed(graph: Graph, value: Value) -> bool:
    return bool(graph[value.node].inputs) and value.node not in graph.weight_only
