"""Sizes in bytes: of tensors, and of this machine's caches."""

from __future__ import annotations

import enum
from functools import cache
from pathlib import Path

from superopt.ir.dimensions import Dimension
from superopt.ir.types import TensorType

_CORE_CACHE = 2**20
_SHARED_CACHE = 32 * 2**20
"""What a core gets of the last cache: that of a server is larger, but other cores fill it."""

_PAGED = 8 * 2**20
"""More than a core keeps the addresses of, in pages of the usual size."""

_CORE_LEVEL = 2
_UNITS = {"K": 2**10, "M": 2**20}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


class Residence(enum.StrEnum):
    """Where data lies when a kernel starts: in its core's own cache, in that of all cores, or in memory."""

    CORE = "core"
    SHARED = "shared"
    MEMORY = "memory"


def residence_of(size: int) -> Residence:
    """Where so many bytes lie that are read again and again in the same order."""
    if size <= core_cache_bytes() // 2:
        return Residence.CORE
    return Residence.SHARED if size <= _SHARED_CACHE else Residence.MEMORY


def evicting_bytes(residence: Residence) -> int:
    """How many bytes must be read so that data no longer lies nearer than there."""
    return {
        Residence.CORE: 0,
        Residence.SHARED: max(core_cache_bytes() * 3 // 2, _PAGED),
        Residence.MEMORY: 2 * _SHARED_CACHE,
    }[residence]


def bytes_of(type_: TensorType) -> int:
    """Bytes of a tensor of known shape."""
    return number_of(type_.elements) * type_.element.bytes_per_element


def number_of(dimension: Dimension) -> int:
    """A dimension that is a number; raises TypeError for a symbolic one."""
    if not isinstance(dimension, int):
        raise TypeError(f"expected a number, got the dimension {dimension}")
    return dimension


@cache
def core_cache_bytes() -> int:
    """The cache that the first core has for itself; a usual size where the system does not say."""
    for path in _CACHES.glob("index*/level"):
        text = path.with_name("size").read_text().strip()
        if int(path.read_text()) == _CORE_LEVEL and text[:-1].isdecimal() and text[-1] in _UNITS:
            return int(text[:-1]) * _UNITS[text[-1]]
    return _CORE_CACHE
