"""Peak resident memory of a run of a model, measured in a process of its own.

As a program: ``python -m superopt.optimizer.cost.resident MODEL ARRAYS.npz THREADS``, where ``ARRAYS`` holds
the inputs, and under ``PLACED + NAME`` the outputs whose memory is the caller's.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# ONNX Runtime ships no types.

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from superopt.optimizer.cost.runtime.archives import write_archive
from superopt.optimizer.cost.runtime.memory_session import plan_in, realise

if TYPE_CHECKING:
    from superopt.optimizer.cost.runtime.session import Array, ModelFile

PLACED = "placed:"
"""Prefix of the names of outputs among the arrays."""

_SESSION, _SESSION_PER_NODE = 8_500_000, 7_000
"""Bytes of a session, fitted to models with 3 to 2,912 nodes."""

_RUNS = 2
_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Resident:
    """Peak bytes of a process while a model is loaded and runs, beyond those before it was loaded, and the
    milliseconds of the last run."""

    bytes: int
    milliseconds: float


def session_bytes(nodes: int) -> int:
    """Bytes that the runtime needs for the graph itself, beside weights and tensors."""
    return _SESSION + _SESSION_PER_NODE * nodes


def resident_bytes(
    model: ModelFile,
    feeds: Mapping[str, Array],
    placed: Mapping[str, Array],
    threads: int,
    seconds: float = 600.0,
) -> Resident | None:
    """Measures the peak of a model on these inputs; ``placed`` are the outputs whose memory is the caller's.
    None where no process can be started or ends in time, or the system does not tell."""
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        path = model if isinstance(model, Path) else Path(directory) / "model.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
        arrays = Path(directory) / "arrays.npz"
        named = {f"{PLACED}{name}": array for name, array in placed.items()}
        write_archive(arrays, {**feeds, **named})
        command = [sys.executable, "-m", "superopt.optimizer.cost.resident"]
        try:
            ended = subprocess.run(
                [*command, str(path), str(arrays), str(threads)],
                capture_output=True,
                timeout=seconds,
                check=True,
            )
            found = cast("dict[str, float]", json.loads(ended.stdout))
        except (OSError, subprocess.SubprocessError, ValueError):
            return None
    return Resident(int(found["bytes"]), found["milliseconds"])


def _measured(path: Path, arrays: Path, threads: int) -> Resident:
    """Loads and runs a model in this process."""
    import onnxruntime

    given = dict(np.load(arrays))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    realise(plan_in(path), options, onnxruntime)
    own = sum(array.nbytes for array in given.values())
    before = _resident("VmRSS") - own
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in given.items():
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        if name.startswith(PLACED):
            binding.bind_ortvalue_output(name.removeprefix(PLACED), value(array))
        else:
            binding.bind_ortvalue_input(name, value(array))
    for output in session.get_outputs():
        if f"{PLACED}{output.name}" not in given:
            binding.bind_output(output.name, "cpu")
    Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    milliseconds = 0.0
    for _ in range(_RUNS):
        started = time.perf_counter()
        session.run_with_iobinding(binding)
        milliseconds = 1000 * (time.perf_counter() - started)
    return Resident(_resident("VmHWM") - before, milliseconds)


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"the system does not tell {field}")


def _main() -> None:
    model, arrays, threads = sys.argv[1:]
    found = _measured(Path(model), Path(arrays), int(threads))
    sys.stdout.write(json.dumps({"bytes": found.bytes, "milliseconds": found.milliseconds}))


if __name__ == "__main__":
    _main()
