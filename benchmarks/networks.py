"""Optimises every network of the zoo in a process of its own and prints a table of measured ratios.

    python -m benchmarks networks [NETWORK ...] [--budget 60] [--threads N] [--out build/bench]

Each row is one run of ``superopt optimize``: both models interleaved in ONNX Runtime at its highest
optimisation level; the ratio is before / after with its confidence interval. Each trace is replayed and
compared byte for byte.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from superopt import zoo


def main() -> None:
    """Runs the networks that were named, or all, and writes ``networks.md`` and the reports."""
    parser = argparse.ArgumentParser(prog="benchmarks networks", description=__doc__)
    parser.add_argument("networks", nargs="*", help="names of the zoo; default: all")
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    rows: list[str] = []
    for name in arguments.networks or zoo.names():
        row = measure(name, arguments.budget, arguments.threads, out)
        sys.stdout.write(row + "\n")
        sys.stdout.flush()
        rows.append(row)
    (out / "networks.md").write_text("\n".join((*HEADER, *rows)) + "\n", encoding="utf-8")


HEADER = (
    "| network | nodes | ratio | interval | rules applied | steps | search s | returned | replay |",
    "|---|---|---|---|---|---|---|---|---|",
)


def measure(name: str, budget: float, threads: int, out: Path) -> str:
    """One row of the table."""
    model, optimised, again = (out / f"{name}{ending}.onnx" for ending in ("", "-optimized", "-replayed"))
    report_path = out / f"{name}.json"
    superopt("zoo", "build", name, "-o", model)
    superopt(
        *("optimize", model, "-o", optimised, "--report", report_path),
        *("--budget", budget, "--threads", threads),
    )
    superopt("replay", model, report_path, "-o", again)
    same = optimised.read_bytes() == again.read_bytes()
    report = cast("Mapping[str, object]", json.loads(report_path.read_text(encoding="utf-8")))
    for path in (model, optimised, again):
        path.unlink()
    return row_of(name, report, "same bytes" if same else "DIFFERENT")


def row_of(name: str, report: Mapping[str, object], replay: str) -> str:
    """The row that a report gives."""
    model, rules, search = (cast("Mapping[str, object]", report[key]) for key in ("model", "rules", "search"))
    measured = cast("Mapping[str, object] | None", report["measured"])
    low, high = cast("Sequence[float]", measured["interval"]) if measured else (1.0, 1.0)
    returned = report["returned"]
    ratio = f"{measured['ratio']:.3f}" if measured and returned == "optimized" else "1 (unchanged)"
    cells = (
        name,
        f"{model['nodes_before']} -> {model['nodes_after']}",
        ratio,
        f"{low:.3f} to {high:.3f}" if measured else "",
        rules["applied"],
        len(cast("Sequence[object]", report["trace"])),
        search["seconds"],
        returned,
        replay,
    )
    return f"| {' | '.join(map(str, cells))} |"


def superopt(*arguments: object) -> None:
    """Runs a command; its failure ends the benchmark with its message."""
    done = subprocess.run(
        [sys.executable, "-m", "superopt", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"superopt {arguments[0]} exited with {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    main()
