"""What the service does while its database is away, and when a disk is full."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import event, text

from superopt.server.http.app import create_app
from superopt.server.worker.loop import Worker
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.store.blobs import BlobStore, BlobWriter
from superopt.substitution_db.store.engine import DatabaseFullError
from superopt.substitution_db.store.records import Job, JobFile, JobRole, JobState
from tests.crash.invariants import check
from tests.crash.processes import rescue, settings, start_worker
from tests.postgres import PostgresServer
from tests.server.conftest import Http, problem, tiny_model

URL = "/v1/optimizations"


def submitted(database: Database, ending: str) -> Job:
    blob = database.blobs.put_bytes(b"model")
    file = JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)
    return database.jobs.submit(NewJob("net.onnx", [file], {"ending": ending}, max_attempts=2))


def stored(database: Database, job: Job) -> Job:
    found = database.jobs.get(job.id)
    assert found is not None
    return found


def do_one(database: Database) -> None:
    assert Worker(database, settings(), threading.Event()).do_one()


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_of_the_database_is_survived(
    database: Database, postgres: PostgresServer, mode: str
) -> None:
    job = submitted(database, "wait")
    http = Http(create_app(settings(), database))
    worker = start_worker(database.url, settings())
    while not stored(database, job).progress:
        worker.join(0.01)
    postgres.stop(mode)
    try:
        answers = [http("GET", f"{URL}/{job.id}"), http("POST", URL, files={"model": tiny_model()})]
        metrics = http("GET", "/metrics")
        worker.join(1)
    finally:
        postgres.start()
    assert [problem(answer) for answer in answers] == [(503, "database-unavailable")] * 2
    assert metrics.status_code == 200
    assert "superopt_database_up 0.0" in metrics.text
    assert http("DELETE", f"{URL}/{job.id}").json()["state"] == "cancelling"
    while not stored(database, job).state.final:
        worker.join(0.01)
    assert (stored(database, job).state, stored(database, job).attempts) == (JobState.CANCELLED, 1)
    worker.terminate()
    worker.join()
    assert worker.exitcode == 0
    check(database, [job.id])


class Full:
    """Writing a blob fails for as long as the disk is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = True
        write: Callable[..., None] = BlobWriter.write

        def attempt(writer: BlobWriter, chunk: bytes) -> None:
            if self.now:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(writer, chunk)

        monkeypatch.setattr(BlobWriter, "write", attempt)


def test_an_upload_to_a_full_disk_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Full(monkeypatch)
    http = Http(create_app(settings(), database))
    assert problem(http("POST", URL, files={"model": tiny_model()})) == (507, "disk-full")
    full.now = False
    accepted = http("POST", URL, files={"model": tiny_model()})
    assert accepted.status_code == 202
    rescue(database, settings())
    check(database, [accepted.json()["id"]])


def test_a_result_that_finds_a_full_disk_is_computed_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(database, "")
    full = Full(monkeypatch)
    do_one(database)
    assert stored(database, job).state is JobState.QUEUED
    full.now = False
    do_one(database)
    assert (stored(database, job).state, stored(database, job).attempts) == (JobState.SUCCEEDED, 2)
    check(database, [job.id])


@pytest.mark.parametrize("where", ["in the child", "in the worker"])
def test_a_job_for_which_the_disk_never_suffices_ends_with_a_reason(
    database: Database, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    job = submitted(database, "fill" if where == "in the child" else "")
    if where == "in the worker":
        Full(monkeypatch)
    do_one(database)
    do_one(database)
    ended = stored(database, job)
    assert ended.error is not None
    assert (ended.state, ended.error["type"]) == (JobState.CRASHED, "/problems/disk-full")


def test_workers_wait_while_the_disk_is_nearly_full(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(database, "")
    stop = threading.Event()
    looked = threading.Event()

    def free_bytes(_: BlobStore) -> int:
        looked.set()
        return 5

    monkeypatch.setattr(BlobStore, "free_bytes", free_bytes)
    thread = threading.Thread(target=Worker(database, settings(min_free_bytes=10), stop).run)
    thread.start()
    assert looked.wait(60)
    stop.set()
    thread.join()
    assert (stored(database, job).state, stored(database, job).attempts) == (JobState.QUEUED, 0)


def test_a_database_on_a_full_disk_is_said_to_be_full(database: Database, backend: str) -> None:
    http = Http(create_app(settings(), database))
    if backend == "sqlite":
        fill(database)
    with pytest.raises(DatabaseFullError, match="cannot be used"), database.transactions.write() as session:
        session.execute(text(OVERFLOW[backend]))
    if backend == "sqlite":
        much = json.dumps({"keep": [f"{n:0500}" for n in range(1800)]})
        refused = http("POST", URL, files={"model": tiny_model()}, data={"options": much})
        assert problem(refused) == (507, "disk-full")
        assert http("GET", URL).json()["items"] == []


OVERFLOW = {
    "sqlite": "INSERT INTO costs SELECT hex(randomblob(32)), hex(randomblob(100000)), 1, '', '', ''",
    "postgresql": "DO $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$",
}


def fill(database: Database) -> None:
    """Lets the file of an SQLite database grow no more."""
    engine = database.transactions.engine
    engine.dispose()
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count=1"))
