"""A service on a fresh SQLite database, asked over HTTP without a socket, and real workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import anyio
import httpx
import numpy as np
import onnx
import pytest
from fastapi import FastAPI
from onnx import TensorProto, helper, numpy_helper

from superopt.server.http.app import create_app
from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from superopt.substitution_db import Database, open_database

LOCAL = ("127.0.0.1", 50000)


class Http:
    """Requests to an application, one after the other."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def __call__(
        self,
        method: str,
        path: str,
        *,
        client: tuple[str, int] = LOCAL,
        base: str = "http://localhost",
        **options: object,
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=client)
            async with httpx.AsyncClient(transport=transport, base_url=base, timeout=60) as session:
                return await session.request(method, path, **options)  # type: ignore[arg-type]

        return anyio.run(ask)

    def submit(self, model: bytes, **options: object) -> str:
        """Submits a model and returns the id."""
        response = self("POST", "/v1/optimizations", files={"model": ("net.onnx", model)}, **options)
        assert response.status_code == 202, response.text
        return response.json()["id"]


def problem(response: httpx.Response) -> tuple[int, str]:
    """Status and slug of a problem document, which is checked to be one."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    document = response.json()
    assert {"type", "title", "status", "detail", "instance"} <= set(document)
    assert document["status"] == response.status_code
    return response.status_code, document["type"].removeprefix("/problems/")


def tiny_model(external: str | None = None, shape: Sequence[int | str] = (4,)) -> bytes:
    """y = relu(x + w) for x of that shape; the weight perhaps outside the file."""
    weight = numpy_helper.from_array(np.ones(4, np.float32), "w")
    if external:
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=external)
        weight.external_data.add(key="length", value="16")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weight],
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    return model.SerializeToString()


WEIGHT = np.ones(4, np.float32).tobytes()


@pytest.fixture
def model() -> bytes:
    """A small valid model."""
    content = tiny_model()
    onnx.checker.check_model(content)
    return content


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings for tests: the work is done by functions of ``work_functions``, quickly."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    return Settings(
        optimize_file="work_functions:copy",
        plans_clusters=True,
        job_niceness=0,
        poll_seconds=0.02,
        cancel_seconds=5.0,
        min_free_bytes=0,
    )


@pytest.fixture
def database(database_url: str, tmp_path: Path) -> Iterator[Database]:
    """An open database without rules."""
    with open_database(database_url, library=tmp_path / "none") as opened:
        yield opened


@pytest.fixture
def http(settings: Settings, database: Database) -> Http:
    """The service."""
    return Http(create_app(settings, database))


@pytest.fixture
def work(settings: Settings, database: Database) -> Callable[..., None]:
    """Does one waiting job with a function of ``work_functions``."""

    def do(function: str = "copy", module: str = "work_functions", **changes: object) -> None:
        changed = settings.model_copy(update={"optimize_file": f"{module}:{function}", **changes})
        assert Worker(database, changed, threading.Event()).do_one()

    return do
