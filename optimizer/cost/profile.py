"""Cost profiles: kernel costs of a device as a JSON Lines file, for searches on other machines.

The first line records what was measured, how and when; each further line is a kernel: its key, latency in
microseconds, operators, and the operation and byte counts of the analytic estimate.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import cast

from superopt.errors import InvalidFileError
from superopt.files import write_atomically
from superopt.optimizer.cost.kernels.kernel import main_operator
from superopt.optimizer.cost.latency import METHOD, Latency, key_prefix, stored_costs
from superopt.optimizer.cost.measuring.measurer import Measurement
from superopt.optimizer.cost.roofline import PROBES
from superopt.optimizer.cost.runtime.session import Provider, device_name, driver_version, runtime_version

KIND = "superopt cost profile"
SCHEMA = 2


@dataclass(frozen=True, slots=True)
class KernelCost:
    """A kernel: its fingerprint, microseconds, whether its result is in the runtime's layout for images, how
    many of the microseconds convert its inputs out of that layout, its operators, and the microseconds that
    the device's peaks alone imply."""

    key: str
    us: float
    blocked: bool
    restoring_us: float
    operators: str
    analytic_us: float


@dataclass(frozen=True)
class CostProfile:
    """Costs of one device. ``peaks`` are the microseconds of the kernels that determine its peaks."""

    target: str
    device: str
    driver: str | None
    runtime: str
    threads: int
    method: str
    date: str
    peaks: Mapping[str, float]
    entries: tuple[KernelCost, ...]

    @property
    def name(self) -> str:
        """Target name of the device: lower case, with hyphens."""
        return re.sub(r"[^a-z0-9.]+", "-", self.device.lower()).strip("-")

    @property
    def prefix(self) -> str:
        """Prefix of its keys in a cost store."""
        return key_prefix(self.device, self.runtime, self.threads)

    def costs(self) -> dict[str, float]:
        """All entries for a cost store."""
        costs = {f"{self.prefix}roofline/{name}": us for name, us in self.peaks.items()}
        ratios: dict[str, list[float]] = defaultdict(list)
        for entry in self.entries:
            measurement = Measurement(entry.us, entry.blocked, entry.restoring_us)
            costs.update(stored_costs(f"{self.prefix}{entry.key}", measurement))
            for name in (main_operator(entry.operators.split()), "any"):
                ratios[name].append(entry.us / entry.analytic_us)
        costs.update((f"{self.prefix}slowness/{name}", median(found)) for name, found in ratios.items())
        return costs

    def write(self, path: Path) -> None:
        """Writes the profile atomically."""
        head: dict[str, object] = {"schema": SCHEMA, "kind": KIND, "name": self.name, "unit": "us"}
        for name in ("target", "device", "driver", "runtime", "threads", "method", "date"):
            head[name] = getattr(self, name)
        lines = [{**head, "peaks": dict(self.peaks)}, *map(asdict, self.entries)]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_atomically(path, text.encode())


def profile_of(objective: Latency, provider: Provider, date: str) -> CostProfile:
    """All measurements of an objective in this process."""
    entries = (
        KernelCost(
            kernel.fingerprint,
            round(measurement.microseconds, 3),
            measurement.blocked,
            round(measurement.restoring, 3),
            kernel.operators,
            round(objective.roofline.microseconds(kernel), 3),
        )
        for kernel, measurement in objective.recorded.items()
    )
    return CostProfile(
        target=provider.value,
        device=device_name(provider),
        driver=driver_version(provider),
        runtime=runtime_version(),
        threads=objective.threads,
        method=METHOD,
        date=date,
        peaks=objective.peaks,
        entries=tuple(sorted(entries, key=lambda entry: (entry.operators, entry.key))),
    )


def read_profile(path: Path) -> CostProfile:
    """Reads a profile; raises InvalidFileError naming the invalid line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFileError(f"{path}: cannot be read as a cost profile: {error}") from None
    head = _object(path, 1, lines[0] if lines else "")
    if head.get("kind") != KIND or head.get("schema") != SCHEMA:
        raise InvalidFileError(f"{path}, line 1: expected the head of a {KIND} of schema {SCHEMA}")
    method = head.get("method")
    if method != METHOD:
        raise InvalidFileError(
            f"{path}: measured by method {method}, this version uses method {METHOD}; profile again"
        )
    peaks = head.get("peaks")
    if not isinstance(peaks, dict) or set(cast("dict[str, object]", peaks)) != set(PROBES):
        raise InvalidFileError(f"{path}, line 1: expected peaks of {', '.join(PROBES)}")
    driver = head.get("driver")
    return CostProfile(
        target=_one_of(path, head, "target", tuple(Provider)),
        device=_text(path, head, "device"),
        driver=driver if isinstance(driver, str) else None,
        runtime=_text(path, head, "runtime"),
        threads=int(_number(path, 1, head, "threads")),
        method=METHOD,
        date=_text(path, head, "date"),
        peaks={name: _number(path, 1, cast("Mapping[str, object]", peaks), name) for name in PROBES},
        entries=tuple(_entries(path, lines[1:])),
    )


def _entries(path: Path, lines: Iterable[str]) -> Iterable[KernelCost]:
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        found = _object(path, number, line)
        key, operators = found.get("key"), found.get("operators")
        if not isinstance(key, str) or not isinstance(operators, str):
            raise InvalidFileError(f"{path}, line {number}: expected a key and operators, as text")
        us, analytic = (_number(path, number, found, name) for name in ("us", "analytic_us"))
        restoring = _number(path, number, found, "restoring_us") if found.get("restoring_us") else 0.0
        yield KernelCost(key, us, found.get("blocked") is True, restoring, operators, analytic)


def _object(path: Path, number: int, line: str) -> Mapping[str, object]:
    try:
        found: object = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidFileError(f"{path}, line {number}: expected a JSON object")
    return cast("Mapping[str, object]", found)


def _text(path: Path, head: Mapping[str, object], name: str) -> str:
    value = head.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidFileError(f"{path}, line 1: expected {name} as text, got {value!r}")
    return value


def _one_of(path: Path, head: Mapping[str, object], name: str, allowed: tuple[str, ...]) -> str:
    value = _text(path, head, name)
    if value not in allowed:
        raise InvalidFileError(
            f"{path}, line 1: expected {name} as one of {', '.join(allowed)}, got {value!r}"
        )
    return value


def _number(path: Path, number: int, found: Mapping[str, object], name: str) -> float:
    value = found.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        raise InvalidFileError(f"{path}, line {number}: expected {name} as a number above 0, got {value!r}")
    return float(value)


__all__ = ["CostProfile", "KernelCost", "profile_of", "read_profile"]
