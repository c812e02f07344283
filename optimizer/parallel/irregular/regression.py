"""Costs of layers as linear functions of features, fitted to all measurements (Roc, equations 4.4 to 4.7)."""

from __future__ import annotations

from typing import cast

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.optimizer.parallel.irregular.features import FEATURES, Numbers


class LayerCosts:
    """The cost model of one layer, fitted to all measurements of sets of vertices.

    Weights are those of least squares that are not negative, so that more work never costs less: of a fit
    with negative weights, the most negative one is left out, and the others are fitted again.
    """

    def __init__(self) -> None:
        self._rows: list[Numbers] = []
        self._times: list[float] = []
        self._weights: Numbers | None = None

    @property
    def measurements(self) -> int:
        """The number of measurements so far."""
        return len(self._times)

    @property
    def weights(self) -> Numbers:
        """The weights of the features, in units of the measured times; raises InvalidOptionError before the
        first measurement."""
        if not self._rows:
            raise InvalidOptionError("cost model: expected at least one measurement, got none")
        if self._weights is None:
            self._weights = _not_negative(np.stack(self._rows), np.asarray(self._times))
        return self._weights

    def learn(self, summed: Numbers, time: float) -> None:
        """Adds a measurement: the features of vertices, summed, and the time of computing these."""
        if summed.shape != (len(FEATURES),) or not np.isfinite(time) or time < 0:
            raise InvalidOptionError(
                f"measurement: expected {len(FEATURES)} sums of features and a time, got shape "
                f"{list(summed.shape)} and {time}"
            )
        if not np.isfinite(summed).all() or summed.min() < 0:
            raise InvalidOptionError("measurement: expected sums of features of at least 0, got others")
        self._rows.append(summed.copy())
        self._times.append(time)
        self._weights = None

    def predicted(self, vertices: Numbers) -> Numbers:
        """The cost of each vertex, given features [vertices, 5]."""
        return vertices @ self.weights


def _not_negative(rows: Numbers, times: Numbers) -> Numbers:
    scale = np.maximum(rows.max(axis=0), 1e-300)
    weights = np.zeros(rows.shape[1])
    kept = np.flatnonzero(rows.max(axis=0) > 0)
    while len(kept):
        fitted = cast("Numbers", np.linalg.lstsq(rows[:, kept] / scale[kept], times, rcond=1e-6)[0])
        if fitted.min() >= 0:
            weights[kept] = fitted / scale[kept]
            break
        kept = np.delete(kept, fitted.argmin())
    return weights


__all__ = ["LayerCosts"]
