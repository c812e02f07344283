"""Builds every network of the zoo and tells its size, what of it is opaque, and how long it runs.

    python -m benchmarks zoo [NETWORK ...] [--out build/zoo] [--seconds 3]

Each network is written by ``superopt zoo build``, checked, lifted, and run in ONNX Runtime on one thread, in
a process of its own; its files are removed. ``latency`` is the least processor time of a run, ``varies`` the
deviation of outputs over three random inputs beside their root mean square, ``build`` the peak memory of
``zoo build``. The largest network, mlp, needs 5 GB of disk and 9 GB of memory.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.models.zoo_measures import measure
from superopt import zoo

HEADER = (
    "| network | nodes | parameters | published | file | build | opaque nodes | varies | latency |",
    "|---|---|---|---|---|---|---|---|---|",
)


def main() -> None:
    """Prints the table row by row and writes it to ``zoo.md``."""
    parser = argparse.ArgumentParser(prog="benchmarks zoo", description=__doc__)
    parser.add_argument("networks", nargs="*", help="names of the zoo; default: all")
    parser.add_argument("--out", type=Path, default=Path("build/zoo"))
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each network is run")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows: list[str] = []
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as executor:
        for name in arguments.networks or zoo.names():
            row = executor.submit(measure, name, arguments.out, arguments.seconds).result()
            sys.stdout.write(row + "\n")
            sys.stdout.flush()
            rows.append(row)
    (arguments.out / "zoo.md").write_text("\n".join((*HEADER, *rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
