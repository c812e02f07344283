"""Multi-device annotations of ONNX (IR version 11): writer and strict validator.

The ONNX checker and ONNX Runtime do not validate them. A specification is read strictly here: devices are
indices into the configuration, a negative number is a group with an entry in the map, every shard of a tensor
has one entry, no device holds two shards of one tensor, and sizes are multiples of their shard counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from superopt.errors import InvalidModelError
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.sizes.inference import infer_types

IR_WITH_ANNOTATIONS = 11


@dataclass(frozen=True, slots=True)
class TensorSharding:
    """Sharding of one tensor of a node. Axis i is divided into ``degrees[i]`` equal parts; ``groups`` holds
    for every part, row-major, the devices that hold it."""

    tensor: str
    type: TensorType
    degrees: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class NodeSharding:
    """Shardings of a node's tensors, and its pipeline stage if there are several."""

    tensors: tuple[TensorSharding, ...]
    stage: int | None = None


def annotated(
    model: onnx.ModelProto, configuration: str, devices: Sequence[str], nodes: Mapping[str, NodeSharding]
) -> onnx.ModelProto:
    """The model with a configuration of those devices and the shardings of nodes, by output name. The model
    may lack its initialisers. The IR version is raised to at least 11. Raises InvalidModelError when the
    result violates ``annotation_problems``, and for an unknown node."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    result.ir_version = max(result.ir_version, IR_WITH_ANNOTATIONS)
    result.configuration.add(name=configuration, num_devices=len(devices), device=devices)
    by_output = {name: node for node in result.graph.node for name in node.output if name}
    types: dict[str, ValueType] = {}
    for output, sharding in nodes.items():
        node = by_output.get(output)
        if node is None:
            raise InvalidModelError(f"no node produces {output!r}, which has a sharding")
        entry = node.device_configurations.add(configuration_id=configuration)
        if sharding.stage is not None:
            entry.pipeline_stage = sharding.stage
        for tensor in sharding.tensors:
            _write(entry.sharding_spec.add(), tensor)
            types[tensor.tensor] = tensor.type
    _require_none(annotation_problems(result, types))
    return result


def _write(spec: onnx.ShardingSpecProto, sharding: TensorSharding) -> None:
    spec.tensor_name = sharding.tensor
    for number, group in enumerate(sharding.groups):
        if len(group) == 1:
            spec.device.append(group[0])
            continue
        spec.device.append(-1 - number)
        spec.index_to_device_group_map.add(key=-1 - number, value=group)
    for axis, degree in enumerate(sharding.degrees):
        if degree == 1:
            continue
        simple = spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=degree)
        size = sharding.type.shape[axis]
        if isinstance(size, int):
            simple.dim_value = size
        else:
            simple.dim_param = str(size)


def validate_annotations(model: onnx.ModelProto) -> None:
    """Validates all multi-device annotations of a model. Raises InvalidModelError stating the first violation
    and what was expected."""
    _require_none(annotation_problems(model, infer_types(model).types))


def _require_none(problems: Iterator[str]) -> None:
    problem = next(problems, None)
    if problem is not None:
        raise InvalidModelError(f"multi-device annotations: {problem}")


def annotation_problems(model: onnx.ModelProto, types: Mapping[str, ValueType]) -> Iterator[str]:
    """One sentence for every rule that the annotations of a model violate; ``types`` by tensor name."""
    sizes: dict[str, int] = {}
    for configuration in model.configuration:
        yield from _configuration_problems(configuration, sizes)
        sizes[configuration.name] = configuration.num_devices
    nodes = list(_all_nodes(model.graph.node))
    in_use = bool(sizes) or any(node.device_configurations for node in nodes)
    if in_use and model.ir_version < IR_WITH_ANNOTATIONS:
        yield f"expected IR version {IR_WITH_ANNOTATIONS} or higher, got {model.ir_version}"
    for node in nodes:
        yield from _node_problems(node, sizes, types)
    yield from _stage_problems(model.graph.node)


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (*attribute.graphs, *((attribute.g,) if attribute.HasField("g") else ())):
                yield from _all_nodes(graph.node)


def _configuration_problems(
    configuration: onnx.DeviceConfigurationProto, known: Mapping[str, int]
) -> Iterator[str]:
    where = f"configuration {configuration.name!r}"
    if not configuration.name:
        yield "a configuration has no name"
    if configuration.name in known:
        yield f"{where}: the name is given twice"
    if configuration.num_devices < 1:
        yield f"{where}: expected at least 1 device, got {configuration.num_devices}"
    names = list(configuration.device)
    if names and len(names) != configuration.num_devices:
        yield f"{where}: expected {configuration.num_devices} device names, got {len(names)}"
    if len(set(names)) != len(names):
        yield f"{where}: two devices have the same name"


def _node_problems(
    node: onnx.NodeProto, sizes: Mapping[str, int], types: Mapping[str, ValueType]
) -> Iterator[str]:
    where = f"node {node.name or (node.output[0] if node.output else '')!r} ({node.op_type})"
    tensors = {name for name in (*node.input, *node.output) if name}
    seen: set[str] = set()
    for entry in node.device_configurations:
        name = entry.configuration_id
        if name not in sizes:
            yield f"{where}: configuration {name!r} does not exist; there are: {', '.join(sizes) or 'none'}"
            continue
        if name in seen:
            yield f"{where}: configuration {name!r} is given twice"
        seen.add(name)
        if entry.pipeline_stage < 0:
            yield f"{where}: expected a pipeline stage of at least 0, got {entry.pipeline_stage}"
        specified: set[str] = set()
        for spec in entry.sharding_spec:
            place = f"{where}, tensor {spec.tensor_name!r}"
            if spec.tensor_name not in tensors:
                yield f"{place}: the node neither reads nor produces it"
            if spec.tensor_name in specified:
                yield f"{place}: is specified twice"
            specified.add(spec.tensor_name)
            yield from (f"{place}: {problem}" for problem in _device_problems(spec, sizes[name]))
            type_ = types.get(spec.tensor_name)
            shape = type_.shape if isinstance(type_, TensorType) else None
            yield from (f"{place}: {problem}" for problem in _axis_problems(spec, shape))


def _device_problems(spec: onnx.ShardingSpecProto, count: int) -> Iterator[str]:
    groups: dict[int, list[int]] = {}
    for entry in spec.index_to_device_group_map:
        if entry.key in groups:
            yield f"group {entry.key} is defined twice"
        if entry.key >= 0:
            yield f"expected a negative number for a group, got {entry.key}"
        if not entry.value:
            yield f"group {entry.key} has no device"
        if entry.key not in spec.device:
            yield f"group {entry.key} is not used"
        groups[entry.key] = list(entry.value)
    if not spec.device:
        yield "expected at least one device"
    devices = [device for entry in spec.device for device in groups.get(entry, [entry])]
    for device in devices:
        if not 0 <= device < count:
            yield (
                f"group {device} is not defined"
                if device < 0
                else f"expected devices from 0 to {count - 1}, got {device}"
            )
    if len(set(devices)) != len(devices):
        yield "a device is listed twice"


def _axis_problems(spec: onnx.ShardingSpecProto, shape: Sequence[object] | None) -> Iterator[str]:
    rank = None if shape is None else len(shape)
    parts = 1
    axes: set[int] = set()
    for dim in spec.sharded_dim:
        if not dim.HasField("axis"):
            yield "a sharded dimension names no axis"
            continue
        if rank is not None and not -rank <= dim.axis < rank:
            yield f"axis {dim.axis} of a tensor of rank {rank}"
            continue
        axis = dim.axis % rank if rank is not None else dim.axis
        if axis in axes:
            yield f"axis {axis} is sharded twice"
        axes.add(axis)
        if not dim.simple_sharding:
            yield f"axis {axis} does not state how it is sharded"
        for simple in dim.simple_sharding:
            if simple.num_shards < 1:
                yield f"axis {axis}: expected at least 1 shard, got {simple.num_shards}"
            elif simple.HasField("dim_value") and simple.dim_value % simple.num_shards:
                yield f"axis {axis}: {simple.dim_value} is not a multiple of {simple.num_shards} shards"
            parts *= max(simple.num_shards, 1)
        yield from _size_problems(axis, dim, None if shape is None else shape[axis])
    if parts != len(spec.device):
        yield f"expected {parts} devices or groups, one for each part, got {len(spec.device)}"


def _size_problems(axis: int, dim: onnx.ShardedDimProto, size: object) -> Iterator[str]:
    given = [simple.dim_value for simple in dim.simple_sharding if simple.HasField("dim_value")]
    if isinstance(size, int) and len(given) == len(dim.simple_sharding) and math.prod(given) != size:
        yield f"axis {axis} has size {size}, and the sharding says {math.prod(given)}"
    if isinstance(size, int):
        yield from (
            f"axis {axis} has size {size}, and the sharding says {simple.dim_param!r}"
            for simple in dim.simple_sharding
            if simple.HasField("dim_param")
        )


def _stage_problems(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """A node's stage must not precede those of its operands, in each configuration."""
    made: dict[tuple[str, str], int] = {}
    for node in nodes:
        for entry in node.device_configurations:
            if not entry.HasField("pipeline_stage"):
                continue
            for name in node.input:
                before = made.get((entry.configuration_id, name), 0)
                if before > entry.pipeline_stage:
                    yield (
                        f"node {node.name!r} ({node.op_type}) is in stage {entry.pipeline_stage} and reads "
                        f"{name!r} of stage {before}"
                    )
            made.update(((entry.configuration_id, name), entry.pipeline_stage) for name in node.output)


__all__ = [
    "IR_WITH_ANNOTATIONS",
    "NodeSharding",
    "TensorSharding",
    "annotated",
    "annotation_problems",
    "validate_annotations",
]
