"""The main job over HTTP: a real server, a real worker, a real model."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import onnx
import pytest

from superopt import zoo


@pytest.fixture
def address(tmp_path: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a running service."""
    log = tmp_path / "serve.log"
    with log.open("w") as written:
        running = subprocess.Popen(
            [sys.executable, "-m", "superopt", "serve", "--port", "0"], env=environment, stderr=written
        )
        try:
            yield _address(running, log)
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(timeout=60) == 0, log.read_text()


def _address(running: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(600):
        found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
        if found:
            return found.group()
        try:
            running.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    pytest.fail(f"the service did not start: {log.read_text()}")


def test_a_model_goes_in_and_an_equal_one_comes_back(address: str) -> None:
    content = zoo.build("squeezenet").SerializeToString()
    with httpx.Client(base_url=address, timeout=120) as client:
        accepted = client.post(
            "/v1/optimizations",
            files={"model": ("squeezenet.onnx", content)},
            data={"options": '{"budget": 10, "threads": 1}'},
            headers={"Prefer": "wait=60"},
        )
        assert accepted.status_code in (200, 202), accepted.text
        job = accepted.headers["location"]
        state = client.get(job).json()
        while state["state"] in ("queued", "running"):
            with client.stream("GET", f"{job}/events") as events:
                for _ in events.iter_lines():
                    pass
            state = client.get(job).json()
        assert state["state"] == "succeeded", state
        report = client.get(f"{job}/report").json()
        written = onnx.load_from_string(client.get(f"{job}/model").content)
    assert report["schema"] == 1
    assert report["rules"]["loaded"] >= 30
    onnx.checker.check_model(written)
    assert [value.name for value in written.graph.output] == [
        value.name for value in onnx.load_from_string(content).graph.output
    ]
