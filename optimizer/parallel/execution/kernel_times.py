"""Times of kernels as JAX compiles them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# JAX's own annotations leave much open.

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from superopt.domains import Array
from superopt.ir.types import TensorType
from superopt.onnx_io.protos import dtype_of
from superopt.optimizer.parallel.execution.jax_devices import JaxMachine, load_jax
from superopt.optimizer.parallel.tasks import KernelTask, shape_of

_BATCHES = 15
_BATCH_SECONDS = 0.002
_MOST_RUNS = 200
_MICRO = 1e6
_MOST_BYTES = 1 << 28


class KernelTimer:
    """Measures kernels on the first device. On a CPU, microseconds are those of the processor, so that other
    load hardly counts; the process should be confined to one core (``pinned``) before JAX
    starts its threads, which would else share a kernel at random. Raises MissingServiceError without JAX."""

    def __init__(self) -> None:
        self._jax: Any = load_jax()
        self._machine = JaxMachine(1)
        self.device = str(self._jax.devices()[0].device_kind)
        self.is_host = self._jax.devices()[0].platform == "cpu"
        self._clock = time.process_time if self.is_host else time.perf_counter
        self._draw = np.random.default_rng(0)

    @property
    def version(self) -> str:
        """The version of JAX."""
        return str(self._jax.__version__)

    def microseconds(self, kernel: KernelTask) -> float | None:
        """The least mean time of some batches of runs; None for a kernel with operands that are too large."""
        types = _given(kernel)
        if sum(np.prod(shape_of(type_)) * type_.element.bytes_per_element for type_ in types) > _MOST_BYTES:
            return None
        shards = [self._machine.put(self._content(type_), 0) for type_ in types]
        self._run(kernel, shards)
        began = self._clock()
        self._run(kernel, shards)
        runs = int(np.clip(_BATCH_SECONDS / max(1e-6, self._clock() - began), 1, _MOST_RUNS))
        found: list[float] = []
        for _ in range(_BATCHES):
            began = self._clock()
            for _ in range(runs):
                self._run(kernel, shards)
            found.append((self._clock() - began) / runs)
        self._machine.compiled.pop(kernel, None)
        return _MICRO * min(found)

    def _run(self, kernel: KernelTask, shards: list[Any]) -> None:
        self._jax.block_until_ready(self._machine.run_kernel(kernel, shards, 0))

    def _content(self, type_: TensorType) -> Array:
        """Random numbers from 0.1 to 1; of integers and truth values, 0 and 1."""
        shape, dtype = shape_of(type_), dtype_of(type_.element)
        if type_.element.is_float:
            return self._draw.uniform(0.1, 1, shape).astype(dtype)
        return self._draw.integers(0, 2, shape).astype(dtype)


def pinned() -> None:
    """Confines this process to one of its cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _given(kernel: KernelTask) -> list[TensorType]:
    """The types of the operands from outside."""
    found: dict[int, TensorType] = {}
    for task, operands in zip(kernel.tasks, kernel.operands, strict=True):
        for (number, _), type_ in zip(operands, task.inputs, strict=True):
            if number < 0:
                found[-1 - number] = type_
    return [found[number] for number in range(len(found))]
