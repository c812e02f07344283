"""Objective training: the step of a model is built and optimised in its place, by every way to ask for it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import superopt
from superopt.cli.main import run
from superopt.journeys import optimize_job, supervision
from superopt.journeys.optimize_job import Attached
from superopt.journeys.supervision import optimize_file
from superopt.journeys.training import train_graph
from superopt.journeys.training_job import recorded_step
from superopt.onnx_io import load_model
from superopt.optimizer.training.running import Step
from superopt.server.http.problems import Problem
from superopt.server.options import parse_options
from superopt.server.settings import Settings
from superopt.step_options import StepSettings
from tests.conftest import WithLibrary

NETWORK = """<ir_version: 8, opset_import: ["" : 18]>
net (float[n,4] x) => (float[n,3] y)
<float[4,3] w = {1, -1, 0.5, 2, 0, 1, -1, 1, 1, -2, 0.5, 1}, float[3] b = {0, 1, 2}>
{ h = MatMul(x, w)  y = Add(h, b) }"""
WIDE = f"""<ir_version: 8, opset_import: ["" : 18]>
net (float[8,4] x) => (float[8,512] y)
<float[4,512] w = {{{", ".join(map(str, range(2048)))}}}>
{{ y = MatMul(x, w) }}"""
PAIR = """
name: pair
nodes: [{devices: 2, device: t4, memory: 16 GiB, link: {bandwidth: 300 GB/s, latency: 1 us}}]
"""
SETTINGS: dict[str, object] = {"loss": "mse", "optimizer": "momentum", "frozen": ["b"]}
FLAGS = ("--objective", "training", "--loss", "mse", "--optimizer", "momentum", "--frozen", "b")
BATCH = {
    "x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4),
    "targets": np.zeros((2, 3), np.float32),
}


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(NETWORK), path)
    return path


def losses(model: Path | bytes, steps: int = 3) -> list[float]:
    step = Step(model)
    return [step.run(BATCH) for _ in range(steps)]


def by_command(network: Path, out: Path) -> dict[str, object]:
    report = out.with_suffix(".json")
    arguments = [str(network), "-o", str(out), "--report", str(report), "--budget", "60", "--freeze", "n=2"]
    assert run(["optimize", *arguments, "--max-candidates", "1", *FLAGS]) == 0
    again = out.with_suffix(".again")
    assert run(["replay", str(network), str(report), "-o", str(again), "--no-check"]) == 0
    assert again.read_bytes() == out.read_bytes()
    return cast("dict[str, object]", json.loads(report.read_text()))


def by_python(network: Path, out: Path) -> dict[str, object]:
    result = superopt.optimize(
        network, objective="training", training=SETTINGS, freeze={"n": 2}, budget=60, max_candidates=1
    )
    result.save(out)
    return result.to_json()


def by_service(network: Path, out: Path) -> dict[str, object]:
    text = json.dumps(
        {"objective": "training", "training": SETTINGS, "freeze": {"n": 2}, "budget": 60, "max_candidates": 1}
    )
    options = parse_options(text.encode(), Settings(), has_cluster=False)
    database = os.environ["SUPEROPT_DATABASE_URL"]
    told: list[Mapping[str, object]] = []
    report = optimize_file(network, out, options, database, told.append)
    assert told[0]["phase"] == "step"
    return report


@pytest.mark.parametrize("optimised", [by_command, by_python, by_service])
def test_the_step_is_optimised(
    network: Path, tmp_path: Path, optimised: Callable[[Path, Path], dict[str, object]]
) -> None:
    out = tmp_path / "fast.onnx"
    report = optimised(network, out)
    built = train_graph(network, StepSettings.from_json(SETTINGS))
    built.save(tmp_path / "step.onnx")
    assert losses(out) == pytest.approx(losses(tmp_path / "step.onnx"), rel=1e-6)
    training = cast("dict[str, object]", report["training"])
    assert training["model"] == {"name": "net.onnx", "sha256": built_from(network)}
    assert training["states"] == [
        {"name": "w", "role": "parameter", "of": None, "bytes": 48},
        {"name": "step", "role": "counter", "of": None, "bytes": 8},
        {"name": "w.momentum", "role": "moment", "of": "w", "bytes": 48},
    ]
    assert cast("dict[str, object]", report["options"])["training"] == SETTINGS


def built_from(network: Path) -> str:
    return load_model(network).sha256


def test_the_step_of_a_model_is_planned_for_a_cluster(network: Path, tmp_path: Path) -> None:
    """The written model is the step, and the commands for its plan take the model that it was built from."""
    (tmp_path / "pair.yaml").write_text(PAIR)
    out, report = tmp_path / "planned.onnx", tmp_path / "plan.json"
    cluster = ["--cluster", str(tmp_path / "pair.yaml")]
    arguments = [str(network), *cluster, "--budget", "600", "--freeze", "n=2", "--search", "none", *FLAGS]
    assert run(["optimize", *arguments, "-o", str(out), "--report", str(report)]) == 0
    assert losses(out, 1) == losses_of_step(network)
    content = json.loads(report.read_text())
    assert "ddp" in {baseline["name"] for baseline in content["parallel"]["baselines"]}
    assert content["training"]["model"] == {"name": "net.onnx", "sha256": built_from(network)}
    again = ["--plan", str(report), "--report", str(tmp_path / "again.json"), "--dry-run"]
    assert run(["optimize", *arguments, *again]) == 0
    predicted = json.loads((tmp_path / "again.json").read_text())["parallel"]["predicted"]
    assert predicted == content["parallel"]["predicted"]
    assert run(["replay", str(network), str(report), "-o", str(tmp_path / "replayed.onnx")]) == 0
    assert (tmp_path / "replayed.onnx").read_bytes() == out.read_bytes()
    assert run(["shards", str(network), str(report), "-o", str(tmp_path / "shards")]) == 0
    assert run(["timeline", str(network), str(report), *cluster, "-o", str(tmp_path / "trace.json")]) == 0


def packed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The weights as raw bytes, which is how exporters write large ones."""
    for weight in model.graph.initializer:
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight), weight.name))
    return model


def test_a_step_with_large_weights_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary
) -> None:
    """Its weights are moved to another file while it is optimised; the report is about the whole step."""
    monkeypatch.setattr(optimize_job, "_LARGE", 1 << 12)
    path = tmp_path / "net.onnx"
    onnx.save(packed(parser.parse_model(WIDE)), path)
    arguments: dict[str, object] = {
        "model": str(path),
        "output": None,
        "options": {"objective": "training", "training": {"loss": "mse"}, "max_candidates": 0},
        "database": with_library(tmp_path / "superopt.db"),
        "started": None,
    }
    result = optimize_job.optimized(arguments, lambda _: None)
    assert isinstance(result, Attached)
    built = tmp_path / "built.onnx"
    train_graph(path, StepSettings.from_json({"loss": "mse"})).save(built)
    assert result.report.model.sha256 == built_from(built)
    out, again = tmp_path / "out.onnx", tmp_path / "again"
    result.save(out)
    again.mkdir()
    assert recorded_step(path, result.to_json(), again).read_bytes() == built.read_bytes()
    assert load_model(out).proto.graph.initializer == load_model(built).proto.graph.initializer


def test_a_step_is_optimised_as_it_is(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step, out = tmp_path / "step.onnx", tmp_path / "fast.onnx"
    train_graph(network, StepSettings.from_json(SETTINGS)).save(step)
    arguments = ["optimize", str(step), "-o", str(out), "--objective", "training", "--max-candidates", "1"]
    assert run([*arguments, "--budget", "60", "--dim", "n=2"]) == 0
    assert losses(out) == pytest.approx(losses(step), rel=1e-6)
    assert run([*arguments, "--loss", "mse"]) == 2
    sentence = "expected no settings but those of precision for step.onnx, which is a training step already"
    assert sentence in capsys.readouterr().err


def test_a_job_that_dies_returns_the_step(network: Path, tmp_path: Path) -> None:
    """Not the model, which is no step."""
    job = supervision.Job(
        network,
        tmp_path / "fast.onnx",
        {"objective": "training", "training": SETTINGS, "budget": 60.0},
        60.0,
        time.monotonic(),
        function="tests.supervised_functions:build_step_and_die",
    )
    outcome = supervision.run_job(job)
    assert (outcome.report["returned"], outcome.is_broken) == ("original", True)
    assert losses(tmp_path / "fast.onnx", 1) == losses_of_step(network)
    assert cast("dict[str, object]", outcome.report["training"])["optimizer"] == "momentum"


def losses_of_step(network: Path) -> list[float]:
    return losses(train_graph(network, StepSettings.from_json(SETTINGS)).step.model.to_bytes(), 1)


def test_a_step_that_is_not_built_is_not_replaced_by_the_model(network: Path, tmp_path: Path) -> None:
    out = tmp_path / "fast.onnx"
    options = {"objective": "training", "budget": 60.0}
    job = supervision.Job(
        network, out, options, 60.0, time.monotonic(), function="tests.supervised_functions:crash"
    )
    with pytest.raises(RuntimeError, match=r"net\.onnx: the training step could not be built"):
        supervision.run_job(job)
    assert not out.exists()


def test_settings_are_validated_before_a_job_begins() -> None:
    text = b'{"objective": "training", "training": {"optimizer": "lion", "beta1": 2}}'
    with pytest.raises(Problem) as raised:
        parse_options(text, Settings(), has_cluster=False)
    fields = [wrong["field"] for wrong in cast("list[dict[str, str]]", raised.value.errors)]
    assert fields == ["training.optimizer", "training.beta1"]
