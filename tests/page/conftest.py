"""The page in a real browser, on a real service: requests over a socket, jobs in child processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from superopt.equations import parse_equation
from superopt.journeys.library.discovery import verify_pending
from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from superopt.substitution_db import CandidateRule, Database, open_database
from superopt.substitution_db.rules.currency import current
from tests.machine import require_chromium
from tests.server.live import serving

expect.set_options(timeout=20_000)

RULES = ("add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))", "relu(relu(x)) => relu(x)")
UNPROVED = "add(x, y) <=> add(y, x)"


@dataclass(frozen=True)
class Service:
    """A running service with two proved rules and one candidate."""

    address: str
    database: Database
    settings: Settings

    @contextmanager
    def working(self, function: str = "superopt.journeys.supervision:optimize_file") -> Iterator[None]:
        """A worker that does jobs with this function (``work_functions:…`` for one of ours) for a while."""
        stop = threading.Event()
        settings = self.settings.model_copy(update={"optimize_file": function})
        thread = threading.Thread(target=Worker(self.database, settings, stop).run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service."""
    directory = tmp_path_factory.mktemp("page")
    settings = Settings(job_niceness=0, poll_seconds=0.02, cancel_seconds=5.0, min_free_bytes=0)
    with (
        pytest.MonkeyPatch.context() as environment,
        open_database(f"sqlite:///{directory}/service.db", library=directory / "none") as database,
    ):
        environment.setenv("PYTHONPATH", str(Path(__file__).parent))
        environment.setenv("SUPEROPT_LIBRARY", os.devnull)
        database.rules.add_candidates(CandidateRule(parse_equation(text), "test") for text in RULES)
        verify_pending(database)
        database.library.publish(current(), "test")
        database.rules.add_candidates([CandidateRule(parse_equation(UNPROVED), "test")])
        with serving(settings, database) as address:
            yield Service(address, database, settings)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    program = require_chromium()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def context(browser: Browser, service: Service) -> Iterator[BrowserContext]:
    """A fresh profile; what a page complains about, or asks for elsewhere, fails the test."""
    complaints: list[str] = []

    def complain(text: str) -> None:
        if "Failed to load resource" not in text:  # a problem document, which the page must show
            complaints.append(text)

    def see(url: str) -> None:
        if not url.startswith((service.address, "blob:", "data:")):
            complaints.append(url)

    def listen(page: Page) -> None:
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complain(message.text))
        page.on("request", lambda request: see(request.url))

    profile = browser.new_context(base_url=service.address, reduced_motion="reduce")
    profile.set_default_timeout(20_000)
    profile.on("page", listen)
    yield profile
    profile.close()
    assert complaints == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A tab."""
    return context.new_page()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relu(x · a + x · b), three times: one product each is enough, which is twice as fast."""
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    before = "x"
    for layer in ("layer0", "layer1", "layer2"):
        for side in "ab":
            weight = (random.standard_normal((256, 256)) / 16).astype(np.float32)
            weights.append(numpy_helper.from_array(weight, f"{layer}.{side}"))
            nodes.append(
                helper.make_node("MatMul", [before, f"{layer}.{side}"], [layer + side], layer + side)
            )
        nodes.append(helper.make_node("Add", [f"{layer}a", f"{layer}b"], [f"{layer}sum"], f"{layer}sum"))
        nodes.append(helper.make_node("Relu", [f"{layer}sum"], [layer], layer))
        before = layer
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 256]) for name in ("x", before)]
    graph = helper.make_graph(nodes, "branches", ends[:1], ends[1:], weights)
    path = tmp_path_factory.mktemp("model") / "branches.onnx"
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.fixture
def submitted(page: Page, model: Path) -> Callable[..., str]:
    """Submits the model by the page and gives the address of the run. One thread: other tests run beside
    it, and more threads than free cores wait for each other."""

    def submit(budget: str = "20") -> str:
        page.goto("/")
        page.get_by_label("Drop a model, or choose files").set_input_files(model)
        page.get_by_label("Budget in seconds").fill(budget)
        page.get_by_text("Advanced options").click()
        page.get_by_label("Threads").fill("1")
        page.get_by_role("button", name="Optimise").click()
        page.wait_for_url("**/optimizations/*")
        return page.url

    return submit
