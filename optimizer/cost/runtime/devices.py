"""Device on which costs are measured: name, driver and clock."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# CuPy may be absent, and ships no types that hold.

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

_NVIDIA = Path("/proc/driver/nvidia")


def physical_cores() -> int:
    """Number of cores that run at full speed in parallel."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


@cache
def processor_name() -> str:
    """The processor: its name and a hash of its features."""
    name, facts = platform.processor() or platform.machine(), platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().split("\n\n")[0].splitlines()
        fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        name = fields.get("model name", name)
        kept = ("vendor_id", "cpu family", "model", "model name", "cache size", "flags", "Features")
        facts = "|".join(fields.get(key, "") for key in kept)
    return f"{name} {hashlib.blake2b(facts.encode(), digest_size=4).hexdigest()}"


def accelerator_name() -> str:
    """The first NVIDIA device as named by its driver; empty if there is none."""
    for path in sorted(_NVIDIA.glob("gpus/*/information")):
        for line in path.read_text().splitlines():
            if line.startswith("Model:"):
                return line.partition(":")[2].strip()
    return ""


def accelerator_driver() -> str | None:
    """The version line of the NVIDIA driver, None where there is none."""
    path = _NVIDIA / "version"
    return path.read_text().splitlines()[0].strip() if path.exists() else None


class DeviceEvents:
    """CUDA events on a separate stream."""

    def __init__(self, cupy: Any) -> None:
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._start, self._stop = cupy.cuda.Event(), cupy.cuda.Event()
        self._elapsed = cupy.cuda.get_elapsed_time

    @property
    def stream(self) -> int:
        """The address of the stream."""
        return int(self._stream.ptr)

    def microseconds(self, run: Callable[[], object]) -> float:
        """Device time of the work submitted to the stream."""
        self._start.record(self._stream)
        run()
        self._stop.record(self._stream)
        self._stop.synchronize()
        return 1000 * float(self._elapsed(self._start, self._stop))


@cache
def device_events() -> DeviceEvents | None:
    """Timing by the device's clock; None without CuPy or without a device."""
    if find_spec("cupy") is None:
        return None
    import cupy  # pyright: ignore[reportMissingImports]

    return DeviceEvents(cupy) if cupy.cuda.is_available() else None
