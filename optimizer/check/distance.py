"""Relative error between tensors by three measures, and the tolerated amounts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superopt.optimizer.cost.runtime.session import Array

FLOORS = {"float64": 1e-8, "complex128": 1e-8, "float32": 1e-5, "complex64": 1e-5}
"""Tolerated error of a rewritten model in addition to the multiple of the original's own, by element type."""

COARSE_FLOOR = 1e-2
"""Tolerance for float16 and coarser types."""


TYPICAL_FLOORS = 10
"""Tolerance of the median relative error of single elements; many are far smaller than the largest
element."""


@dataclass(frozen=True, slots=True)
class Multiple:
    """Allowed ratio of a rewritten model's error to the original's own error, by each measure."""

    largest: float = 8.0
    rms: float = 4.0
    typical: float = 4.0


MULTIPLE = Multiple()
"""Reordered sums and fused or expanded products have errors of similar size; fast convolution transforms up
to four times as large. The largest of many errors varies more than their mean."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Relative errors by three measures: largest error over largest element, root mean square over root mean
    square, and the median of each element's relative error. ``absolute`` is the largest absolute error."""

    largest: float = 0.0
    rms: float = 0.0
    typical: float = 0.0
    absolute: float = 0.0

    def worst(self, other: Distance) -> Distance:
        """The larger of two distances, measure by measure."""
        return Distance(
            max(self.largest, other.largest),
            max(self.rms, other.rms),
            max(self.typical, other.typical),
            max(self.absolute, other.absolute),
        )

    def excess(self, own: Distance, floor: float) -> float:
        """Distance in multiples of the tolerance, where ``own`` is the original's own error: at most 1
        passes. The floor is for outputs as a whole; that of single elements is ``TYPICAL_FLOORS`` times as
        high."""
        return max(
            _share(self.largest, MULTIPLE.largest * own.largest + floor),
            _share(self.rms, MULTIPLE.rms * own.rms + floor),
            _share(self.typical, MULTIPLE.typical * own.typical + TYPICAL_FLOORS * floor),
        )


NONE = Distance()


def distance(array: Array, reference: Array) -> Distance:
    """Distance of an array from a reference of the same shape, over the elements where both are finite."""
    wide = np.complex128 if reference.dtype.kind == "c" else np.float64
    finite = np.isfinite(reference) & np.isfinite(array)
    aim = reference[finite].astype(wide, copy=False)
    if not aim.size:
        return NONE
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(array[finite].astype(wide, copy=False) - aim)
    size = np.abs(aim)
    most, largest = float(error.max()), float(size.max())
    if not most:
        return NONE
    if not largest:
        return Distance(np.inf, np.inf, 0.0, most)
    # scaled, so that squares neither overflow nor vanish
    rms = np.sqrt(np.mean(np.square(error / most)) / np.mean(np.square(size / largest))) * (most / largest)
    some = size > 0
    typical = float(np.median(error[some] / size[some]))
    return Distance(most / largest, float(rms), typical, most)


def floor_of(dtype: str, tolerance: float | None) -> float:
    """Tolerance for an element type, or the one given by the user."""
    return tolerance if tolerance is not None else FLOORS.get(dtype, COARSE_FLOOR)


def _share(part: float, whole: float) -> float:
    if not part:
        return 0.0
    return part / whole if whole else np.inf
