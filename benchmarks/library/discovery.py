"""Measures discovery: terms, classes, equations and candidates of presets by size, processor seconds, peak
memory.

    python -m benchmarks discovery [PRESET[:SIZE] ...] [--only enumerate] [--threads 1] [--device cuda]

Each row is one process of its own: without a size the preset's own. Equations are those distinct up to
renaming. ``--only enumerate`` leaves pairing and pruning out and shows how many terms are recorded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace

from superopt.domains import arrays
from superopt.domains.arrays import DEVICES
from superopt.generator import generate, in_process, load_preset, preset_names
from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.run.usage import peak_memory_bytes

HEADER = (
    "| preset | operators | terms | classes | equations | kept | CPU s | peak MB |",
    "|---|---|---|---|---|---|---|---|",
)


def main() -> int:
    """Prints the table, row by row; 1 if a row failed."""
    parser = argparse.ArgumentParser(prog="benchmarks discovery", description=__doc__)
    parser.add_argument("presets", nargs="*", help="NAME or NAME:SIZE; default: all, at their own sizes")
    parser.add_argument("--only", choices=["all", "enumerate"], default="all")
    parser.add_argument("--threads", type=int, default=1, help="of BLAS; more may cost processor time")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="what values are computed on")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        name, _, size = arguments.presets[0].partition(":")
        max_ops = int(size) if size else load_preset(name).max_ops
        measure = enumerated if arguments.only == "enumerate" else generated
        row = measure(name, max_ops, arguments.device)
        sys.stdout.write(row + "\n")
        return 0
    sys.stdout.writelines(line + "\n" for line in HEADER)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(arguments.threads)}
    failed = 0
    options = ["--only", arguments.only, "--device", arguments.device, "--row"]
    for preset in arguments.presets or preset_names():
        command = [sys.executable, "-m", "benchmarks.library.discovery", preset, *options]
        sys.stdout.flush()
        failed |= subprocess.run(command, env=environment, check=False).returncode != 0
    return int(failed)


def enumerated(name: str, max_ops: int, device: str = "cpu") -> str:
    """The row of an enumeration alone, with the recorded terms."""
    started = time.process_time()
    terms = classes = recorded = 0
    for stage in load_preset(name).stages_to(max_ops):
        enumeration = Enumeration(stage, device=arrays.device(device)).complete()
        terms += sum(level.terms for level in enumeration.levels)
        classes += enumeration.levels[-1].classes
        recorded += len(enumeration.terms.classes)
    return row_of(name, max_ops, terms, classes, f"{recorded} terms |", time.process_time() - started)


def generated(name: str, max_ops: int, device: str = "cpu") -> str:
    """The row of a generation."""
    started = time.process_time()
    made = generate(load_preset(name), max_ops=max_ops, workers=replace(in_process(), device=device))
    terms = sum(level.terms for level in made.levels)
    seconds = time.process_time() - started
    found = f"{made.distinct} | {made.kept}"
    return row_of(name, max_ops, terms, made.levels[-1].classes, found, seconds)


def row_of(name: str, max_ops: int, terms: int, classes: int, found: str, seconds: float) -> str:
    """A line of the table, for this process; ``found`` has two cells."""
    megabytes = peak_memory_bytes() / 1e6
    return f"| {name} | {max_ops} | {terms} | {classes} | {found} | {seconds:.1f} | {megabytes:.0f} |"


if __name__ == "__main__":
    sys.exit(main())
