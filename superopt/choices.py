"""What options of the main job may be, as far as that is known without loading what does it."""

from __future__ import annotations

import math
from pathlib import Path

from superopt.errors import InvalidOptionError
from superopt.files import is_stream, require_writable, written_file

OBJECTIVES = ("latency", "throughput", "flops", "memory", "traffic", "launches")
"""What one device is optimised for; several devices also for training."""

REPORT_SUFFIXES = (".json", ".html")

RUNTIMES = ("portable", "onnxruntime")
"""Which operators may be written: standard ONNX ones, or the runtime's own too, of which none is so far."""


def require_runtime(runtime: str | None) -> None:
    """Raises InvalidOptionError for a runtime that is not known; None is portable."""
    if runtime is not None and runtime not in RUNTIMES:
        raise InvalidOptionError(f"runtime: expected one of {', '.join(RUNTIMES)}, got {runtime!r}")


def require_report_path(path: Path) -> None:
    """Raises InvalidOptionError unless a report can be written there, and the path says of which kind."""
    if path.suffix.lower() not in REPORT_SUFFIXES:
        raise InvalidOptionError(f"report: expected a file ending in .json or .html, got {path}")
    require_writable(path)


def require_budget(seconds: float) -> None:
    """Raises InvalidOptionError for a budget in which nothing can be done."""
    if not 0 < seconds < math.inf:
        raise InvalidOptionError(f"budget: expected seconds above 0, got {seconds!r}")


def require_apart(*written: Path | None) -> None:
    """Raises InvalidOptionError where two of the files to write are one."""
    files: dict[Path, Path] = {}
    for path in written:
        if path is None or is_stream(path):
            continue
        file = written_file(path).resolve()
        if file in files:
            raise InvalidOptionError(
                f"{path}: expected a file of its own for each result, and {files[file]} is the same one"
            )
        files[file] = path
