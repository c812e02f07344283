"""A service on a socket of this machine, for tests that talk to it as others do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from superopt.equations import parse_equation
from superopt.journeys.library.discovery import verify_pending
from superopt.server.http.app import create_app
from superopt.server.http.state import shared_state
from superopt.server.problem_types import ProblemType
from superopt.server.process.serve import http_configuration
from superopt.server.settings import Settings
from superopt.substitution_db import CandidateRule, Database, open_database
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.records import JobFile, JobRole

RULES = ("relu(relu(x)) => relu(x)", "add(x, y) <=> add(y, x)", "transpose(transpose(x)) => x")


@contextmanager
def serving(settings: Settings, database: Database) -> Iterator[str]:
    """The address of the service, which ends with the block."""
    app = create_app(settings, database)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(http_configuration(app, 5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            shared_state(app).stopping.set()
            server.should_exit = True
            thread.join()


@contextmanager
def furnished(directory: Path) -> Iterator[Database]:
    """A database with three rules, one of them proved and in force."""
    with open_database(f"sqlite:///{directory}/service.db", library=directory / "none") as database:
        database.rules.add_candidates([CandidateRule(parse_equation(RULES[0]), "test")])
        verify_pending(database)
        database.rules.add_candidates(CandidateRule(parse_equation(text), "test") for text in RULES[1:])
        database.library.publish(current(), "test")
        yield database


def add_jobs(database: Database, model: bytes) -> tuple[str, ...]:
    """The ids of optimizations of a model: one that succeeded, one that failed, one that waits."""
    queue = database.queue("test")
    blob, report = database.blobs.put_bytes(model), database.blobs.put_bytes(b'{"schema": 1}')
    files = [JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)]
    results = [
        JobFile(JobRole.RESULT, "net-optimized.onnx", blob.sha256, blob.bytes),
        JobFile(JobRole.REPORT, "net-report.json", report.sha256, report.bytes),
    ]
    made = tuple(database.jobs.submit(NewJob("net.onnx", files)).id for _ in range(3))
    first, second = queue.claim(), queue.claim()
    assert first is not None
    assert second is not None
    queue.succeed(first, results)
    queue.fail(second, ProblemType.JOB_TIME.document("the time limit is 1 s"))
    return made
