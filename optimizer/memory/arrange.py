"""Models whose nodes run by a schedule: sizes and times of their nodes, and writing them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from superopt.errors import InvalidFileError
from superopt.onnx_io import LoweredModel
from superopt.onnx_io.lowering.models import require_sorted
from superopt.onnx_io.node_memory import TensorSize, tensor_sizes
from superopt.onnx_io.protos import names_within
from superopt.optimizer.cost.runtime.memory_session import PROPERTY, Allocator, MemoryPlan
from superopt.optimizer.cost.runtime.session import Array, LoadedModel
from superopt.optimizer.memory.liveness import Schedule
from superopt.optimizer.memory.nodes import scheduled_nodes

if TYPE_CHECKING:
    import onnx

_RUNS = 3
"""Runs of which the fastest gives the time of a node."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A memory plan with its schedule: numbers of the model's nodes in the order in which they run."""

    plan: MemoryPlan
    schedule: tuple[int, ...]

    def applied_to(self, model: LoweredModel) -> LoweredModel:
        """The model with its nodes in the order of the schedule, and the plan in its metadata. Raises
        InvalidFileError for a schedule of another model."""
        nodes = list(model.proto.graph.node)
        if {*self.schedule} != {*range(len(nodes))}:
            raise InvalidFileError(
                f"memory plan: expected a schedule of all {len(nodes)} nodes of {model.source.name}"
            )
        outputs = {value.name for value in model.proto.graph.output}
        taken = {*names_within(model.proto.graph), *model.shared}
        proto = _without_nodes(model.proto)
        proto.graph.node.extend(scheduled_nodes(nodes, self.schedule, outputs, taken))
        for entry in [entry for entry in proto.metadata_props if entry.key == PROPERTY]:
            proto.metadata_props.remove(entry)
        proto.metadata_props.add(key=PROPERTY, value=self.plan.to_text())
        require_sorted(proto.graph, frozenset(model.shared))
        return replace(model, proto=proto, unchanged=False)

    def with_allocator(self, allocator: Allocator) -> Arrangement:
        """The same schedule with another allocator."""
        return replace(self, plan=replace(self.plan, allocator=allocator))


def sizes_at(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, TensorSize]:
    """Sizes of all tensors, as far as they follow from those of the inputs; the model is changed."""
    for value in model.graph.input:
        if value.name in feeds and value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
            value.type.tensor_type.shape.SetInParent()
            for size in feeds[value.name].shape:
                value.type.tensor_type.shape.dim.add(dim_value=size)
    del model.graph.value_info[:]
    return tensor_sizes(model)


def node_times(model: LoweredModel, feeds: Mapping[str, Array], threads: int) -> dict[int, float]:
    """Microseconds of each node of the model as it is written, measured. Raises RuntimeRefusedError where it
    does not run."""
    order: Schedule = range(len(model.proto.graph.node))
    plan = MemoryPlan(limit=1, predicted=1, allocator=Allocator.ARENA)
    numbered = Arrangement(plan, tuple(order)).applied_to(model)
    for index, node in enumerate(numbered.proto.graph.node):
        node.name = f"{index}"
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        path = Path(directory) / "numbered.onnx"
        numbered.save(path)
        loaded = LoadedModel(path, threads, Path(directory) / "run")
        for _ in range(_RUNS):
            loaded.run(feeds)
        times: dict[int, float] = {}
        for run in loaded.end_profile():
            for kernel in run:
                if kernel.name.isdecimal():
                    index = int(kernel.name)
                    times[index] = min(times.get(index, kernel.microseconds), kernel.microseconds)
    return times


def _without_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = type(model)()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    return copy
