"""A trained graph network, applied in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.cost.runtime.session import LoadedModel, Provider
from superopt.optimizer.learning.graphs import FeatureGraph, Scaling, batch_of
from superopt.optimizer.learning.network import Floats, GraphNetwork


@dataclass(frozen=True)
class TrainedNetwork:
    """A network, the scaling of its features, and its weights by name."""

    network: GraphNetwork
    scaling: Scaling
    weights: Mapping[str, Floats]

    @cached_property
    def _model(self) -> LoadedModel:
        content = self.network.applied(self.weights).SerializeToString()
        return LoadedModel(content, threads=1, provider=Provider.CPU)

    def values(self, graphs: Sequence[FeatureGraph]) -> NDArray[np.float64]:
        """The value of each graph."""
        (found,) = self._model.run(batch_of(graphs, self.scaling))
        return np.asarray(found, np.float64)[:, 0]
