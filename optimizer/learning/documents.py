"""Trained networks as JSON values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superopt.errors import InvalidFileError
from superopt.optimizer.learning.graphs import Scaling
from superopt.optimizer.learning.network import Floats, GraphNetwork
from superopt.optimizer.learning.trained import TrainedNetwork

_DIGITS = 7


@dataclass(frozen=True)
class NetworkDocument:
    """The sizes of a network, the scaling of its features, and its weights: shape and numbers by name."""

    features: int
    width: int
    layers: int
    mean: list[float]
    deviation: list[float]
    weights: dict[str, tuple[list[int], list[float]]]

    @staticmethod
    def of(trained: TrainedNetwork) -> NetworkDocument:
        """The document of a network."""
        network = trained.network
        return NetworkDocument(
            network.features,
            network.width,
            network.layers,
            _numbers(trained.scaling.mean),
            _numbers(trained.scaling.deviation),
            {name: (list(array.shape), _numbers(array)) for name, array in trained.weights.items()},
        )

    def network(self, features: int, where: str) -> TrainedNetwork:
        """The network. Raises InvalidFileError unless it has so many features, and weights of its sizes."""
        network = GraphNetwork(self.features, self.width, self.layers)
        weights = {name: _array(shape, numbers) for name, (shape, numbers) in self.weights.items()}
        got = {name: array.shape for name, array in weights.items()}
        are_scaled = len(self.mean) == len(self.deviation) == features == self.features
        if got != network.shapes() or not are_scaled:
            raise InvalidFileError(
                f"{where}: weights: expected {len(network.shapes())} arrays for {features} features, width "
                f"{self.width} and {self.layers} layers, got others"
            )
        scaling = Scaling(_array([features], self.mean), _array([features], self.deviation))
        return TrainedNetwork(network, scaling, weights)


def _array(shape: Sequence[int], numbers: Sequence[float]) -> Floats:
    array = np.asarray(numbers, np.float32)
    return array.reshape(shape) if math.prod(shape) == array.size else array


def _numbers(array: Floats) -> list[float]:
    return [float(f"{number:.{_DIGITS}g}") for number in array.ravel().tolist()]
