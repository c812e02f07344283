"""The weights of interpolation along one axis, as ONNX defines them for Resize."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float64]

COORDINATES = frozenset(
    ("align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
)
"""The modes of coordinates of which the weights are known."""


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Linear interpolation, or cubic with the coefficient ``cubic``; ``coordinates`` is one of COORDINATES.
    What lies outside repeats the border, or has no weight if it is to be excluded."""

    coordinates: str
    cubic: float | None = None
    excludes_outside: bool = False

    def weights(self, size: int, made: int, scale: float) -> Weights:
        """[size, made]: the weight of each given element in each made one; ``scale`` is made / size up to
        rounding."""
        places = self._places(size, made, scale)
        first = np.floor(places)
        part = (places - first)[:, np.newaxis]
        if self.cubic is None:
            taps, values = np.arange(2), np.concatenate((1 - part, part), axis=1)
        else:
            taps, values = np.arange(-1, 3), _cubic(part, self.cubic)
        at = first[:, np.newaxis] + taps
        if self.excludes_outside:
            values = np.where((at >= 0) & (at < size), values, 0)
            values /= values.sum(axis=1, keepdims=True)
        found = np.zeros((size, made))
        columns = np.broadcast_to(np.arange(made)[:, np.newaxis], at.shape)
        np.add.at(found, (np.clip(at, 0, size - 1).astype(np.int64), columns), values)
        return found

    def _places(self, size: int, made: int, scale: float) -> Weights:
        """Where the made elements lie between the given ones."""
        index = np.arange(made, dtype=np.float64)
        if self.coordinates == "asymmetric":
            return index / scale
        if self.coordinates == "align_corners":
            return index * (size - 1) / (made - 1) if made > 1 else index
        if self.coordinates == "pytorch_half_pixel" and made == 1:
            return index
        centres = (index + 0.5) / scale - 0.5
        if self.coordinates == "half_pixel_symmetric":
            centres += size / 2 * (1 - made / (scale * size))
        return centres


def _cubic(part: Weights, a: float) -> Weights:
    """The weights of the four neighbours of a place, by its distance from the second one."""
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (part, 1 - part)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (1 + part, 2 - part)]
    return np.concatenate((far[0], near[0], near[1], far[1]), axis=1)


__all__ = ["COORDINATES", "Interpolation"]
