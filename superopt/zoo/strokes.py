"""Drawn digits: each a few strokes, which are turned, scaled, moved and rendered with a pen of some width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLASSES", "drawn"]

CLASSES = 10

Points = Sequence[tuple[float, float]]
"""A stroke as (x, y) in the unit square, y downwards."""


def _arc(centre: tuple[float, float], radii: tuple[float, float], start: int, stop: int) -> Points:
    """Part of an ellipse between two angles in degrees, clockwise from the right."""
    angles = np.radians(np.linspace(start, stop, 10))
    return [(centre[0] + radii[0] * np.cos(a), centre[1] + radii[1] * np.sin(a)) for a in angles]


STROKES: Sequence[Sequence[Points]] = (
    [_arc((0.5, 0.5), (0.24, 0.38), 0, 360)],
    [[(0.36, 0.28), (0.54, 0.12), (0.54, 0.88)]],
    [[*_arc((0.5, 0.34), (0.24, 0.22), 190, 390), (0.26, 0.88), (0.76, 0.88)]],
    [_arc((0.46, 0.31), (0.24, 0.19), 200, 450), _arc((0.46, 0.69), (0.27, 0.19), 270, 520)],
    [[(0.64, 0.88), (0.64, 0.12), (0.22, 0.64), (0.8, 0.64)]],
    [[(0.74, 0.12), (0.32, 0.12), (0.3, 0.46)], _arc((0.47, 0.64), (0.26, 0.24), 225, 500)],
    [[(0.66, 0.12), (0.36, 0.4), (0.27, 0.66)], _arc((0.5, 0.66), (0.23, 0.22), 0, 360)],
    [[(0.24, 0.12), (0.76, 0.12), (0.42, 0.88)]],
    [_arc((0.5, 0.31), (0.2, 0.19), 0, 360), _arc((0.5, 0.69), (0.24, 0.19), 0, 360)],
    [_arc((0.5, 0.34), (0.22, 0.22), 0, 360), [(0.72, 0.34), (0.7, 0.6), (0.54, 0.88)]],
)
"""The strokes of each digit."""


def drawn(labels: NDArray[np.int64], side: int, random: np.random.Generator) -> NDArray[np.float32]:
    """An image of each digit: [n] -> [n, side, side], from 0 for paper to 1 for ink."""
    count = len(labels)
    angles, scales = random.normal(0, 0.12, count), random.uniform(0.8, 1.1, (count, 2))
    moved = random.uniform(-0.08, 0.08, (count, 2))
    pens = random.uniform(0.03, 0.07, count)
    images = np.empty((count, side, side))
    for digit, strokes in enumerate(STROKES):
        for index in np.flatnonzero(labels == digit):
            segments = _segments(strokes, angles[index], scales[index], moved[index])
            images[index] = _ink(segments, pens[index], side)
    noisy = images + random.normal(0, 0.05, images.shape)
    return np.clip(noisy, 0, 1).astype(np.float32)


def _segments(
    strokes: Sequence[Points], angle: float, scale: NDArray[np.float64], moved: NDArray[np.float64]
) -> NDArray[np.float64]:
    """[segments, 2 ends, 2 coordinates] of the strokes after a turn about the centre."""
    ends = np.array([segment for stroke in strokes for segment in pairwise(stroke)])
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return (ends - 0.5) * scale @ turn + 0.5 + moved


def _ink(segments: NDArray[np.float64], pen: float, side: int) -> NDArray[np.float64]:
    """[side, side]: 1 within the pen's width of a segment, falling to 0 over one pixel."""
    middle = (np.arange(side) + 0.5) / side
    pixels = np.stack(np.meshgrid(middle, middle), axis=-1).reshape(-1, 1, 2)
    start, way = segments[:, 0], segments[:, 1] - segments[:, 0]
    along = ((pixels - start) * way).sum(-1) / (way**2).sum(-1)
    nearest = start + np.clip(along, 0, 1)[..., None] * way
    distance = np.sqrt(((pixels - nearest) ** 2).sum(-1)).min(axis=1)
    return np.clip(1 - (distance - pen) * side, 0, 1).reshape(side, side)
