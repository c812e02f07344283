"""Sizes in bytes: of tensors, and of this machine's caches."""

from __future__ import annotations

import enum
from functools import cache
from pathlib import Path

from superopt.ir.dimensions import Dimension
from superopt.ir.types import TensorType

_CORE_CACHE = 2**20
_SHARED_CACHE = 32 * 2**20
"""A core's share of the last-level cache: that of a server is larger, but shared."""

_PAGED = 8 * 2**20
"""Larger than the memory covered by a core's TLB with standard pages."""

_CORE_LEVEL = 2
_UNITS = {"K": 2**10, "M": 2**20}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


class Residence(enum.StrEnum):
    """Location of data when a kernel starts: the core's own cache, the shared cache, or memory."""

    CORE = "core"
    SHARED = "shared"
    MEMORY = "memory"


def residence_of(size: int) -> Residence:
    """Location of data of this size that is read repeatedly in the same order."""
    if size <= core_cache_bytes() // 2:
        return Residence.CORE
    return Residence.SHARED if size <= _SHARED_CACHE else Residence.MEMORY


def evicting_bytes(residence: Residence) -> int:
    """Bytes to read so that data is evicted from all closer caches."""
    return {
        Residence.CORE: 0,
        Residence.SHARED: max(core_cache_bytes() * 3 // 2, _PAGED),
        Residence.MEMORY: 2 * _SHARED_CACHE,
    }[residence]


def bytes_of(type_: TensorType) -> int:
    """Bytes of a tensor of known shape."""
    return number_of(type_.elements) * type_.element.bytes_per_element


def number_of(dimension: Dimension) -> int:
    """A concrete dimension; raises TypeError for a symbolic one."""
    if not isinstance(dimension, int):
        raise TypeError(f"expected a number, got the dimension {dimension}")
    return dimension


@cache
def core_cache_bytes() -> int:
    """Size of the first core's own cache; a usual size where the system does not report it."""
    for path in _CACHES.glob("index*/level"):
        text = path.with_name("size").read_text().strip()
        if int(path.read_text()) == _CORE_LEVEL and text[:-1].isdecimal() and text[-1] in _UNITS:
            return int(text[:-1]) * _UNITS[text[-1]]
    return _CORE_CACHE
