"""Bytes: how many a tensor has, and how many the last cache of this machine holds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from superopt.ir.dimensions import Dimension
from superopt.ir.types import TensorType

_USUAL_CACHE = 32 * 2**20
_UNITS = {"K": 2**10, "M": 2**20}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def bytes_of(type_: TensorType) -> int:
    """Bytes of a tensor of known shape."""
    return number_of(type_.elements) * type_.element.bytes_per_element


def number_of(dimension: Dimension) -> int:
    """A dimension that is a number; raises TypeError for a symbolic one."""
    if not isinstance(dimension, int):
        raise TypeError(f"expected a number, got the dimension {dimension}")
    return dimension


@cache
def last_cache_bytes() -> int:
    """The largest cache that the first core reads through; a usual size where the system does not say."""
    sizes: list[int] = []
    for path in _CACHES.glob("index*/size"):
        text = path.read_text().strip()
        if text[:-1].isdecimal() and text[-1] in _UNITS:
            sizes.append(int(text[:-1]) * _UNITS[text[-1]])
    return max(sizes, default=_USUAL_CACHE)
