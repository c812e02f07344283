"""superopt train: losses, checkpoints, trained models, interruption, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

from superopt.cli.main import run
from superopt.onnx_io import load_model
from superopt.optimizer.training.description import RateInput
from tests.optimizer.training.steps import linear_losses, linear_step, mlp_step, samples


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(linear_step(momentum=0.9), "step.onnx")
    onnx.save(linear_step(learning_rate=RateInput("learning_rate")), "rated.onnx")
    onnx.save(linear_step(batch=16), "fixed.onnx")
    np.savez("data.npz", **samples(64))
    np.savez("lacking.npz", x=samples(64)["x"])


def _succeeds(command: str) -> None:
    assert run(["train", *command.split()]) == 0


def test_losses_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _succeeds("step.onnx --data data.npz --steps 5 --batch-size 64 --threads 1 --json")
    document = json.loads(capsys.readouterr().out)
    expected = list(linear_losses([samples(64)] * 5, momentum=0.9))
    assert document.pop("losses") == pytest.approx(expected, rel=1e-5)
    assert all(document.pop(name) > 0 for name in ("milliseconds", "seconds", "peak_bytes"))
    assert document == {
        "step": "step.onnx",
        "steps": 5,
        "resumed_at": 0,
        "epoch": 5,
        "batch_size": 64,
        "seed": 0,
        "checkpoint": None,
        "trained": None,
    }


def test_a_summary_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    _succeeds("step.onnx --data data.npz --steps 10 --checkpoint run.safetensors")
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["steps"].strip() == "10 steps of batch size 32, 5 epochs complete"
    assert lines["loss"].strip().endswith(" at last")
    assert lines["checkpoint"].strip() == "run.safetensors, states after step 10"
    _succeeds("step.onnx --data data.npz --steps 12 --checkpoint run.safetensors --resume")
    assert "2 steps of batch size 32, resumed after 10, 6 epochs complete" in capsys.readouterr().out


def test_a_resumed_run_has_the_losses_of_a_whole_one(capsys: pytest.CaptureFixture[str]) -> None:
    def losses(command: str) -> list[float]:
        _succeeds(f"rated.onnx --data data.npz --threads 1 --json {command}")
        return json.loads(capsys.readouterr().out)["losses"]

    whole = losses("--steps 12 --seed 3 --learning-rate 0.02 --batch-size 10")
    begun = losses("--steps 5 --seed 3 --learning-rate 0.02 --batch-size 10 --checkpoint c.safetensors")
    assert begun + losses("--steps 12 --checkpoint c.safetensors --resume") == whole


def test_trained_weights_go_into_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    _succeeds("step.onnx --data data.npz --steps 9 --checkpoint c.safetensors --into fixed.onnx -o out.onnx")
    stored = load_file("c.safetensors")
    tensors = load_model("out.onnx").tensors
    assert all(np.array_equal(tensors[name].numpy(), stored[name]) for name in ("w", "b"))
    assert "trained model  out.onnx" in capsys.readouterr().out


REFUSED = [
    ("step", "--steps 0", "steps: expected at least 1, got 0"),
    ("none", "", "none.onnx does not exist"),
    ("step", "--data none.npz", "none.npz: expected a numpy archive (.npz) of inputs: no such file"),
    ("step", "--data lacking.npz", "lacking.npz: expected an array 'targets', got x"),
    ("step", "--threads 0", "threads: expected at least 1 and at most "),
    ("step", "--threads 100000", "threads: expected at least 1 and at most "),
    ("step", "--resume", "resume: expected --checkpoint with the file to continue from"),
    ("step", "--into m.onnx", "into: expected --into MODEL together with --output FILE, got only --into"),
    ("step", "-o m.onnx", "into: expected --into MODEL together with --output FILE, got only --output"),
    ("step", "--checkpoint no/c", "no/c: expected the path of a file in a directory that exists"),
    (
        *("step", "--checkpoint-every 5m"),
        "checkpoint every: expected a number of steps (100) or a time in seconds (30s), got '5m'",
    ),
    (
        *("step", "--learning-rate 0.1"),
        "learning rate: expected none, because step.onnx has the constant 0.05, got 0.1",
    ),
    ("rated", "", "learning rate: expected one, because rated.onnx has it as input"),
    ("fixed", "--batch-size 8", "batch size: expected 16, which fixed.onnx fixes, got 8"),
    (
        *("step", "--checkpoint o --into step.onnx -o o"),
        "o: expected a file of its own, and the checkpoint is the same one",
    ),
    (
        "step",
        "--checkpoint data.npz --resume",
        "checkpoint: expected a file of its own, and data.npz is",
    ),
    (
        "step",
        "--checkpoint lacking.npz --resume",
        "lacking.npz: expected a checkpoint in safetensors format",
    ),
    (
        *("step", "--checkpoint ./step.onnx"),
        "checkpoint: expected a file of its own, and step.onnx is the training step",
    ),
    (
        *("step", "--into fixed.onnx -o data.npz"),
        "output: expected a file of its own, and data.npz is the file of samples",
    ),
    (
        "step",
        "--into m.onnx -o ./m.onnx",
        "output: expected a file of its own, and m.onnx is the inference model",
    ),
    (
        *("step", "--checkpoint lacking.npz"),
        "checkpoint: expected a new file, and lacking.npz exists; --resume continues from its states",
    ),
    (
        *("step", "--checkpoint m.onnx --into m.onnx -o out.onnx"),
        "checkpoint: expected a file of its own, and m.onnx is the inference model",
    ),
]


@pytest.mark.parametrize(("step", "options", "message"), REFUSED, ids=[f"{s} {o}" for s, o, _ in REFUSED])
def test_wrong_options_are_refused_in_a_sentence(
    step: str, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"train {step}.onnx --data data.npz --steps 1 {options}"
    assert run(command.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"superopt: {message}")
    assert shown.err.count("\n") == 1


def test_a_loss_that_is_not_finite_is_a_negative_answer(capsys: pytest.CaptureFixture[str]) -> None:
    command = "rated.onnx --data data.npz --steps 99 --learning-rate 90"
    assert run(["train", *command.split()]) == 1
    assert "expected a finite loss, got inf; try a lower learning rate" in capsys.readouterr().err


def _shown_on_terminal(descriptor: int) -> Iterator[bytes]:
    try:
        while part := os.read(descriptor, 4096):
            yield part
    except OSError:  # the other end was closed
        return


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_shows_progress_and_leaves_a_checkpoint(number: signal.Signals, code: int) -> None:
    onnx.save(mlp_step(), "mlp.onnx")
    command = "train mlp.onnx --data data.npz --steps 1000000000 --checkpoint c.safetensors --threads 1"
    terminal, other = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "superopt", *command.split()], stderr=other, stdout=subprocess.DEVNULL
    ) as process:
        os.close(other)
        shown = b""
        for part in _shown_on_terminal(terminal):
            if b"loss" in shown + part and b"loss" not in shown:
                process.send_signal(number)
            shown += part
    os.close(terminal)
    assert process.returncode == code
    assert b" of 1000000000, loss " in shown
    assert (b"superopt: interrupted" in shown) == (code == 130)
    assert load_file("c.safetensors").keys() >= {"w1", "w1.moment"}
