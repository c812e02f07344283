"""A network is trained: its step is built, run on samples, and the weights are put back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from superopt.cli.main import run
from superopt.zoo import datasets
from tests.onnx_io.kit import session

BATCH = 32
STEPS = 1500


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    code = run([*map(str, arguments), "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return json.loads(printed.out)


def accuracy(model: Path, samples: datasets.Samples) -> float:
    """The share of samples whose class has the largest logit."""
    runtime = session(model.read_bytes())
    right = 0
    count = len(samples["labels"]) // BATCH * BATCH
    for start in range(0, count, BATCH):
        (logits,) = runtime.run(None, {"input": samples["input"][start : start + BATCH]})
        right += int((logits.argmax(axis=1) == samples["labels"][start : start + BATCH]).sum())
    return right / count


def test_a_network_learns_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, step, trained = (tmp_path / name for name in ("digits.onnx", "step.onnx", "trained.onnx"))
    command(capsys, "zoo", "build", "light-mlp", "--batch", BATCH, "-o", model)
    np.savez(tmp_path / "samples.npz", **datasets.digits(8000))
    built = command(capsys, "train-graph", model, "-o", step, "--optimizer", "adam")
    assert built["data"] == ["input", "labels"]
    assert {"rule": "adjoint-of-relu", "count": 2} in built["adjoints"]
    run_of = ("train", step, "--data", tmp_path / "samples.npz", "--steps", STEPS, "--threads", 1)
    result = command(capsys, *run_of, "--into", model, "-o", trained)
    losses = result["losses"]
    assert len(losses) == STEPS
    assert np.mean(losses[-50:]) < 0.1 < losses[0]
    unseen = datasets.digits(2000, seed=1)
    assert accuracy(model, unseen) < 0.4
    assert accuracy(trained, unseen) > 0.97
    names = [tensor.name for tensor in onnx.load(model).graph.initializer]
    assert [tensor.name for tensor in onnx.load(trained).graph.initializer] == names


def test_an_optimised_step_trains_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, step, faster = (tmp_path / name for name in ("digits.onnx", "step.onnx", "faster.onnx"))
    command(capsys, "zoo", "build", "light-mlp", "--batch", BATCH, "-o", model)
    np.savez(tmp_path / "samples.npz", **datasets.digits(20 * BATCH))
    command(capsys, "train-graph", model, "-o", step, "--optimizer", "sgd")
    command(capsys, "optimize", step, "-o", faster, "--budget", "5", "--threads", 1)
    losses = [
        command(capsys, "train", path, "--data", tmp_path / "samples.npz", "--steps", 20)["losses"]
        for path in (step, faster)
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_what_cannot_be_trained_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "digits.onnx"
    command(capsys, "zoo", "build", "light-mlp", "-o", model)
    code = run(["train-graph", str(model), "-o", str(tmp_path / "step.onnx"), "--optimizer", "sdg"])
    assert code == 2
    assert "optimizer: expected one of sgd, momentum" in capsys.readouterr().err
    assert not (tmp_path / "step.onnx").exists()


def test_steps_that_differ_from_the_second_on_are_not_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another momentum changes nothing while the moments are zeros."""
    model = tmp_path / "digits.onnx"
    command(capsys, "zoo", "build", "light-mlp", "-o", model)
    for momentum in ("0.9", "0.8"):
        options = ("--optimizer", "momentum", "--momentum", momentum, "--learning-rate", "0.01")
        command(capsys, "train-graph", model, "-o", tmp_path / f"{momentum}.onnx", *options)
    first, other = str(tmp_path / "0.9.onnx"), str(tmp_path / "0.8.onnx")
    assert run(["check", first, first]) == 0
    assert run(["check", first, other]) == 1
    assert ".momentum.next" in capsys.readouterr().out
