"""Optimisers in numpy, written from the documentation of PyTorch's, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Moments = dict[str, Real]
Change = Callable[[Real, Real, Moments, int, float], Real]


def sgd(p: Real, g: Real, m: Moments, t: int, rate: float) -> Real:
    del m, t
    return p - rate * g


def momentum(p: Real, g: Real, m: Moments, t: int, rate: float) -> Real:
    m["momentum"] = g if t == 1 else 0.9 * m["momentum"] + g
    return p - rate * m["momentum"]


def nesterov(p: Real, g: Real, m: Moments, t: int, rate: float) -> Real:
    m["momentum"] = g if t == 1 else 0.9 * m["momentum"] + g
    return p - rate * (g + 0.9 * m["momentum"])


def adam(p: Real, g: Real, m: Moments, t: int, rate: float) -> Real:
    m["exp_avg"] = 0.9 * m.get("exp_avg", np.zeros_like(p)) + 0.1 * g
    m["exp_avg_sq"] = 0.999 * m.get("exp_avg_sq", np.zeros_like(p)) + 0.001 * g**2
    mean, square = m["exp_avg"] / (1 - 0.9**t), m["exp_avg_sq"] / (1 - 0.999**t)
    return p - rate * mean / (np.sqrt(square) + 1e-8)


def adagrad(p: Real, g: Real, m: Moments, t: int, rate: float) -> Real:
    del t
    m["sum"] = m.get("sum", np.zeros_like(p)) + g**2
    return p - rate * g / (np.sqrt(m["sum"]) + 1e-10)


def rmsprop(p: Real, g: Real, m: Moments, t: int, rate: float) -> Real:
    del t
    m["square_avg"] = 0.99 * m.get("square_avg", np.zeros_like(p)) + 0.01 * g**2
    return p - rate * g / (np.sqrt(m["square_avg"]) + 1e-8)


CHANGES: Mapping[str, Change] = {
    "sgd": sgd,
    "momentum": momentum,
    "nesterov": nesterov,
    "adam": adam,
    "adamw": adam,
    "adagrad": adagrad,
    "rmsprop": rmsprop,
}
RATES = {"adagrad": 0.01, "rmsprop": 0.01}


class Reference:
    """Parameters and their moments."""

    def __init__(self, optimizer: str, parameters: Mapping[str, Real], decay: float | None = None) -> None:
        self.parameters = {name: array.astype(np.float64) for name, array in parameters.items()}
        self.moments: dict[str, Moments] = {name: {} for name in parameters}
        self.updates = 0
        self._optimizer = optimizer
        self._decay = {"adamw": 0.01}.get(optimizer, 0.0) if decay is None else decay

    def update(self, gradients: Mapping[str, Real], rate: float | None = None) -> None:
        """One update."""
        self.updates += 1
        rate = RATES.get(self._optimizer, 0.001) if rate is None else rate
        change = CHANGES[self._optimizer]
        for name in self.parameters:
            value, gradient = self.parameters[name], gradients[name].astype(np.float64)
            if self._optimizer == "adamw":
                value = value * (1 - rate * self._decay)
            else:
                gradient = gradient + self._decay * value
            self.parameters[name] = change(value, gradient, self.moments[name], self.updates, rate)

    @property
    def states(self) -> dict[str, Real]:
        """Parameters and moments, by the names that states have."""
        moments = {
            f"{name}.{moment}": array for name, kept in self.moments.items() for moment, array in kept.items()
        }
        return {**self.parameters, **moments}


def clipped(gradients: Mapping[str, Real], largest: float) -> dict[str, Real]:
    """As ``torch.nn.utils.clip_grad_norm_``."""
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))
    return {name: gradient * min(1.0, largest / (norm + 1e-6)) for name, gradient in gradients.items()}
