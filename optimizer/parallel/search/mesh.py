"""Device mesh: a machine as an array of devices with many small axes, first between nodes, then within."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.parallel.documents.cluster import Cluster


@dataclass(frozen=True)
class Mesh:
    """Devices, row-major over axes of prime sizes; the last ``inner`` axes are within one node. Every machine
    mapping of Unity (section 3.2) assigns axes to the dimensions of an operator."""

    devices: tuple[int, ...]
    sizes: tuple[int, ...]
    inner: int

    @cached_property
    def array(self) -> NDArray[np.int64]:
        """Array of device numbers."""
        return np.array(self.devices).reshape(self.sizes)

    def parts(self, axes: Iterable[int]) -> int:
        """The number of parts of what is divided along those axes."""
        return math.prod(self.sizes[axis] for axis in axes)

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """The ranges of adjacent axes that one dimension of an operator may be assigned while others have the
        rest; largest ranges within nodes first."""
        count = len(self.sizes)
        ranges = [(start, stop) for start in range(count) for stop in range(start + 1, count + 1)]
        proper = [found for found in ranges if found != (0, count)] or ranges
        return tuple(sorted(proper, key=lambda found: (-found[1], found[0])))

    @staticmethod
    def of(cluster: Cluster, devices: Sequence[int] | None = None) -> Mesh:
        """The mesh of some devices, by default of all."""
        numbers = tuple(device.number for device in cluster.devices) if devices is None else tuple(devices)
        by_number = {device.number: device for device in cluster.devices}
        counts = Counter(by_number[number].node for number in numbers)
        sizes = set(counts.values())
        if len(sizes) != 1:
            return Mesh(numbers, _primes(len(numbers)), 0)
        (within,) = sizes
        inner = _primes(within)
        return Mesh(numbers, (*_primes(len(counts)), *inner), len(inner))


def submachines(cluster: Cluster) -> tuple[Mesh, ...]:
    """The whole machine and smaller parts: nodes, parts of one node, and devices of one kind."""
    numbers = [device.number for device in cluster.devices]
    found = [Mesh.of(cluster)]
    kinds: dict[object, list[int]] = {}
    for device in cluster.devices:
        kinds.setdefault((device.kind, device.memory_bytes), []).append(device.number)
    groups = [numbers, *(kinds.values() if len(kinds) > 1 else ())]
    for group in groups:
        for count in _divisors(len(group)):
            nodes = Counter(cluster.devices[number].node for number in group[:count])
            if len(set(nodes.values())) == 1:
                found.append(Mesh.of(cluster, group[:count]))
    return tuple(dict.fromkeys(sorted(found, key=lambda mesh: -len(mesh.devices))))


def _primes(number: int) -> tuple[int, ...]:
    found: list[int] = []
    factor = 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return tuple(found)


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
