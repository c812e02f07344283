"""Parts of a training step under construction: forward pass, loss, gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.domains import Array
from superopt.ir.graph import Graph, Input, Node, NodeId, Value
from superopt.onnx_io import LiftedModel
from superopt.onnx_io.training.running_statistics import Statistic
from superopt.ops import Opaque
from superopt.optimizer.training.description import Labels
from superopt.optimizer.training.precision.scaling import LOSS_SCALE
from superopt.optimizer.training.precision.subject import Subject
from superopt.optimizer.training.trial_batches import Feeds
from superopt.optimizer.training.updates import MICROSTEP, STEP
from superopt.traversal import postorder


@dataclass(frozen=True)
class Forward:
    """The lifted forward pass, its parameters, and the running statistics among its outputs. ``seed`` is the
    input with the seed of random masks, None where nothing is random; ``notes`` are remarks for the user."""

    lifted: LiftedModel
    parameters: Mapping[str, Value]
    statistics: tuple[Statistic, ...]
    seed: str | None
    notes: tuple[str, ...]

    @property
    def outputs(self) -> Mapping[str, Value]:
        """The outputs by name."""
        names = (value.name for value in self.lifted.source.proto.graph.output)
        return dict(zip(names, self.lifted.graph.outputs, strict=True))


@dataclass(frozen=True)
class StepLoss:
    """The graph with its loss, a 0-d value, the contents of added constants by label, what labels may be, if
    there are any, and sentences for the user."""

    graph: Graph
    value: Value
    weights: Mapping[str, Array]
    labels: Labels | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Differentiated:
    """The graph with forward pass, loss and gradients. ``cotangent`` is that of the loss, ``used`` says how
    often each adjoint statement was applied, ``unreached`` are parameters that the loss does not depend on.
    """

    forward: Forward
    loss: StepLoss
    graph: Graph
    gradients: Mapping[str, Value]
    cotangent: Value
    used: Mapping[str, int]
    unreached: tuple[str, ...]

    def subject(self, batches: Sequence[Feeds]) -> Subject:
        """What is planned about precision: all nodes that lead to gradients, except for those of the loss."""
        first: Feeds = {
            STEP: np.asarray(1, np.int64),
            MICROSTEP: np.asarray(1, np.int64),
            LOSS_SCALE: np.asarray(1, np.float32),
        }
        scale = self.cotangent if isinstance(self.graph[self.cotangent.node].operator, Input) else None
        of_loss = self.loss.graph.nodes.keys() - self.forward.lifted.graph.nodes.keys()
        return Subject(
            self.forward.lifted,
            self.graph,
            self.loss.value,
            self.gradients,
            _needed(self.graph, self.gradients.values()) - of_loss,
            tuple({**first, **batch} for batch in batches),
            self.loss.weights,
            scale,
            gradients_are_scaled=scale is not None,
        )


class NodeNames:
    """Names nodes in messages as the model does."""

    def __init__(self, lifted: LiftedModel) -> None:
        self._lifted = lifted

    def __call__(self, node: Node) -> str:
        nodes = self._lifted.source.proto.graph.node
        index = node.operator.index if isinstance(node.operator, Opaque) else node.origin
        for number, group in self._lifted.groups.items():
            if node.id in group.nodes:
                index = number
        if index is None or index >= len(nodes):
            return f"the {node.operator.name} that training adds"
        proto = nodes[index]
        return f"node {proto.name or proto.output[0]!r} ({proto.op_type})"


def _needed(graph: Graph, values: Iterable[Value]) -> frozenset[NodeId]:
    """The nodes on which values depend."""
    starts = (value.node for value in values)
    return frozenset(postorder(starts, lambda node: (value.node for value in graph[node].inputs)))


def inputs_by_name(graph: Graph) -> Mapping[str, Value]:
    """The graph inputs by name."""
    found: dict[str, Value] = {}
    for node_id in graph.inputs:
        operator = graph[node_id].operator
        if isinstance(operator, Input):
            found[operator.label] = Value(node_id)
    return found


__all__ = ["Differentiated", "Forward", "NodeNames", "StepLoss", "inputs_by_name"]
