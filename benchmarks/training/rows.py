"""A row of the benchmark of training steps: one network, in a process of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.training.graph import Array
from superopt import zoo
from superopt.errors import SuperoptError
from superopt.journeys.training import train_graph
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.training.running import DataInput, Step
from superopt.step_options import StepSettings

OURS, TORCH, COMPILED, JAX, FORWARD = "superopt", "PyTorch", "torch.compile", "JAX", "forward pass"
PEERS = (TORCH, COMPILED, JAX)
COLUMNS = (OURS, *PEERS, FORWARD)

_RATE = 1e-3
_LOSSES = 3
_TOLERANCE = 1e-4
_SEED = 0
_CHOICES = 10
"""Token identifiers, positions of segments and labels are below it: all networks have as many."""


class Steps(Protocol):
    """A training step on a batch."""

    def advance(self) -> float:
        """Runs it; returns the loss."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """What is measured, and where: ``torch`` is a folder with PyTorch, ``skipped`` are columns."""

    network: str
    batch: int
    rounds: int
    torch: Path
    out: Path
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Milliseconds by column, of every round, and what is to be said about them."""

    network: str
    batch: int
    times: Mapping[str, Array]
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The row of the table."""
        cells = [self._cell(column) for column in COLUMNS]
        return f"| {' | '.join([self.network, str(self.batch), *cells])} |"

    def quotient(self, column: str) -> float:
        """The median of a column's time over superopt's, of the same round."""
        return float(np.median(self.times[column] / self.times[OURS]))

    def _cell(self, column: str) -> str:
        if column not in self.times:
            return ""
        median = f"{np.median(self.times[column]):.3g}"
        return median if column == OURS else f"{median} ({self.quotient(column):.2f})"


def measured(request: Request) -> Row:
    """Builds the network and its step, runs them in all frameworks; compares losses; removes files."""
    _use_one_core()
    sys.path.append(str(request.torch))
    model = request.out / f"{request.network}.onnx"
    step = request.out / f"{request.network}.step.onnx"
    before = set(request.out.iterdir())
    try:
        zoo.save(request.network, model, batch=request.batch, seed=_SEED)
        options = {"optimizer": "adamw", "learning_rate": _RATE, "dropout": "off"}
        built = train_graph(model, StepSettings.from_json(options))
        built.save(step)
        return _raced(request, model, step, built.parameters())
    finally:
        for path in set(request.out.iterdir()) - before:
            path.unlink()


def _raced(request: Request, model: Path, step: Path, parameters: tuple[str, ...]) -> Row:
    own = Step(step, threads=1)
    batch = {port.name: _content(port) for port in own.data}
    for port in own.data:
        own.memory(port, batch[port.name].shape)[...] = batch[port.name]
    losses = [own.advance() for _ in range(_LOSSES)]
    runs: dict[str, Callable[[], object]] = {OURS: own.advance}
    notes: list[str] = []
    for column, make in _peers(model, parameters, batch).items():
        if column not in request.skipped:
            try:
                peer = make()
                note = losses_apart([peer.advance() for _ in range(_LOSSES)], losses)
            except (ImportError, RuntimeError, SuperoptError) as error:
                notes.append(f"{column}: {' '.join(str(error).split())[:160]}")
                continue
            runs[column] = peer.advance
            notes += [f"{column}: {note}"] if note else []
    runs[FORWARD] = _forward(model, batch)
    return Row(request.network, request.batch, _times(runs, request.rounds), tuple(notes))


def _peers(
    model: Path, parameters: tuple[str, ...], batch: Mapping[str, Array]
) -> Mapping[str, Callable[[], Steps]]:
    """Steps of other frameworks, which are imported when they are made."""

    def eager() -> Any:
        from benchmarks.training.torch_steps import TorchSteps

        return TorchSteps(model, parameters, batch, rate=_RATE)

    def compiled() -> Steps:
        steps = eager()
        steps.compile()
        return steps

    def by_jax() -> Steps:
        from benchmarks.training.jax_steps import JaxSteps

        return JaxSteps(model, parameters, batch, rate=_RATE)

    return {TORCH: eager, COMPILED: compiled, JAX: by_jax}


def _content(port: DataInput) -> Array:
    """Random numbers for an input: all positions of a mask count, and there is one segment."""
    generator = np.random.default_rng(_SEED)
    shape = tuple(size or 1 for size in port.shape or ())
    if port.dtype.kind == "f":
        return generator.standard_normal(shape).astype(port.dtype)
    if port.name in ("attention_mask", "token_type_ids"):
        return np.full(shape, port.name == "attention_mask", port.dtype)
    return generator.integers(0, _CHOICES, shape).astype(port.dtype)


def losses_apart(losses: list[float], expected: list[float]) -> str:
    """What is said about a framework's first losses; nothing where they agree."""
    apart = [abs(own - wanted) / max(1.0, abs(wanted)) for own, wanted in zip(losses, expected, strict=True)]
    if max(apart) <= _TOLERANCE:
        return ""
    shown = (", ".join(f"{loss:.6g}" for loss in some) for some in (losses, expected))
    return "losses {}, superopt's {}".format(*shown)


def _forward(model: Path, batch: Mapping[str, Array]) -> Callable[[], object]:
    """A run of the inference model."""
    loaded = LoadedModel(model, 1)
    bound = loaded.bind({port.name: batch[port.name] for port in loaded.inputs})
    return bound.microseconds


def _times(runs: Mapping[str, Callable[[], object]], rounds: int) -> Mapping[str, Array]:
    """Milliseconds of every run in each round, after a round that is not counted."""
    random = np.random.default_rng(_SEED)
    names = list(runs)
    found = {name: np.empty(rounds) for name in names}
    for number in range(-1, rounds):
        for place in random.permutation(len(names)):
            start = time.perf_counter()
            runs[names[place]]()
            if number >= 0:
                found[names[place]][number] = (time.perf_counter() - start) * 1000
    return found


def _use_one_core() -> None:
    """Keeps all threads of this process on one core, where the system can."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.environ["JAX_PLATFORMS"] = "cpu"
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


__all__ = [
    "COLUMNS",
    "COMPILED",
    "FORWARD",
    "JAX",
    "OURS",
    "PEERS",
    "TORCH",
    "Request",
    "Row",
    "losses_apart",
    "measured",
]
