"""A model whose memory is planned: its program, and arrays with which it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from superopt.onnx_io import SourceModel
from superopt.onnx_io.changes.replacing import without_tensors
from superopt.onnx_io.node_memory import TensorSize, tensor_sizes
from superopt.optimizer.cost.graph_cost import GraphCost
from superopt.optimizer.cost.resident import Resident, resident_bytes
from superopt.optimizer.cost.runtime.memory_session import MemoryPlan
from superopt.optimizer.cost.runtime.session import Array
from superopt.optimizer.memory.nodes import NodeProgram, program_of
from superopt.optimizer.training.metadata import is_step

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class StepOutputs:
    """The outputs of a training step whose memory is the caller's: those of its states, each with its
    input."""

    inputs: Mapping[str, str]

    @staticmethod
    def of(model: onnx.ModelProto, name: str) -> StepOutputs:
        """Those of a model, none unless it is a training step."""
        if not is_step(model):
            return StepOutputs({})
        from superopt.optimizer.training.description import read_description  # imports pydantic

        return StepOutputs({state.output: state.input for state in read_description(model, name).states})


def peaks(model: SourceModel, costs: Iterable[GraphCost]) -> tuple[int, ...]:
    """Peak bytes of graphs of a model, without the outputs whose memory is the caller's."""
    states = StepOutputs.of(model.proto, model.name).inputs
    placed = [number for number, value in enumerate(model.proto.graph.output) if value.name in states]
    return tuple(cost.memory_beside(placed).peak for cost in costs)


def node_program(
    model: SourceModel,
    sizes: Mapping[str, TensorSize] | None = None,
    costs: Mapping[int, float] | None = None,
) -> NodeProgram:
    """The nodes of a model as operations, with the sizes that follow from it by default. Raises
    UnsupportedError where a size is not known."""
    placed = StepOutputs.of(model.proto, model.name).inputs
    known = tensor_sizes(model.proto) if sizes is None else sizes
    return program_of(model.proto.graph, known, costs=costs, placed=tuple(placed))


def measured(model: SourceModel, feeds: Mapping[str, Array], threads: int) -> Resident | None:
    """Peak resident memory of a run of the model as its memory plan says, if it has one. States of a training
    step have the values in the model, and are in two sets of buffers."""
    states = StepOutputs.of(model.proto, model.name).inputs
    values = {name: np.array(model.tensors[name].numpy()) for name in states.values()}
    placed = {output: np.zeros_like(values[name]) for output, name in states.items()}
    content = without_tensors(model, set(values))
    return resident_bytes(content, {**feeds, **values}, placed, threads)


__all__ = ["MemoryPlan", "StepOutputs", "measured", "node_program", "peaks"]
