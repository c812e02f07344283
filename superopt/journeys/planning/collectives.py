"""Times of collectives of the devices at hand, fitted, as a cluster description."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import yaml

from superopt.errors import InvalidOptionError, UnjudgedError
from superopt.files import write_atomically
from superopt.optimizer.parallel.communication import CollectiveKind
from superopt.optimizer.parallel.documents.cluster import MAX_DEVICES, MEASURED_KINDS
from superopt.optimizer.parallel.execution.collective_times import LEAST_BYTES, DevicePeaks
from superopt.optimizer.parallel.execution.jax_devices import VIRTUAL_DEVICES
from superopt.optimizer.parallel.linear_fit import LinearFit, Sample, fitted
from superopt.optimizer.parallel.topology import LinearTime
from superopt.processes.child import JsonObject, ResourceLimits, result_of, run_in_child

LARGEST = 16 << 20
"""Default bytes of the largest tensor that is exchanged."""

_VIRTUAL = 4
"""Virtual devices where there is a CPU only."""

_MOST_BYTES = 1 << 32
_SECONDS = 1800.0
_MEASURE = "superopt.optimizer.parallel.execution.collective_times:measure"
_SLOWEST = 1000.0
"""The lowest bandwidth of a description, in bytes per second."""


@dataclass(frozen=True)
class MeasuredCluster:
    """Devices as JAX sees them: their kind, number, platform, JAX's version, peaks of one, fitted times of
    collectives of all of them, and of sending from one to another."""

    device: str
    platform: str
    devices: int
    jax: str
    peaks: DevicePeaks
    collectives: Mapping[CollectiveKind, LinearFit]
    link: LinearFit

    @property
    def description(self) -> Mapping[str, object]:
        """The cluster description, one node with these devices."""
        peaks = self.peaks
        device = {
            "name": self.device[:100],
            "flops": f"{peaks.flops / 1e9:.3f} GFLOP/s",
            "half_flops": f"{peaks.half_flops / 1e9:.3f} GFLOP/s",
            "memory_bandwidth": f"{peaks.memory_bandwidth / 1e9:.6f} GB/s",
            "launch": f"{peaks.launch:.3f} us",
        }
        node = {
            "devices": self.devices,
            "device": device,
            "memory": f"{peaks.memory_bytes} B",
            "link": _quantities(self.link.time),
        }
        return {
            "name": f"{self.devices}-{self.platform}",
            "nodes": [node],
            "collectives": {str(kind): _quantities(fit.time) for kind, fit in self.collectives.items()},
        }

    def write(self, path: Path) -> None:
        """Writes the description, in YAML, atomically."""
        head = (
            f"# superopt profile --collectives: {self.devices} x {self.device} ({self.platform}), "
            f"JAX {self.jax}, {datetime.now(UTC).date().isoformat()}\n"
        )
        text = head + yaml.safe_dump(dict(self.description), sort_keys=False, default_flow_style=None)
        write_atomically(path, text.encode())

    def document(self) -> JsonObject:
        """Everything as JSON values, with each measured and predicted time."""
        fits = {**self.collectives, CollectiveKind.SEND: self.link}
        return {
            "device": self.device,
            "platform": self.platform,
            "devices": self.devices,
            "jax": self.jax,
            "peaks": asdict(self.peaks),
            "collectives": {str(kind): _fit_document(fit) for kind, fit in fits.items()},
        }


def measure_collectives(
    devices: int | None, largest: int, progress: Callable[[str], None]
) -> MeasuredCluster:
    """Measures collectives of the devices that JAX sees, or of the first so many; where it sees a CPU only,
    of as many virtual devices, 4 by default. ``largest`` are the bytes of the largest tensor.

    Raises InvalidOptionError, MissingServiceError without JAX or with too few devices, UnjudgedError where
    the measurement ends early.
    """
    if devices is not None and not 2 <= devices <= MAX_DEVICES:
        raise InvalidOptionError(f"devices: expected from 2 to {MAX_DEVICES}, got {devices}")
    if not 4 * LEAST_BYTES <= largest <= _MOST_BYTES:
        raise InvalidOptionError(
            f"largest: expected from {4 * LEAST_BYTES >> 10} KiB to {_MOST_BYTES >> 30} GiB, got {largest} B"
        )
    virtual = devices or _VIRTUAL
    arguments = {
        "kinds": [str(kind) for kind in MEASURED_KINDS],
        "largest": largest,
        "devices": devices,
        "virtual": virtual,
    }
    flags = f"{os.environ.get('XLA_FLAGS', '')} {VIRTUAL_DEVICES}={virtual}".strip()
    ending = run_in_child(
        _MEASURE,
        arguments,
        ResourceLimits(_SECONDS),
        on_progress=lambda message: progress(str(message["measuring"])),
        environment={"XLA_FLAGS": flags},
    )
    found = result_of(
        ending,
        lambda: UnjudgedError(f"collectives: the measurement ended early: {ending}; try a smaller --largest"),
    )
    return measured_cluster(found)


def measured_cluster(found: JsonObject) -> MeasuredCluster:
    """The cluster, from what ``collective_times.measure`` returned."""
    samples = cast("Mapping[str, list[tuple[int, float]]]", found["samples"])
    fits = {CollectiveKind(kind): fitted([Sample(*one) for one in own]) for kind, own in samples.items()}
    return MeasuredCluster(
        str(found["device"]),
        str(found["platform"]),
        cast("int", found["devices"]),
        str(found["jax"]),
        DevicePeaks(**cast("Mapping[str, float]", found["peaks"])),  # pyright: ignore[reportArgumentType]
        {kind: fits[kind] for kind in MEASURED_KINDS},
        fits[CollectiveKind.SEND],
    )


def bandwidth_of(time: LinearTime) -> float:
    """Bytes per second: 1 / C; the largest of a description where more bytes take no longer."""
    return max(_SLOWEST, min(1e15, 1e6 / max(time.per_byte, 1e-12)))


def _quantities(time: LinearTime) -> Mapping[str, str]:
    return {"bandwidth": f"{bandwidth_of(time):.0f} B/s", "latency": f"{time.fixed:.3f} us"}


def _fit_document(fit: LinearFit) -> JsonObject:
    return {
        "us_per_byte": fit.time.per_byte,
        "us": fit.time.fixed,
        "samples": [
            {"bytes": one.bytes, "us": round(one.microseconds, 3), "residual": round(residual, 4)}
            for one, residual in zip(fit.samples, fit.residuals, strict=True)
        ],
    }
