"""Where models of supervised jobs are read and written: external data, pipes, open descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import superopt
from superopt.errors import InvalidModelError
from superopt.journeys.supervision import Job, Outcome, run_job
from tests.supervision_kit import job_about, small_network


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(small_network(np.ones((4, 4), np.float32)), path)
    return path


def test_external_data_comes_along(tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    target.mkdir()
    weights = np.arange(16, dtype=np.float32).reshape(4, 4)
    onnx.save(
        small_network(weights),
        source / "net.onnx",
        save_as_external_data=True,
        size_threshold=0,
        location="w.bin",
    )
    job = job_about(source / "net.onnx", "crash", reports=())
    assert run_job(
        Job(job.model, target / "o.onnx", {}, 9, time.monotonic(), function=job.function)
    ).is_broken
    assert onnx.load(target / "o.onnx").graph.initializer[0].raw_data == weights.tobytes()


def test_time_is_kept_for_copying_external_data(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside.onnx", tmp_path / "outside.onnx"
    network = small_network(np.zeros((4, 4), np.float32))
    onnx.save(network, inside)
    onnx.save(network, outside, save_as_external_data=True, size_threshold=0, location="w.bin")
    lasts = {path: Job(path, None, {}, 9, time.monotonic()).seconds for path in (inside, outside)}
    assert lasts[outside] < lasts[inside] - 0.5


def test_a_model_comes_through_a_pipe(model: Path) -> None:
    pipe = model.with_name("pipe")
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_bytes, args=(model.read_bytes(),), daemon=True)
    writing.start()
    outcome: Outcome = run_job(job_about(pipe, "read", budget=30.0))
    writing.join()
    assert outcome.report["why"] == f"{model.stat().st_size} bytes"


def test_an_open_descriptor_is_written_into(model: Path) -> None:
    reading, writing = os.pipe()
    job = replace(job_about(model, "write", budget=30.0), output=Path(f"/dev/fd/{writing}"))
    run_job(job)
    assert os.read(reading, 100) == b"written"
    os.close(reading)
    os.close(writing)


def test_the_original_with_external_data_goes_into_an_open_descriptor_as_one_file(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    network = small_network(np.full((4, 4), 2, np.float32))
    onnx.save(network, model, save_as_external_data=True, location="data", size_threshold=0)
    reading, writing = os.pipe()
    job = replace(job_about(model, "have_a_bug"), output=Path(f"/dev/fd/{writing}"), budget=9)
    assert run_job(job).is_broken
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        (weight,) = onnx.load_from_string(pipe.read()).graph.initializer
    assert (numpy_helper.to_array(weight) == 2).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"nowhere\.onnx cannot be read: No such file"),
        (b"", r"nowhere\.onnx is not a valid ONNX file"),
        (b"\x00no model", r"nowhere\.onnx is not a valid ONNX file"),
    ],
)
def test_what_is_no_model_does_not_come_out(content: bytes | None, message: str, tmp_path: Path) -> None:
    """Not even where the process did not live to find that out."""
    path = tmp_path / "nowhere.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidModelError, match=message):
        run_job(job_about(path, "loop"))
    assert not path.with_name("out.onnx").exists()


def test_a_model_lies_at_an_open_descriptor(model: Path) -> None:
    """The process that does the job does not have it."""
    with model.open("rb") as file:
        job = job_about(Path(f"/dev/fd/{file.fileno()}"), "read", budget=30.0)
        assert run_job(job).report["why"] == f"{model.stat().st_size} bytes"


@pytest.mark.parametrize("objective", ["latency", "training"])
def test_a_model_without_a_file_of_its_own_is_named_as_the_user_does(tmp_path: Path, objective: str) -> None:
    with pytest.raises(InvalidModelError, match=r"^the model is empty; expected an ONNX model$"):
        superopt.optimize(b"", budget=5, objective=objective)
    model = tmp_path / "net.onnx"
    network = small_network(np.ones((4, 4), np.float32))
    onnx.save(network, model, save_as_external_data=True, location="w.bin", size_threshold=0)
    said = "tensor 'w' is stored in 'w.bin', which is not next to it; give the model by its path"
    with pytest.raises(InvalidModelError) as raised:
        superopt.optimize(model.read_bytes(), budget=5, objective=objective)
    assert str(raised.value) == f"the model: {said}"
    words = ["optimize", "-", "-o", str(tmp_path / "out.onnx"), "--objective", objective]
    with model.open("rb") as file:
        ended = subprocess.run(
            [sys.executable, "-m", "superopt", *words],
            stdin=file,
            capture_output=True,
            check=False,
            text=True,
        )
    assert ended.returncode == 2
    assert f"standard input: {said}" in ended.stderr
