"""Fit of a collective's time T = C x + D to measured times (DisCo, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from superopt.errors import InvalidOptionError
from superopt.optimizer.parallel.topology import LinearTime


@dataclass(frozen=True, slots=True)
class Sample:
    """A collective of so many bytes took so many microseconds."""

    bytes: int
    microseconds: float


@dataclass(frozen=True)
class LinearFit:
    """A fitted time, and the samples that it was fitted to."""

    time: LinearTime
    samples: tuple[Sample, ...]

    @property
    def residuals(self) -> tuple[float, ...]:
        """(predicted - measured) / measured of each sample."""
        return tuple(
            (self.time.per_byte * one.bytes + self.time.fixed - one.microseconds) / one.microseconds
            for one in self.samples
        )


def fitted(samples: Sequence[Sample]) -> LinearFit:
    """The C and D of least squares of the relative error, neither of them negative. Relative errors count
    since sizes and times span orders of magnitude. Raises InvalidOptionError unless there are two sizes."""
    if len({one.bytes for one in samples}) < 2 or any(one.microseconds <= 0 for one in samples):
        raise InvalidOptionError(
            f"collectives: expected times above 0 of at least two sizes, got {len(samples)} samples"
        )
    times = np.array([one.microseconds for one in samples])
    sizes = np.array([float(one.bytes) for one in samples])
    rows = np.stack([sizes / times, 1 / times], axis=1)
    scale = rows.max(axis=0)
    ones = np.ones(len(times))
    found = cast("NDArray[np.float64]", np.linalg.lstsq(rows / scale, ones, rcond=None)[0]) / scale
    if found.min() < 0:
        kept = int(found.argmax())
        column = rows[:, kept]
        found = np.zeros(2)
        found[kept] = float(column @ ones) / float(column @ column)
    return LinearFit(LinearTime(float(found[0]), float(found[1])), tuple(samples))
