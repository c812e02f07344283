"""What a model consists of: operators, arithmetic, parameters, memory and the size of its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from superopt.ir.graph import Graph
from superopt.onnx_io import LoweredModel
from superopt.onnx_io.lifting.models import computes_sizes
from superopt.onnx_io.protos import STANDARD_DOMAINS, nodes_within
from superopt.ops.opaque import Opaque
from superopt.optimizer.cost import Flops, GraphCost, Sizes


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a model consists of, at the sizes that it was priced at. ``operators`` are the ONNX operators with
    their numbers of nodes, those of bodies among them; ``flops`` the arithmetic operations of one run,
    without those of the ``uncounted`` nodes, which are in bodies or have no operator in the algebra;
    ``parameters`` the numbers in weights, without integers of 32 and 64 bits, which are sizes and indices.
    ``activation_bytes`` is the largest set of tensors alive at once, inputs included, weights not."""

    nodes: int
    operators: Mapping[str, int]
    flops: int
    uncounted: int
    parameters: int
    weight_bytes: int
    activation_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Inventories:
    """The model that was optimised, and the returned one."""

    before: Inventory
    after: Inventory

    def to_json(self) -> dict[str, object]:
        """Both as JSON values."""
        return asdict(self)


def inventory_of(model: LoweredModel, graph: Graph, sizes: Sizes) -> Inventory:
    """The inventory of a model, whose graph is given, with numbers for symbolic sizes."""
    cost = GraphCost.of(graph, Flops(), sizes)
    operators = Counter(
        node.op_type if node.domain in STANDARD_DOMAINS else f"{node.domain}.{node.op_type}"
        for node in nodes_within(model.proto.graph)
    )
    return Inventory(
        nodes=operators.total(),
        operators=dict(sorted(operators.items())),
        flops=sum(priced.kernel.arithmetic for priced in cost.groups),
        uncounted=operators.total()
        - len(model.proto.graph.node)
        + sum(isinstance(node.operator, Opaque) and not computes_sizes(node.operator) for node in graph),
        parameters=model.parameters,
        weight_bytes=model.weight_bytes,
        activation_bytes=cost.memory.tensors,
        file_bytes=model.file_bytes,
    )
