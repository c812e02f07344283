"""States of a training step in its graph: the inputs with their present values, the outputs with the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from superopt.ir.graph import Graph, Input, NodeId, Value
from superopt.optimizer.training.metadata import is_step

if TYPE_CHECKING:
    import onnx

    from superopt.optimizer.training.description import Role, StepDescription


@dataclass(frozen=True)
class StepLayout:
    """The meaning of a step's inputs and outputs, with the names of its outputs in order."""

    description: StepDescription
    outputs: tuple[str, ...]

    @staticmethod
    def of(model: onnx.ModelProto, where: str) -> StepLayout | None:
        """The layout of a model; None if it is no training step. Raises InvalidModelError for a malformed
        description."""
        if not is_step(model):
            return None
        from superopt.optimizer.training.description import read_description

        return StepLayout(read_description(model, where), tuple(output.name for output in model.graph.output))


@dataclass(frozen=True, slots=True)
class StateTensor:
    """A state of a graph: the node of its present value, its next value, its role, and the name of the
    parameter that it belongs to, if any."""

    name: str
    input: NodeId
    next: Value
    role: Role
    of: str | None


@dataclass(frozen=True)
class StepStates:
    """The states of a graph that is a training step, the inputs whose first axis counts samples, and the
    loss."""

    states: tuple[StateTensor, ...]
    data: frozenset[NodeId]
    loss: Value | None = None

    @staticmethod
    def of(graph: Graph, layout: StepLayout) -> StepStates:
        """The states of a graph with the inputs and outputs of the step; those that it does not read or
        compute are left out."""
        inputs = {
            operator.label: node
            for node in graph.inputs
            if isinstance(operator := graph[node].operator, Input)
        }
        outputs = dict(zip(layout.outputs, graph.outputs, strict=True))
        description = layout.description
        return StepStates(
            tuple(
                StateTensor(state.name, inputs[state.input], outputs[state.output], state.role, state.of)
                for state in description.states
                if state.input in inputs
            ),
            frozenset(inputs[name] for name in description.data if name in inputs),
            outputs.get(description.loss),
        )

    @cached_property
    def by_input(self) -> Mapping[NodeId, StateTensor]:
        """The states by the node of their present value."""
        return {state.input: state for state in self.states}

    @cached_property
    def by_next(self) -> Mapping[Value, tuple[StateTensor, ...]]:
        """The states by their next value."""
        found: dict[Value, tuple[StateTensor, ...]] = {}
        for state in self.states:
            found[state.next] = (*found.get(state.next, ()), state)
        return found
