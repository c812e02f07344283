"""Peak memory of `superopt optimize` on large models, over all its processes, and its wall time.

    python -m benchmarks job_memory [--models vgg19 bert-base bert-large] [--budget 60] [--out DIR]

Models are of the zoo, or ONNX files. *Own* is anonymous and shared memory: what the system cannot take back
while the job runs. *Mapped* are pages of files: weights that ONNX Runtime reads where they are on disk, and
libraries; the system drops them where memory is short. Both are proportional set sizes, summed over the
processes, so that pages that several of them use count once. Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from superopt.journeys.supervision import guaranteed_seconds
from superopt.protobuf_wire import external_bytes

MODELS = ("vgg19", "bert-base", "bert-large")
HEADER = (
    "| model | MB | own MB | ratio | with mapped MB | ratio | budget s | took s | promised s | returned |",
    "|---|---|---|---|---|---|---|---|---|---|",
)
_SAMPLE_SECONDS = 0.02
_KILOBYTE = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that processes use at one time, or the peaks of both numbers."""

    own: int = 0
    mapped: int = 0

    @property
    def total(self) -> int:
        """Bytes of both kinds."""
        return self.own + self.mapped

    def plus(self, other: Memory) -> Memory:
        """The memory of two processes."""
        return Memory(self.own + other.own, self.mapped + other.mapped)


@dataclass(frozen=True, slots=True)
class Job:
    """One optimization: peaks of its own memory and of all, wall seconds, and what it returned."""

    own: int
    total: int
    seconds: float
    returned: str

    def row(self, name: str, size: int, budget: float) -> str:
        """The row of the table."""
        cells = (
            name,
            f"{size / 1e6:.0f}",
            f"{self.own / 1e6:.0f}",
            f"{self.own / size:.2f}",
            f"{self.total / 1e6:.0f}",
            f"{self.total / size:.2f}",
            f"{budget:g}",
            f"{self.seconds:.1f}",
            f"{guaranteed_seconds(budget):.1f}",
            self.returned,
        )
        return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks job_memory", description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("build/job-memory"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    sys.stdout.write("\n".join(HEADER) + "\n")
    for name in given.models:
        path = _built(name, given.out)
        size = path.stat().st_size + external_bytes(path)
        job = optimized(path, given.budget, given.out)
        sys.stdout.write(job.row(path.stem, size, given.budget) + "\n")
        sys.stdout.flush()


def _built(name: str, directory: Path) -> Path:
    if name.endswith(".onnx"):
        return Path(name)
    path = directory / f"{name}.onnx"
    if not path.exists():
        command = [sys.executable, "-m", "superopt", "zoo", "build", name, "-o", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def optimized(model: Path, budget: float, directory: Path) -> Job:
    """Optimises a model with one thread by the command line, and looks at the memory of its processes."""
    (directory / "optimized").mkdir(exist_ok=True)
    out, report = directory / "optimized" / "model.onnx", directory / "report.json"
    command = [sys.executable, "-m", "superopt", "optimize", str(model), "-o", str(out)]
    began = time.monotonic()
    running = subprocess.Popen(
        [*command, "--budget", str(budget), "--threads", "1", "--report", str(report)],
        stdout=subprocess.DEVNULL,
    )
    own = total = 0
    while running.poll() is None:
        found = _memory_of(running.pid)
        own, total = max(own, found.own), max(total, found.total)
        time.sleep(_SAMPLE_SECONDS)
    seconds = time.monotonic() - began
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    return Job(own, total, seconds, str(json.loads(report.read_text("utf-8"))["returned"]))


def _memory_of(pid: int) -> Memory:
    """The memory of a process and its descendants."""
    found = Memory()
    try:
        process = psutil.Process(pid)
        pids = [pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return found
    for one in pids:
        with suppress(OSError):  # it has just ended
            found = found.plus(memory_in(Path(f"/proc/{one}/smaps_rollup").read_text("ascii")))
    return found


def memory_in(rollup: str) -> Memory:
    """The memory of a process from its ``smaps_rollup``, which is empty once it has ended."""
    sizes = {
        line.split(":")[0]: int(line.split()[1]) * _KILOBYTE
        for line in rollup.splitlines()
        if line.endswith(" kB")
    }
    own = sizes.get("Pss_Anon", 0) + sizes.get("Pss_Shmem", 0)
    return Memory(own, sizes.get("Pss", 0) - own)


if __name__ == "__main__":
    main()
