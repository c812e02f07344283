"""Dropout masks in numpy, from the definition in the documentation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]


def _mix(h: Words) -> Words:
    h = h ^ (h >> np.uint32(16))
    h = h * np.uint32(0x7FEB352D)
    h = h ^ (h >> np.uint32(15))
    h = h * np.uint32(0x846CA68B)
    return h ^ (h >> np.uint32(16))


def keys(seed: int, step: int, layer: int) -> Words:
    """Both keys of a layer."""
    state = np.array([0x9E3779B9, 0x85157AF5], np.uint32)
    for counter in (seed, step):
        for word in (counter % 2**32, counter // 2**32 % 2**32):
            state = _mix(state ^ np.uint32(word))
    return _mix(state ^ np.uint32((layer + 1) * 0x9E3779B1 % 2**32))


def bits(seed: int, step: int, layer: int, elements: int, first: int = 0) -> Words:
    """The 32 random bits of each element."""
    low, high = keys(seed, step, layer)
    h = (np.arange(first, first + elements) % 2**32).astype(np.uint32) ^ low
    h = h ^ (h >> np.uint32(16))
    h = h * np.uint32(0x7FEB352D)
    h = h ^ (h >> np.uint32(15))
    h = h + high
    h = h * np.uint32(0x846CA68B)
    h = h ^ (h >> np.uint32(15))
    return h * np.uint32(0x9E3779B1)


def kept(seed: int, step: int, layer: int, elements: int, ratio: float, first: int = 0) -> NDArray[np.bool_]:
    """Which elements are kept."""
    return bits(seed, step, layer, elements, first) < round((1 - ratio) * 2**32)
