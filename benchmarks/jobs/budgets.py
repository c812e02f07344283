"""Whether the budget holds: models of 5 to 10,000 nodes and up to 575 MB, on a machine that is loaded.

    python -m benchmarks budgets [--budgets 5 15 60] [--load 4] [--models dense-100 vgg19] [--out DIR]

Each model is optimised by the command line, while ``--load`` other processes compute. ``took``
is the wall time of the whole command, ``promised`` 1.1 times the budget and 3 s, ``peak`` the resident memory
of all its processes. Ends with 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper, numpy_helper

from superopt.journeys.supervision import guaranteed_seconds

MODELS = ("dense-5", "dense-100", "dense-2000", "dense-10000", "squeezenet", "bert-base", "vgg19")
"""``dense-N`` has N nodes; the others are of the zoo."""

_WIDTH = 32
_SAMPLE_SECONDS = 0.02
HEADER = (
    "| model | nodes | MB | budget | took | promised | peak MB | returned | why |",
    "|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Run:
    """One command: its wall time, the peak of resident memory of its processes in bytes, and its report."""

    seconds: float
    peak: int
    code: int
    report: dict[str, object]


def main() -> None:
    """Prints the table row by row and writes it to ``budgets.md``."""
    parser = argparse.ArgumentParser(prog="benchmarks budgets", description=__doc__)
    parser.add_argument("--budgets", type=float, nargs="+", default=[5.0, 15.0, 60.0])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--load", type=int, default=4, help="how many other processes compute meanwhile")
    parser.add_argument("--out", type=Path, default=Path("build/budgets"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows, broken = list[str](), 0
    with _computing(arguments.load):
        for name in arguments.models:
            path = _built(name, arguments.out)
            for budget in arguments.budgets:
                found = _optimized(path, budget, arguments.out)
                broken += found.seconds > guaranteed_seconds(budget) or found.code != 0
                rows.append(_row(name, path, budget, found))
                sys.stdout.write(rows[-1] + "\n")
                sys.stdout.flush()
    (arguments.out / "budgets.md").write_text("\n".join((*HEADER, *rows)) + "\n", encoding="utf-8")
    sys.exit(1 if broken else 0)


def _row(name: str, path: Path, budget: float, found: Run) -> str:
    model = found.report["model"]
    assert isinstance(model, dict)
    cells = (
        name,
        model["nodes_before"],
        f"{path.stat().st_size / 1e6:.0f}",
        f"{budget:g}",
        f"{found.seconds:.1f}",
        f"{guaranteed_seconds(budget):.1f}",
        f"{found.peak / 1e6:.0f}",
        found.report["returned"],
        str(found.report["why"]).partition(":")[0],
    )
    return f"| {' | '.join(map(str, cells))} |"


def _optimized(model: Path, budget: float, directory: Path) -> Run:
    out, report = directory / "out.onnx", directory / "report.json"
    began = time.monotonic()
    command = [sys.executable, "-m", "superopt", "optimize", str(model), "-o", str(out)]
    running = subprocess.Popen(
        [*command, "--budget", str(budget), "--threads", "1", "--report", str(report)],
        stdout=subprocess.DEVNULL,
    )
    peak = 0
    while running.poll() is None:
        peak = max(peak, _resident(running.pid))
        time.sleep(_SAMPLE_SECONDS)
    seconds = time.monotonic() - began
    onnx.checker.check_model(str(out))
    return Run(seconds, peak, running.returncode, json.loads(report.read_text()))


def _resident(pid: int) -> int:
    total = 0
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            total += int(one.memory_info().rss)
    except psutil.Error:
        pass
    return total


@contextmanager
def _computing(count: int) -> Generator[None]:
    """While the block runs, so many other processes compute."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _built(name: str, directory: Path) -> Path:
    path = directory / f"{name}.onnx"
    if not path.exists():
        if name.startswith("dense-"):
            onnx.save(dense(int(name.removeprefix("dense-"))), path)
        else:
            command = [sys.executable, "-m", "superopt", "zoo", "build", name, "-o", str(path)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def dense(nodes: int) -> onnx.ModelProto:
    """Residual blocks of a product, a bias and a gated activation: about so many nodes."""
    random = np.random.default_rng(0)
    made, weights, current = list[onnx.NodeProto](), list[onnx.TensorProto](), "x"
    while len(made) < nodes:
        block = f"b{len(made)}"
        for name, shape in (("w", (_WIDTH, _WIDTH)), ("b", (_WIDTH,))):
            values = random.normal(0.0, _WIDTH**-0.5, shape).astype(np.float32)
            weights.append(numpy_helper.from_array(values, f"{block}{name}"))
        steps: Sequence[tuple[str, list[str]]] = (
            ("MatMul", [current, f"{block}w"]),
            ("Add", [f"{block}-0", f"{block}b"]),
            ("Sigmoid", [f"{block}-1"]),
            ("Mul", [f"{block}-1", f"{block}-2"]),
            ("Add", [f"{block}-3", current]),
        )
        made += [helper.make_node(kind, names, [f"{block}-{i}"]) for i, (kind, names) in enumerate(steps)]
        current = f"{block}-{len(steps) - 1}"
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, _WIDTH]) for name in ("x", current)]
    graph = helper.make_graph(made, "dense", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    main()
