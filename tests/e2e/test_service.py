"""The main job over HTTP: a real server, a real worker, a real model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import onnx
import pytest

from superopt import zoo
from tests.e2e.conftest import serving


@pytest.fixture
def address(tmp_path: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of a running service."""
    with serving(environment, tmp_path / "serve.log") as found:
        yield found


def test_a_model_goes_in_and_an_equal_one_comes_back(address: str) -> None:
    content = zoo.build("squeezenet").SerializeToString()
    with httpx.Client(base_url=address, timeout=120) as client:
        accepted = client.post(
            "/v1/optimizations",
            files={"model": ("squeezenet.onnx", content)},
            data={"options": '{"budget": 10, "threads": 1, "max_candidates": 20}'},
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
