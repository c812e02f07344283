"""Models in OpenVINO, timed through its own interface."""

# pyright: basic, reportMissingImports=false
# OpenVINO comes with the extra `bench`, which is not in the environment that types are checked in.

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.models.interleaving import Opened
from superopt.optimizer.cost.runtime.session import Array


class OpenVinoRun:
    """A model with its inputs in place. Raises RuntimeError for what OpenVINO cannot read or run.

    As in ONNX Runtime, the time of a run with one thread is processor time, with several wall time.
    """

    def __init__(self, path: Path, feeds: Mapping[str, Array], threads: int) -> None:
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": "1",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        core = openvino.Core()
        self._compiled = core.compile_model(core.read_model(path), "CPU", settings)
        self._request = self._compiled.create_infer_request()
        wanted = {name for port in self._compiled.inputs for name in port.names}
        self._request.infer({name: array for name, array in feeds.items() if name in wanted})
        self._clock = time.process_time_ns if threads == 1 else time.perf_counter_ns

    def microseconds(self) -> float:
        """Runs it once; how long that took."""
        start = self._clock()
        self._request.infer()
        return (self._clock() - start) / 1000

    def output(self, name: str) -> Array | None:
        """A copy of what the last run computed; None for an output that it does not have."""
        for place, port in enumerate(self._compiled.outputs):
            if name in port.names:
                return self._request.get_output_tensor(place).data.copy()
        return None


def in_openvino(path: Path) -> Opened:
    """A model in OpenVINO, in single precision."""
    return lambda feeds, threads: OpenVinoRun(path, feeds, threads)
