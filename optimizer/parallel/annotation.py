"""Write a plan as ONNX multi-device annotations: the device of each shard of each tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from superopt.ir.graph import Graph, Value, Weight
from superopt.ir.plan import Plan
from superopt.ir.types import TensorType
from superopt.onnx_io import LoweredModel
from superopt.onnx_io.annotations import NodeSharding, TensorSharding, annotated
from superopt.optimizer.parallel.placement import Placement, needed, produced
from superopt.optimizer.parallel.tasks import splits_of


def annotate(
    lowered: LoweredModel, graph: Graph, plan: Plan, configuration: str, devices: Sequence[str]
) -> LoweredModel:
    """The model with the machine mappings of the plan as ONNX multi-device annotations (IR version 11).
    ``lowered`` is the graph's; ``devices`` are the names of all devices of the cluster, by number. Partial
    sums cannot be annotated: the output is annotated as after the reduction, whole on every device that holds
    a term. Nodes without a mapping are not annotated. Raises InvalidModelError when the result violates
    ``superopt.onnx_io.annotations``."""
    values = {name: value for value, name in lowered.names.items()}
    staged = any(how.stage for how in plan.parallel.values())
    nodes: dict[str, NodeSharding] = {}
    for proto in lowered.proto.graph.node:
        made = [(name, values[name]) for name in proto.output if name in values]
        if not made or made[0][1].node not in plan.parallel:
            continue
        tensors = [
            *_inputs(proto.input, [value for _, value in made], values, graph, plan),
            *_outputs(made, graph, plan),
        ]
        stage = plan.parallel[made[0][1].node].stage if staged else None
        nodes[made[0][0]] = NodeSharding(tuple(tensors), stage)
    proto = annotated(lowered.proto, configuration, devices, nodes)
    return replace(lowered, proto=proto, unchanged=False)


def _outputs(made: Sequence[tuple[str, Value]], graph: Graph, plan: Plan) -> Iterator[TensorSharding]:
    for name, value in made:
        how = plan.parallel.get(value.node)
        type_ = graph.type_of(value)
        if how is not None and isinstance(type_, TensorType):
            yield _sharding(name, type_, produced(splits_of(graph, graph[value.node]), how, value.port))


def _inputs(
    names: Sequence[str],
    made: Sequence[Value],
    values: Mapping[str, Value],
    graph: Graph,
    plan: Plan,
) -> Iterator[TensorSharding]:
    """Placements required for the tensors read by this ONNX node, from the graph nodes that it represents."""
    read = {values[name]: name for name in names if name in values}
    found: set[str] = set()
    waiting = [value.node for value in made]
    seen = set(waiting)
    while waiting:
        node = graph[waiting.pop()]
        how = plan.parallel.get(node.id)
        splits = splits_of(graph, node)
        for slot, value in enumerate(node.inputs):
            operator = graph[value.node].operator
            name = read.get(value)
            if name is None and isinstance(operator, Weight) and operator.label in names:
                name = operator.label
            type_ = graph.type_of(value)
            if name is None:
                if value.node not in seen:
                    seen.add(value.node)
                    waiting.append(value.node)
            elif name not in found and how is not None and isinstance(type_, TensorType):
                found.add(name)
                yield _sharding(name, type_, needed(splits, how, slot))


def _sharding(name: str, type_: TensorType, placement: Placement) -> TensorSharding:
    groups = tuple(tuple(device for copies in terms for device in copies) for _, terms in placement.holders())
    return TensorSharding(name, type_, placement.degrees, groups)
