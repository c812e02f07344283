"""A step whose precision is planned: its loss and gradients in a graph, and values of it on samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from superopt.domains import Array
from superopt.ir.dimensions import as_symbol
from superopt.ir.graph import Graph, Input, NodeId, Value
from superopt.ir.types import TensorType
from superopt.onnx_io import LiftedModel
from superopt.onnx_io.lowering.extending import Extension, extend
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.training.trial_batches import Feeds


@dataclass(frozen=True)
class Subject:
    """A graph that extends a lifted one, with the loss, a 0-d value, and the gradients by parameter. Nodes of
    the ``region`` may be given another precision. ``samples`` are contents of inputs without a default,
    ``weights`` those of constants that the lifted model lacks, by label. ``scale`` is the graph input that
    multiplies the loss, if there is one; it is 1 in the samples. ``fixed_scale``: its value before the first
    call, where that cannot be chosen. ``gradients_are_scaled``: whether it also multiplies ``gradients``."""

    lifted: LiftedModel
    graph: Graph
    loss: Value
    gradients: Mapping[str, Value]
    region: frozenset[NodeId]
    samples: Sequence[Feeds]
    weights: Mapping[str, Array] = field(default_factory=dict[str, "Array"])
    scale: Value | None = None
    fixed_scale: float | None = None
    gradients_are_scaled: bool = False

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of open dimensions in the samples."""
        found: dict[str, int] = {}
        for node_id in self.graph.inputs:
            operator = self.graph[node_id].operator
            if not isinstance(operator, Input) or not isinstance(operator.type, TensorType):
                continue
            shape = self.samples[0][operator.label].shape if self._has(operator.label) else ()
            for size, own in zip(operator.type.shape, shape, strict=False):
                name = as_symbol(size)
                if name is not None:
                    found[name] = own
        return found

    def _has(self, label: str) -> bool:
        return bool(self.samples) and label in self.samples[0]

    def opened(self, graph: Graph, values: Sequence[Value]) -> Opened:
        """Values of a form of the graph, to be computed for samples. Raises RuntimeRefusedError."""
        distinct = tuple(dict.fromkeys(values))
        names = {f"superopt/value/{index}": value for index, value in enumerate(distinct)}
        model = extend(self.lifted, graph, Extension(names, weights=self.weights))
        inputs = frozenset(value.name for value in model.proto.graph.input)
        return Opened(LoadedModel(model.to_bytes(), threads=1), distinct, inputs)


@dataclass(frozen=True, eq=False)
class Opened:
    """A loaded model that computes values of a graph from its ``inputs``, some of which have defaults."""

    model: LoadedModel
    values: tuple[Value, ...]
    inputs: frozenset[str]

    def run(self, feeds: Feeds) -> Mapping[Value, Array]:
        """The values for a sample, which may have more than the model reads."""
        read = {name: array for name, array in feeds.items() if name in self.inputs}
        found = cast("tuple[Array, ...]", self.model.run(read))
        return dict(zip(self.values, found, strict=True))
