"""What is predicted of a model and what is measured."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.real.costs_models import Case
from superopt.onnx_io import lift, load_model
from superopt.optimizer.check import plan_inputs
from superopt.optimizer.cost import GraphCost, Latency, MemoryCostStore, Origin, Sizes
from superopt.optimizer.cost.runtime.session import BoundRun, LoadedModel

_SECONDS = 1.5
_RUNS = (5, 1000)
_NEARLY_SMALLEST = 16


@dataclass(frozen=True)
class Row:
    """What was predicted of a model and what was measured, in microseconds; processor seconds to price it."""

    model: str
    groups: int
    kernels: int
    predicted: float
    measured: float
    seconds: float

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured


def priced(case: Case) -> Row:
    """One model: its cost by the cost model, and what it takes."""
    content = case.content()
    lifted = lift(load_model(content))
    loaded = LoadedModel(content, 1)
    inputs = plan_inputs(lifted, loaded.inputs, {})
    run = loaded.bind(inputs.draw(np.random.default_rng(0), next(inputs.size_choices()), "normal"))
    times = _timed(run)
    began = time.process_time()
    objective = Latency(MemoryCostStore(), threads=1)
    cost = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {}, Origin(lifted)))
    spent = time.process_time() - began
    times += _timed(run)
    began = time.process_time()
    objective.measure_again()
    cost = cost.refreshed()
    spent += time.process_time() - began
    times += _timed(run)
    times.sort()
    measured = times[len(times) // _NEARLY_SMALLEST]
    return Row(case.name, len(cost.groups), objective.measured, cost.total, measured, spent)


def _timed(run: BoundRun) -> list[float]:
    run.microseconds()
    once = run.microseconds()
    low, high = _RUNS
    return [run.microseconds() for _ in range(min(high, max(low, int(_SECONDS * 1e6 / once))))]
