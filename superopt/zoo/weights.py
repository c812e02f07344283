"""Weight descriptions: seeded, generated later, scaled so that activations stay of order one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AFFINE_GAIN", "RESIDUAL_GAIN", "Affine", "Draw", "Stream",
    "affine", "bias", "lecun", "normal", "rectified", "scale", "uniform", "variance",
]  # fmt: skip

RESIDUAL_GAIN = 0.3
"""Scale of the last normalisation of a residual branch: the sum then grows by 9 % in variance per block."""

AFFINE_GAIN = 0.944
"""Undoes what the spread of scales and variances adds: E[scale^2 / variance] = 1.021 ln 3 = 1 / 0.944^2."""

RELU_VARIANCE = 0.5 - 0.5 / math.pi
"""Of max(x, 0) for a standard normal x."""

PIECE = 1 << 22
"""Numbers drawn at a time when a tensor is written piece by piece."""


@dataclass(frozen=True)
class Draw:
    """A float32 tensor of independent random numbers that nobody has drawn yet.

    ``first`` and ``second`` are mean and deviation of a normal, lower and upper bound of a uniform law; the
    mean over ``centred`` axes is then taken away.
    """

    shape: tuple[int, ...]
    law: Literal["normal", "uniform"]
    first: float
    second: float
    centred: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """How many numbers."""
        return math.prod(self.shape)


class Stream:
    """One stream of random numbers: the same seed and the same draws give the same bytes."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def array(self, draw: Draw) -> NDArray[np.float32]:
        """The whole tensor."""
        return np.concatenate([np.empty(0, np.float32), *self.pieces(draw)]).reshape(draw.shape)

    def pieces(self, draw: Draw) -> Iterator[NDArray[np.float32]]:
        """The same numbers as ``array`` in row-major order, 2^22 at a time.

        A piece holds whole rows where those are centred, and everything where another axis is.
        """
        if not draw.centred:
            for start in range(0, draw.size, PIECE):
                yield self._next(draw, min(PIECE, draw.size - start))
            return
        first = min(draw.centred)
        by_rows = draw.centred == tuple(range(first, len(draw.shape)))
        row = math.prod(draw.shape[first:])
        step = max(PIECE // row, 1) * row if by_rows else draw.size
        shape, axes = ((-1, row), (1,)) if by_rows else (draw.shape, draw.centred)
        for start in range(0, draw.size, step):
            numbers = self._next(draw, min(step, draw.size - start)).reshape(shape)
            numbers -= numbers.mean(axes, dtype=np.float32, keepdims=True)
            yield numbers.reshape(-1)

    def _next(self, draw: Draw, size: int) -> NDArray[np.float32]:
        if draw.law == "uniform":
            return self._random.uniform(draw.first, draw.second, size).astype(np.float32)
        numbers = self._random.standard_normal(size, dtype=np.float32)
        numbers *= np.float32(draw.second)
        if draw.first:
            numbers += np.float32(draw.first)
        return numbers


@dataclass(frozen=True)
class Affine:
    """The four vectors of a batch normalisation, each of shape [channels]."""

    scale: Draw
    bias: Draw
    mean: Draw
    variance: Draw


def normal(shape: Sequence[int], deviation: float, mean: float = 0.0) -> Draw:
    """Independent normals."""
    return Draw(tuple(shape), "normal", mean, deviation)


def uniform(shape: Sequence[int], low: float, high: float) -> Draw:
    """Independent uniform numbers in [low, high)."""
    return Draw(tuple(shape), "uniform", low, high)


def rectified(shape: Sequence[int], axes: Sequence[int], gain: float = 1.0) -> Draw:
    """Keeps the variance behind a relu, as He et al. 2015 (section 2.2), and the differences between inputs.

    ``axes`` are those that an output element sums over.
    relu(x) of a standard normal has the mean 1 / sqrt(2 pi) for every input. Weights that sum to zero take it
    away: else the outputs of a deep network for different inputs become the same (Poole et al. 2016).
    """
    fan_in = math.prod(shape[axis] for axis in axes)
    deviation = gain / math.sqrt(max(fan_in - 1, 1) * RELU_VARIANCE)
    return Draw(tuple(shape), "normal", 0.0, deviation, tuple(axes))


def lecun(shape: Sequence[int], fan_in: int) -> Draw:
    """Keeps the variance through a linear map: variance 1 / fan_in."""
    return normal(shape, math.sqrt(1.0 / max(fan_in, 1)))


def bias(shape: Sequence[int]) -> Draw:
    """Small and of both signs."""
    return normal(shape, 0.1)


def scale(shape: Sequence[int], gain: float = 1.0) -> Draw:
    """Positive, around ``gain``."""
    return uniform(shape, 0.75 * gain, 1.25 * gain)


def variance(shape: Sequence[int]) -> Draw:
    """In [0.5, 1.5), as the running variance of a normalised network."""
    return uniform(shape, 0.5, 1.5)


def affine(channels: int, gain: float = 1.0) -> Affine:
    """Batch-normalisation parameters whose every part matters: none is 0 or 1."""
    shape = (channels,)
    return Affine(scale(shape, gain * AFFINE_GAIN), bias(shape), bias(shape), variance(shape))
