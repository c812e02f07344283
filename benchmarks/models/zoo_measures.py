"""One row of the table of the zoo: a network is written, checked, lifted and run."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from superopt import zoo
from superopt.onnx_io import lift, load_model

SEEDS = 3


def measure(name: str, out: Path, seconds: float) -> str:
    """One row of the table."""
    folder = out / name
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    try:
        subprocess.run(
            [sys.executable, "-m", "superopt", "zoo", "build", name, "-o", path],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        size = sum(file.stat().st_size for file in folder.iterdir())
        onnx.checker.check_model(str(path))
        nodes, opaque = understood(path)
        varies, latency = run(path, seconds)
    finally:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    published = zoo.describe(name).parameters
    cells = (
        name,
        nodes,
        "" if published is None else f"{zoo.blueprint(name).parameters:,}",
        "" if published is None else f"{published:,}",
        f"{size / 1e6:.0f} MB",
        f"{peak / 1e6:.0f} MB",
        f"{sum(opaque.values())}"
        + "".join(f", {operator} {count}" for operator, count in opaque.most_common()),
        f"{varies:.3f}",
        f"{latency * 1e3:.1f} ms",
    )
    return f"| {' | '.join(map(str, cells))} |"


def understood(path: Path) -> tuple[int, Counter[str]]:
    """How many nodes the model has, and the ONNX operators of those that no rule can touch."""
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    return nodes, Counter(operator for _, operator, _ in lift(load_model(path)).opaque)


def run(path: Path, seconds: float) -> tuple[float, float]:
    """(deviation of the outputs over inputs / root mean square, least processor seconds of a run)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = [feeds_of(session.get_inputs(), seed) for seed in range(SEEDS)]
    outputs = [np.stack(values) for values in zip(*(session.run(None, feed) for feed in feeds), strict=True)]
    varies = min(float(values.std(0).mean() / np.sqrt((values**2).mean())) for values in outputs)
    least, end = float("inf"), time.perf_counter() + seconds
    while least == float("inf") or time.perf_counter() < end:
        start = time.process_time()
        session.run(None, feeds[0])
        least = min(least, time.process_time() - start)
    return varies, least


def feeds_of(inputs: Sequence[onnxruntime.NodeArg], seed: int) -> Mapping[str, NDArray[np.generic]]:
    """Normal numbers, and zeros and ones for integers, which every vocabulary has."""
    random = np.random.default_rng(seed)
    return {
        value.name: random.integers(0, 2, value.shape)
        if "int64" in value.type
        else random.standard_normal(value.shape, dtype=np.float32)
        for value in inputs
    }
