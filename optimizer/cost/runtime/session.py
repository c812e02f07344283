"""Typed interface to ONNX Runtime: sessions, bound runs, profiles."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# ONNX Runtime ships no types.

from __future__ import annotations

import enum
import json
import os
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # the runtime reads this when it is loaded

from superopt.errors import MissingServiceError, SuperoptError
from superopt.optimizer.cost.runtime.devices import (
    accelerator_driver,
    accelerator_name,
    device_events,
    processor_name,
)
from superopt.optimizer.cost.runtime.installation import BOTH_RUNTIMES, has_both_runtimes
from superopt.optimizer.cost.runtime.memory_session import plan_in, realise
from superopt.optimizer.cost.runtime.ports import ports_of
from superopt.processes.garbage import trim

try:
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as states  # pyright: ignore[reportAttributeAccessIssue]
except ImportError as missing:
    raise MissingServiceError(
        f"ONNX Runtime cannot be imported ({missing}): run `pip install onnxruntime`, "
        "or onnxruntime-gpu for CUDA"
    ) from None

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
ModelFile: TypeAlias = "bytes | Path"

_FAILURES = (
    states.EngineError,
    states.EPFail,
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.InvalidProtobuf,
    states.ModelLoaded,
    states.NoModel,
    states.NoSuchFile,
    states.NotImplemented,
    states.RuntimeException,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Exceptions of the runtime: they have no common base, and its Python layer raises built-in ones."""


class Provider(enum.StrEnum):
    """Execution provider of the runtime."""

    CPU = "cpu"
    CUDA = "cuda"

    @property
    def onnx_name(self) -> str:
        """The runtime's name for it."""
        return {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}[self.value]


class RuntimeRefusedError(SuperoptError):
    """ONNX Runtime cannot load or run a model."""


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Duration of one kernel in one run."""

    operator: str
    name: str
    microseconds: float


@dataclass(frozen=True, slots=True)
class RunTime:
    """Microseconds of one run by two clocks. ``wall`` is elapsed time. ``processor`` is the CPU time of the
    calling thread, including busy waiting for other threads: equal to ``wall`` on an idle machine, and
    without the time of other processes on a busy one. For runs on a device both are the wall time."""

    wall: float
    processor: float


def device_name(provider: Provider = Provider.CPU) -> str:
    """The device of a provider."""
    return processor_name() if provider is Provider.CPU else accelerator_name() or "unknown CUDA device"


def driver_version(provider: Provider) -> str | None:
    """The driver version of the device, None without a separate driver."""
    return None if provider is Provider.CPU else accelerator_driver()


def runtime_version() -> str:
    """Name and version of the runtime."""
    return f"onnxruntime {onnxruntime.__version__}"


class LoadedModel:
    """A model in memory, ready to run at the runtime's full optimisation; ``without`` names runtime
    optimisers to disable. With ``optimized`` the runtime's optimised model is written there, its large
    weights next to it; for a model on disk at half the memory, but its kernels are slow. If it ``spins``, its
    threads stay awake between runs, as they do within one; those of other models get less time then. Raises
    RuntimeRefusedError when the runtime rejects a model, MissingServiceError where the device is missing."""

    def __init__(
        self,
        model: ModelFile,
        threads: int,
        profile: Path | None = None,
        provider: Provider = Provider.CPU,
        without: Sequence[str] = (),
        optimized: Path | None = None,
        *,
        spins: bool = False,
    ) -> None:
        self.file = model
        self.threads = threads
        self._provider = provider
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.add_session_config_entry("session.force_spinning_stop", "0" if spins else "1")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        realise(plan_in(model), options, onnxruntime)
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = str(profile)
        if optimized is not None:
            options.optimized_model_filepath = str(optimized)
            add, weights = options.add_session_config_entry, "session.optimized_model_external_initializers"
            add(f"{weights}_file_name", f"{optimized.name}.weights")
            add(f"{weights}_min_size_in_bytes", "1024")
            if isinstance(model, Path):
                add("session.disable_prepacking", "1")
        _require(provider, onnxruntime.get_available_providers())
        source = model if isinstance(model, bytes) else str(model)
        with translated():
            self._session = onnxruntime.InferenceSession(
                source, options, providers=_providers(provider), disabled_optimizers=list(without)
            )
        if isinstance(model, Path):  # large, and loading it leaves a fifth of its size in freed blocks
            trim()
        _require(provider, self._session.get_providers())
        self.inputs = tuple(ports_of(self._session.get_inputs()))
        self.outputs = tuple(ports_of(self._session.get_outputs()))

    def run(self, feeds: Mapping[str, Array]) -> tuple[object, ...]:
        """All outputs: arrays, or the runtime's values for sequences and maps."""
        with translated():
            return tuple(self._session.run(None, dict(feeds)))

    def close(self) -> None:
        """Frees the memory of the model, which cannot be run any more."""
        del self._session
        trim()

    def bind(self, feeds: Mapping[str, Array]) -> BoundRun:
        """The model bound to its inputs, for timing. Where an input or output is a text, sequence or map,
        inputs are passed at each run instead."""
        if not all(map(_can_be_bound, feeds.values())) or any(port.dtype is None for port in self.outputs):
            threads = self.threads if self._provider is Provider.CPU else 0
            return UnboundRun(self._session, feeds, threads)
        with translated():
            binding = self._session.io_binding()
            for name, array in feeds.items():
                if self._provider is Provider.CPU:
                    binding.bind_cpu_input(name, np.ascontiguousarray(array))
                else:
                    placed = onnxruntime.OrtValue.ortvalue_from_numpy(
                        np.ascontiguousarray(array), self._provider.value, 0
                    )
                    binding.bind_ortvalue_input(name, placed)
            bound = Binding(binding, tuple(output.name for output in self.outputs), self._provider)
            bound.place_outputs()
            if self._provider is Provider.CUDA:
                return DeviceRun(self._session, bound)
            return BoundRun(self._session, bound, self.threads)

    def end_profile(self) -> tuple[tuple[KernelTime, ...], ...]:
        """The kernels of every run so far, in execution order; ends profiling. The runtime records an event
        when it ends: kernels precede the run that they belong to."""
        path = Path(self._session.end_profiling())
        events = cast("list[dict[str, Any]]", json.loads(path.read_text()))
        path.unlink()
        runs: list[tuple[KernelTime, ...]] = []
        current: list[KernelTime] = []
        for event in events:
            name = str(event.get("name", ""))
            if name == "model_run":
                runs.append(tuple(current))
                current = []
            elif name.endswith("_kernel_time"):
                operator = str(event["args"]["op_name"])
                current.append(KernelTime(operator, name.removesuffix("_kernel_time"), float(event["dur"])))
        return tuple(runs)


@dataclass(frozen=True, slots=True)
class Binding:
    """Binding of a model's inputs and ``outputs`` to memory."""

    of_runtime: Any
    outputs: tuple[str, ...]
    provider: Provider

    def place_outputs(self) -> None:
        """Lets the runtime allocate the outputs again, for any shapes."""
        self.of_runtime.clear_binding_outputs()
        for output in self.outputs:
            self.of_runtime.bind_output(output, self.provider.value)


class BoundRun:
    """A model bound to inputs; each call runs it once. With one thread the time of a run is that thread's
    processor time, which equals wall time on an idle machine and excludes other processes on a busy one. With
    several threads it is wall time. The runtime reuses the output buffers of the previous run, but refuses if
    their shape differs from the declared one; then they are allocated before each run."""

    def __init__(self, session: Any, binding: Binding | None, threads: int) -> None:
        self._session = session
        self._binding = binding
        self._threads = threads
        self._allocates_outputs = False

    def microseconds(self) -> float:
        """Runs once; returns the time."""
        taken = self.timed()
        return taken.processor if self._threads == 1 else taken.wall

    def timed(self) -> RunTime:
        """Runs once; returns the time by both clocks."""
        with translated():
            if not self._allocates_outputs:
                try:
                    return self._timed()
                except _FAILURES:
                    self._allocates_outputs = True
            if self._binding is not None:
                self._binding.place_outputs()
            return self._timed()

    def microseconds_and_share(self) -> tuple[float, float]:
        """Runs once; returns the time, and its share of the wall time (at most 1)."""
        start = time.perf_counter_ns()
        taken = self.microseconds()
        return taken, min(1.0, 1000 * taken / max(time.perf_counter_ns() - start, 1))

    def _timed(self) -> RunTime:
        assert self._binding is not None, "a bound run"
        binding = self._binding.of_runtime
        wall, processor = time.perf_counter_ns(), time.thread_time_ns()
        self._session.run_with_iobinding(binding)
        processor = time.thread_time_ns() - processor
        return RunTime((time.perf_counter_ns() - wall) / 1000, processor / 1000)


class UnboundRun(BoundRun):
    """A model that receives its inputs at each run, within the measured time: for inputs that cannot be
    bound."""

    def __init__(self, session: Any, feeds: Mapping[str, Array], threads: int) -> None:
        super().__init__(session, None, threads)
        self._feeds = dict(feeds)

    def _timed(self) -> RunTime:
        wall, processor = time.perf_counter_ns(), time.thread_time_ns()
        self._session.run(None, self._feeds)
        processor = time.thread_time_ns() - processor
        return RunTime((time.perf_counter_ns() - wall) / 1000, processor / 1000)


class DeviceRun(BoundRun):
    """A model bound to inputs on a device; a run waits for the device. With CuPy the device's own clock is
    used, which excludes the transfer of commands."""

    def __init__(self, session: Any, binding: Binding) -> None:
        super().__init__(session, binding, threads=0)
        self._events = device_events()

    def _timed(self) -> RunTime:
        assert self._binding is not None, "a bound run"
        binding = self._binding.of_runtime
        binding.synchronize_inputs()
        if self._events is not None:
            taken = self._events.microseconds(lambda: self._session.run_with_iobinding(binding))
            return RunTime(taken, taken)
        start = time.perf_counter_ns()
        self._session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        taken = (time.perf_counter_ns() - start) / 1000
        return RunTime(taken, taken)


def _can_be_bound(feed: object) -> bool:
    return isinstance(feed, np.ndarray) and cast("Array", feed).dtype.kind not in "OUS"


@contextmanager
def profiled_model(model: bytes, threads: int, without: Sequence[str] = ()) -> Generator[LoadedModel]:
    """A model with kernel profiling enabled; profiles are written to a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="superopt-profile-") as directory:
        yield LoadedModel(model, threads, Path(directory) / "run", without=without)


def _require(provider: Provider, present: Sequence[str]) -> None:
    """Checks the device in a session: the runtime's list of available providers is not reliable."""
    if provider.onnx_name not in present:
        needed = "needs the extra [gpu] and an NVIDIA driver"
        raise MissingServiceError(
            f"target {provider}: ONNX Runtime does not find this device, only {', '.join(present)}; "
            f"{BOTH_RUNTIMES if has_both_runtimes() else needed}"
        )


def _providers(provider: Provider) -> list[Any]:
    """The providers requested for a session; a device runs on the stream whose events time it."""
    if provider is Provider.CPU:
        return [provider.onnx_name]
    events = device_events()
    settings = {} if events is None else {"user_compute_stream": str(events.stream)}
    return [(provider.onnx_name, settings), Provider.CPU.onnx_name]


@contextmanager
def translated() -> Generator[None]:
    """Raises RuntimeRefusedError instead of the runtime's own exceptions."""
    try:
        yield
    except _FAILURES as failure:
        raise RuntimeRefusedError(f"ONNX Runtime refuses the model: {failure}") from failure
