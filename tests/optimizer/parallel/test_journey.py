"""The main job on a cluster, from a file to an annotated file and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt import zoo
from superopt.cli.main import run
from superopt.journeys import in_process as api
from superopt.training import Step, train
from superopt.zoo import datasets
from tests.conftest import WithLibrary

PAIR = """
name: pair
nodes: [{devices: 2, device: t4, memory: 16 GiB, link: {bandwidth: 300 GB/s, latency: 1 us}}]
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "rules.db"))
    path = tmp_path / "squeezenet.onnx"
    zoo.save("squeezenet", path, batch=4)
    (tmp_path / "pair.yaml").write_text(PAIR)
    return path


def test_a_plan_is_written_read_again_and_replayed(model: Path) -> None:
    out, again, replayed = (model.with_name(f"{name}.onnx") for name in ("out", "again", "replayed"))
    report = model.with_name("report.json")
    cluster = ["--cluster", str(model.with_name("pair.yaml")), "--objective", "latency", "--budget", "6"]
    assert run(["optimize", str(model), "-o", str(out), *cluster, "--report", str(report)]) == 0
    content = json.loads(report.read_text())
    section = content["parallel"]
    assert content["returned"] == "optimized"
    assert "simulated, not measured" in content["why"]
    assert {device for entry in section["operators"] for device in entry["devices"]} == {0, 1}
    assert all(section["predicted"]["total"] <= baseline["total"] for baseline in section["baselines"])
    given = ["--plan", str(report), "--search", "none"]
    assert run(["optimize", str(model), "-o", str(again), *cluster, *given]) == 0
    assert run(["replay", str(model), str(report), "-o", str(replayed)]) == 0
    assert out.read_bytes() == again.read_bytes() == replayed.read_bytes()
    assert api.check(model, out).passed


def test_a_plan_that_gains_nothing_is_no_gain(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The squeezenet gains from two devices; a product of 4 x 4 does not."""
    small = model.with_name("small.onnx")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "small", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), small)
    options = ["--cluster", str(model.with_name("pair.yaml")), "--budget", "6", "--require-gain", "--json"]
    for path, code in ((model, 0), (small, 1)):
        out = path.with_name(f"out-{path.name}")
        assert run(["optimize", str(path), "-o", str(out), "--objective", "latency", *options]) == code
        report = json.loads(capsys.readouterr().out)
        assert report["returned"] == "optimized"
        ratio = report["cost"]["before"] / report["cost"]["after"]
        assert (round(ratio, 2) > 1) == (code == 0)


def test_a_training_step_is_planned_and_still_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary
) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "rules.db"))
    (tmp_path / "pair.yaml").write_text(PAIR)
    zoo.save("light-mlp", tmp_path / "model.onnx", batch=8)
    np.savez(tmp_path / "samples.npz", **datasets.digits(64))
    step, out, report = (str(tmp_path / name) for name in ("step.onnx", "out.onnx", "report.json"))
    assert run(["train-graph", str(tmp_path / "model.onnx"), "-o", step, "--optimizer", "adam"]) == 0
    (tmp_path / "plan.json").write_text('{"operators": [], "microbatches": 1}')
    cluster = ["--cluster", str(tmp_path / "pair.yaml"), "--objective", "training", "--budget", "600"]
    given = ["--plan", str(tmp_path / "plan.json"), "--search", "none", "--report", report]
    assert run(["optimize", step, "-o", out, *cluster, *given]) == 0
    section = json.loads(Path(report).read_text())["parallel"]
    assert section["objective"] == "latency"
    assert "ddp" in {baseline["name"] for baseline in section["baselines"]}
    assert run(["timeline", step, report, "--cluster", cluster[1], "-o", str(tmp_path / "trace.json")]) == 0
    served = [*cluster, "--strategy", "fsdp", "--report", report, "--dry-run"]
    assert run(["optimize", step, *served]) == 0
    section = json.loads(Path(report).read_text())["parallel"]
    assert (section["strategy"], section["origin"]) == ("zero3", "expert")
    assert all(kept["degrees"].count(2) == 1 and kept["fetches"] for kept in section["residence"])
    assert run(["shards", step, report, "-o", str(tmp_path / "shards")]) == 0
    tight = [
        *cluster,
        "--strategy",
        "ddp",
        "--memory-limit",
        "20KiB",
        "--report",
        str(tmp_path / "tight.json"),
    ]
    assert run(["optimize", step, *tight, "--dry-run", "--require-gain"]) == 1
    assert "the requested plan needs" in json.loads((tmp_path / "tight.json").read_text())["why"]
    changed = json.loads(Path(report).read_text())
    changed["parallel"]["microbatches"] = 2
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    assert run(["shards", step, str(tmp_path / "changed.json"), "-o", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()
    given = ["--plan", report, "--search", "none", "--report", str(tmp_path / "again.json"), "--dry-run"]
    assert run(["optimize", step, *cluster, *given]) == 0
    again = json.loads((tmp_path / "again.json").read_text())["parallel"]
    assert (again["predicted"], again["memory"]) == (section["predicted"], section["memory"])
    losses = [train(Step(path), tmp_path / "samples.npz", steps=4).losses for path in (step, out)]
    assert losses[0] == losses[1]


def test_samples_that_do_not_divide_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary
) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "rules.db"))
    step, report = str(tmp_path / "step.onnx"), tmp_path / "report.json"
    note = "the samples do not divide among 2 devices, 2 compute each"
    (tmp_path / "pair.yaml").write_text(PAIR)
    asked = ["--cluster", str(tmp_path / "pair.yaml"), "--strategy", "zero1", "--budget", "600"]
    for batch in (7, 8):
        zoo.save("light-mlp", tmp_path / "model.onnx", batch=batch)
        assert run(["train-graph", str(tmp_path / "model.onnx"), "-o", step]) == 0
        assert run(["optimize", step, *asked, "--report", str(report), "--dry-run"]) == 0
        assert (note in json.loads(report.read_text())["why"]) == (batch == 7)


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        ([], "strategy: expected none without a cluster, got 'zero2'"),
        (["--cluster", "summit-node"], "strategy: expected a model that is a training step"),
    ],
)
def test_a_strategy_is_for_a_step_on_a_cluster(
    model: Path, capsys: pytest.CaptureFixture[str], cluster: list[str], sentence: str
) -> None:
    out = str(model.with_name("out.onnx"))
    assert run(["optimize", str(model), "-o", out, "--strategy", "zero2", "--budget", "600", *cluster]) == 2
    assert sentence in capsys.readouterr().err
