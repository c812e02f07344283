"""Servers and workers as processes that can be killed: forks of one that has imported everything."""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx
import uvicorn

from superopt.server.http import app as server_app
from superopt.server.http.upload import Upload
from superopt.server.settings import Settings
from superopt.server.worker import task as server_task
from superopt.server.worker.device import this_device
from superopt.server.worker.loop import Worker, run_worker
from superopt.substitution_db import Database, open_database
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.records import JobFile, JobRole, JobState
from tests.crash.edges import Edge, arm

current()  # so that no fork has to read the axioms, or to ask what machine this is
this_device()
WORK = "tests.crash.work:quick"
ROOT = Path(__file__).parents[2]
NO_LIBRARY = Path("/dev/null")
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["__main__", __name__])


def settings(**changes: object) -> Settings:
    """Settings under which a dead worker is replaced soon."""
    usual = {
        "job_niceness": 0,
        "poll_seconds": 0.05,
        "lease_seconds": 0.4,
        "heartbeat_seconds": 0.1,
        "cancel_seconds": 5.0,
        "min_free_bytes": 0,
        "max_job_attempts": 20,
    }
    return Settings(**{**usual, **changes})  # type: ignore[arg-type]


def start_worker(url: str, changed: Settings, edge: Edge | None = None) -> BaseProcess:
    """A worker, which dies at the edge."""
    return _started(_work, url, changed, edge)


def start_racers(url: str, names: Sequence[str], ready: Path) -> list[BaseProcess]:
    """Processes that claim jobs and end them, as fast as they can, until none waits. None begins before all
    have opened the database, and none ends its first job before all have one, which they tell each other by
    files in the directory ``ready``."""
    return [_started(_race, url, name, ready, len(names)) for name in names]


def start_server(url: str, changed: Settings, port: int, edge: Edge | None = None) -> BaseProcess:
    """An HTTP server on a port of this machine, which dies at the edge."""
    return _started(_serve, url, changed, edge, port)


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def wait_for(client: httpx.Client) -> None:
    """Returns when the server answers."""
    while True:
        try:
            client.get("/livez")
        except httpx.TransportError:
            time.sleep(0.02)
        else:
            return


def _started(function: object, *arguments: object) -> BaseProcess:
    process = _forks.Process(target=_prepared, args=(dict(os.environ), function, *arguments), daemon=False)
    process.start()
    return process


def _prepared(environment: dict[str, str], function: object, *arguments: object) -> None:
    """The forks' origin knows the environment of its first user only."""
    os.environ.clear()
    os.environ.update(environment, PYTHONPATH=str(ROOT), SUPEROPT_LIBRARY=str(NO_LIBRARY))
    server_task.WORK = WORK
    assert callable(function)
    function(*arguments)


def _work(url: str, changed: Settings, edge: Edge | None) -> None:
    if edge is not None:
        arm(edge)
    run_worker(url, changed)


def _race(url: str, name: str, ready: Path, racers: int) -> None:
    with open_database(url) as database:
        blob = database.blobs.put_bytes(name.encode())
        result = JobFile(JobRole.RESULT, name, blob.sha256, blob.bytes)
        queue = database.queue(name)
        _meet(ready, name, racers)
        lease = queue.claim()
        _meet(ready, f"{name} has a job", 2 * racers)
        while lease is not None or database.jobs.counts()[JobState.QUEUED]:
            if lease is not None:
                queue.succeed(lease, [result])
            lease = queue.claim()


def _meet(place: Path, name: str, count: int) -> None:
    """Returns when so many files were put there, this one among them."""
    (place / name).touch()
    until = time.monotonic() + 60
    while len(list(place.iterdir())) < count and time.monotonic() < until:
        time.sleep(0.001)


def _serve(url: str, changed: Settings, edge: Edge | None, port: int) -> None:
    Upload.inspect = lambda *_: None  # type: ignore[method-assign,assignment] # models here are no models,
    server_app.prepare = lambda: None  # and nothing has to be ready to look at them
    if edge is not None:
        arm(edge)
    with open_database(url) as database:
        app = server_app.create_app(changed, database)
        uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical")).run()


def rescue(database: Database, changed: Settings) -> None:
    """Does what is left to do, in this process."""
    stop = threading.Event()
    worker = Worker(database, changed, stop)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        while any(not job.state.final for job in database.jobs.list()):
            assert thread.is_alive(), "the worker ended with jobs left to do"
            stop.wait(0.05)
    finally:
        stop.set()
        thread.join()
