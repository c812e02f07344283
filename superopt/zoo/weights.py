"""Weights are drawn here: seeded, scaled so that activations stay of order one through any depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AFFINE_GAIN", "RESIDUAL_GAIN", "Affine", "WeightSource"]

RESIDUAL_GAIN = 0.3
"""Scale of the last normalisation of a residual branch: the sum then grows by 9 % in variance per block."""

AFFINE_GAIN = 0.944
"""Undoes what the spread of scales and variances adds: E[scale^2 / variance] = 1.021 ln 3 = 1 / 0.944^2."""


@dataclass(frozen=True)
class Affine:
    """The four vectors of a batch normalisation, each of shape [channels]."""

    scale: NDArray[np.float32]
    bias: NDArray[np.float32]
    mean: NDArray[np.float32]
    variance: NDArray[np.float32]


class WeightSource:
    """One stream of random weights; the same seed and the same calls give the same bytes."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def normal(self, shape: Sequence[int], deviation: float) -> NDArray[np.float32]:
        """Independent normals of mean zero."""
        return self._random.standard_normal(tuple(shape), dtype=np.float32) * np.float32(deviation)

    def uniform(self, shape: Sequence[int], low: float, high: float) -> NDArray[np.float32]:
        """Independent uniform numbers in [low, high)."""
        return self._random.uniform(low, high, tuple(shape)).astype(np.float32)

    def he(self, shape: Sequence[int], fan_in: int) -> NDArray[np.float32]:
        """Keeps the second moment through a relu (He et al. 2015, section 2.2): variance 2 / fan_in."""
        return self.normal(shape, math.sqrt(2.0 / max(fan_in, 1)))

    def lecun(self, shape: Sequence[int], fan_in: int) -> NDArray[np.float32]:
        """Keeps the variance through a linear map: variance 1 / fan_in."""
        return self.normal(shape, math.sqrt(1.0 / max(fan_in, 1)))

    def bias(self, shape: Sequence[int]) -> NDArray[np.float32]:
        """Small and of both signs."""
        return self.normal(shape, 0.1)

    def scale(self, shape: Sequence[int], gain: float = 1.0) -> NDArray[np.float32]:
        """Positive, around ``gain``."""
        return self.uniform(shape, 0.75 * gain, 1.25 * gain)

    def variance(self, shape: Sequence[int]) -> NDArray[np.float32]:
        """In [0.5, 1.5), as the running variance of a normalised network."""
        return self.uniform(shape, 0.5, 1.5)

    def affine(self, channels: int, gain: float = 1.0) -> Affine:
        """Batch-normalisation parameters whose every part matters: none is 0 or 1."""
        shape = (channels,)
        return Affine(
            self.scale(shape, gain * AFFINE_GAIN), self.bias(shape), self.bias(shape), self.variance(shape)
        )
