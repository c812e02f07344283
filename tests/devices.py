"""Devices other than the host: a library that refuses what is not standard, and a GPU where there is one."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from superopt.domains.arrays import HOST, Array, Device, device
from superopt.errors import MissingServiceError

_THERE = array_api_strict.Device("device1")
_HOST = array_api_strict.Device("CPU_DEVICE")


def _put(array: Array) -> Array:
    return array_api_strict.asarray(array, device=_THERE)


def _get(array: Array) -> Array:
    return np.asarray(array.to_device(_HOST))


def _gpu() -> Device | None:
    try:
        return device("cuda")
    except MissingServiceError:
        return None


STRICT = pytest.param(Device("strict", _put, _get), id="strict")
"""Numpy takes no array of this one, not even silently."""

_FOUND = _gpu()
HAS_GPU = _FOUND is not None
GPU = pytest.param(
    _FOUND or HOST, id="cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="no GPU")]
)
