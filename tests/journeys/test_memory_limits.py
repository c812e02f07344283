"""Memory limits: the returned model keeps within the limit, computes the same, and is replayed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from superopt import zoo
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.journeys.in_process import optimize_with
from superopt.journeys.replay import replay
from superopt.onnx_io import load_model
from superopt.optimizer.cost.runtime.memory_session import plan_in
from superopt.optimizer.memory.liveness import liveness
from superopt.optimizer.memory.subject import node_program
from superopt.options import Options
from superopt.training import Step, StepSettings, train_graph

BATCH = 8192


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training step whose tensors need 8 MB in the order of the file."""
    path = tmp_path_factory.mktemp("memory") / "step.onnx"
    train_graph(zoo.build("light-mlp", batch=BATCH), StepSettings()).save(path)
    return path


@pytest.fixture(scope="module")
def limit(step: Path) -> int:
    """Less than any order needs."""
    alive = liveness(node_program(load_model(step)).program)
    return alive.resident + (alive.peak - alive.resident) * 6 // 10


def options(limit: int) -> Options:
    return Options(memory_limit=limit, budget=120, threads=1, max_candidates=0, samples=1)


@pytest.fixture(scope="module")
def arranged(
    step: Path, limit: int, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Mapping[str, Any]]:
    """The model that keeps within the limit, and its report."""
    found = optimize_with(step, options(limit))
    path = tmp_path_factory.mktemp("arranged") / "arranged.onnx"
    found.lowered.save(path)
    return path, found.report.to_json()


def test_the_model_keeps_within_the_limit(arranged: tuple[Path, Mapping[str, Any]], limit: int) -> None:
    path, report = arranged
    memory = report["memory"]
    assert report["returned"] == "optimized"
    assert memory["after"] <= limit < memory["before"]
    assert memory["after"] == liveness(node_program(load_model(path)).program).peak
    plan = plan_in(path)
    assert plan is not None
    assert (plan.limit, plan.predicted) == (limit, memory["after"])
    assert report["training"]["memory"] == {
        "limit": limit,
        "predicted": memory["after"],
        "measured": memory["measured"],
        "recomputed": list(plan.recomputed),
        "reordered": plan.reordered,
    }
    assert report["equivalence"]["passed"]


def test_training_runs_it(step: Path, arranged: tuple[Path, Mapping[str, Any]]) -> None:
    random = np.random.default_rng(0)
    batch = {
        "input": random.standard_normal((BATCH, 64), np.float32),
        "labels": random.integers(0, 10, BATCH),
    }
    losses = [[one.run(batch) for _ in range(3)] for one in (Step(step), Step(arranged[0]))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_it_is_replayed(step: Path, arranged: tuple[Path, Mapping[str, Any]]) -> None:
    path, report = arranged
    assert replay(step, report).to_bytes() == path.read_bytes()
    damaged = {
        **report,
        "memory": {**report["memory"], "plan": {**report["memory"]["plan"], "schedule": [0]}},
    }
    with pytest.raises(InvalidFileError, match="memory plan: expected a schedule of all"):
        replay(step, damaged)


def test_a_limit_that_nothing_meets_is_refused(step: Path) -> None:
    with pytest.raises(
        InvalidOptionError, match=r"memory limit: expected at least [0-9,]+ bytes.* got 1,000"
    ):
        optimize_with(step, options(1000))


def test_a_limit_that_is_met_anyway_changes_nothing(step: Path) -> None:
    report = optimize_with(step, options(1 << 40)).report
    assert report.memory is not None
    assert report.memory.plan is None
    assert report.memory.why == "the runtime needs no more than the limit in its own order"
