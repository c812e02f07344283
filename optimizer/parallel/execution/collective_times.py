"""Times of collectives and peaks of the devices that JAX sees, measured with all devices busy."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# JAX's own annotations leave much open.

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import psutil

from superopt.errors import MissingServiceError
from superopt.optimizer.parallel.communication import CollectiveKind
from superopt.optimizer.parallel.execution.jax_devices import load_jax

LEAST_BYTES = 4096
"""The smallest tensors that are exchanged; others are 4, 16, ... times as large."""

_FLOAT_BYTES = 4
_LEAST_RUNS, _MOST_RUNS, _SECONDS = 5, 50, 0.2
"""Runs of each measurement after the first one, which compiles: these many, or those that fit the time."""

_SIDE = 1024
_STREAMED = 1 << 24
_MICRO = 1e6

Progress = Callable[[str], None]


@dataclass(frozen=True)
class DevicePeaks:
    """Operations per second in float32 and bfloat16, bytes per second of its memory, microseconds to run the
    smallest kernel, bytes of memory."""

    flops: float
    half_flops: float
    memory_bandwidth: float
    launch: float
    memory_bytes: int


class CollectiveTimer:
    """Measures on the first ``count`` devices that JAX sees; without a number on all, if they are no CPU.

    Raises MissingServiceError if JAX is not installed or sees fewer than two devices or than asked for.
    """

    def __init__(self, count: int | None, seconds: float = _SECONDS) -> None:
        self._jax: Any = load_jax()
        found = self._jax.devices()
        count = len(found) if count is None else count
        if not 2 <= count <= len(found):
            raise MissingServiceError(
                f"devices: expected at least {max(2, count)} that JAX sees, got {len(found)} "
                f"({found[0].device_kind}); --devices sets how many take part"
            )
        self.devices = found[:count]
        self._seconds = seconds
        self._mesh = self._jax.sharding.Mesh(np.array(self.devices), ("d",))

    @property
    def description(self) -> Mapping[str, str | int]:
        """What is measured: the kind of device, how many, the platform and the version of JAX."""
        first = self.devices[0]
        return {
            "device": str(first.device_kind),
            "platform": str(first.platform),
            "devices": len(self.devices),
            "jax": str(self._jax.__version__),
        }

    def collective(self, kind: CollectiveKind, size: int) -> tuple[int, float]:
        """The bytes by which the time of a collective of a tensor of that size is counted
        (``LinearTime``), and its microseconds."""
        count, lax = len(self.devices), self._jax.lax
        each = max(1, size // _FLOAT_BYTES // count**2) * count
        whole = each * count
        programs: Mapping[CollectiveKind, tuple[int, Callable[[Any], Any]]] = {
            CollectiveKind.ALL_REDUCE: (whole, lambda part: lax.psum(part, "d")),
            CollectiveKind.ALL_GATHER: (each, lambda part: lax.all_gather(part, "d", tiled=True)),
            CollectiveKind.REDUCE_SCATTER: (whole, lambda part: lax.psum_scatter(part, "d", tiled=True)),
            CollectiveKind.ALL_TO_ALL: (each, lambda part: lax.all_to_all(part, "d", 0, 0, tiled=True)),
        }
        elements, program = programs[kind]
        moved = whole * _FLOAT_BYTES
        if kind is CollectiveKind.ALL_TO_ALL:
            moved = moved * (count - 1) // count
        return moved, self._timed_on_all(program, [self._ones((elements * count,))])

    def send(self, size: int) -> tuple[int, float]:
        """Bytes and microseconds of a copy from the first device to the second."""
        elements = size // _FLOAT_BYTES
        shard = self._jax.device_put(np.ones(elements, np.float32), self.devices[0])
        time = self._timed(lambda: self._jax.device_put(shard, self.devices[1]))
        return elements * _FLOAT_BYTES, time

    def peaks(self) -> DevicePeaks:
        """Peaks of one device while all of them do the same."""
        launch = self._timed_on_all(lambda part: part + 1, [self._ones((len(self.devices),))])
        moved = self._streaming()
        single, half = (self._product(dtype) for dtype in (np.float32, self._jax.numpy.bfloat16))
        return DevicePeaks(
            single,
            max(single, half),
            _MICRO * 3 * _STREAMED / max(moved - launch, 1e-3),
            launch,
            self._memory_bytes(),
        )

    def _streaming(self) -> float:
        """Microseconds of a sum of two large arrays, which is written in place of one of them."""
        left, right = (self._ones((_STREAMED // _FLOAT_BYTES * len(self.devices),)) for _ in range(2))
        added = self._jax.jit(lambda one, other: one + other, donate_argnums=0)
        kept = [left]

        def run() -> Any:
            kept[0] = added(kept[0], right)
            return kept[0]

        return self._timed(run)

    def _product(self, dtype: Any) -> float:
        """Operations per second of a product of matrices."""
        matrices = [self._ones((_SIDE * len(self.devices), _SIDE), dtype) for _ in range(2)]
        return 2 * _MICRO * _SIDE**3 / self._timed_on_all(lambda left, right: left @ right, matrices)

    def _memory_bytes(self) -> int:
        """The memory of a device, or its share of the machine's."""
        stats = self.devices[0].memory_stats() or {}
        limit = stats.get("bytes_limit")
        return int(limit) if limit else psutil.virtual_memory().total // len(self.devices)

    def _ones(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
        """An array that is divided along its first axis among the devices."""
        sharding = self._jax.sharding.NamedSharding(self._mesh, self._jax.sharding.PartitionSpec("d"))
        return self._jax.device_put(self._jax.numpy.ones(shape, dtype), sharding)

    def _timed_on_all(self, program: Callable[..., Any], arrays: list[Any]) -> float:
        spec = self._jax.sharding.PartitionSpec("d")
        mapped = self._jax.shard_map(program, mesh=self._mesh, in_specs=(spec,) * len(arrays), out_specs=spec)
        compiled = self._jax.jit(mapped)
        return self._timed(lambda: compiled(*arrays))

    def _timed(self, run: Callable[[], Any]) -> float:
        """The microseconds of the fastest run after the first one: other load only adds time."""
        self._jax.block_until_ready(run())
        found: list[float] = []
        end = time.perf_counter() + self._seconds
        while len(found) < _LEAST_RUNS or (time.perf_counter() < end and len(found) < _MOST_RUNS):
            start = time.perf_counter()
            self._jax.block_until_ready(run())
            found.append((time.perf_counter() - start) * _MICRO)
        return min(found)


def sizes(largest: int) -> tuple[int, ...]:
    """The bytes of tensors up to the largest, two at least."""
    found = [LEAST_BYTES, 4 * LEAST_BYTES]
    while 4 * found[-1] <= largest:
        found.append(4 * found[-1])
    return tuple(found)


def measure(
    arguments: Mapping[str, object], progress: Callable[[dict[str, object]], None]
) -> dict[str, object]:
    """Runs in a child process: all measurements, as JSON values.

    ``arguments`` are the ``kinds``, the ``largest`` bytes, the number of ``devices`` and the number of
    ``virtual`` ones, used if JAX sees a CPU only.
    """
    given, virtual = cast("int | None", arguments["devices"]), cast("int", arguments["virtual"])
    is_host = load_jax().default_backend() == "cpu"
    timer = CollectiveTimer(virtual if is_host and given is None else given)
    kinds = [CollectiveKind(kind) for kind in cast("list[str]", arguments["kinds"])]
    progress({"measuring": "peaks of a device"})
    peaks = timer.peaks()
    samples: dict[str, list[tuple[int, float]]] = {}
    for kind in (*kinds, CollectiveKind.SEND):
        for size in sizes(cast("int", arguments["largest"])):
            progress({"measuring": f"{kind} of {size >> 10} KiB"})
            one = timer.send(size) if kind is CollectiveKind.SEND else timer.collective(kind, size)
            samples.setdefault(kind, []).append(one)
    return {
        **timer.description,
        "peaks": {
            "flops": peaks.flops,
            "half_flops": peaks.half_flops,
            "memory_bandwidth": peaks.memory_bandwidth,
            "launch": peaks.launch,
            "memory_bytes": peaks.memory_bytes,
        },
        "samples": samples,
    }
