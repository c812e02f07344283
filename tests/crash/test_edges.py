"""``kill -9`` at every state edge of a job, on both databases."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from superopt.substitution_db import Database
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.store.records import Job, JobFile, JobRole, JobState
from tests.crash.edges import Edge, When
from tests.crash.invariants import check
from tests.crash.processes import (
    free_port,
    rescue,
    settings,
    start_server,
    start_worker,
    wait_for,
)

BEFORE, AFTER = When.BEFORE, When.AFTER
QUEUE = "superopt.substitution_db.jobs.queue"


def submitted(database: Database, ending: str) -> Job:
    blob = database.blobs.put_bytes(b"model")
    file = JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)
    return database.jobs.submit(NewJob("net.onnx", [file], {"ending": ending}))


WORKER_EDGES: list[tuple[Edge, str, JobState, JobState]] = [
    (Edge(AFTER, f"{QUEUE}:JobQueue.claim"), "", JobState.RUNNING, JobState.SUCCEEDED),
    (Edge(AFTER, "superopt.server.worker.task:Task._lay_out"), "", JobState.RUNNING, JobState.SUCCEEDED),
    (
        Edge(AFTER, "superopt.processes.supervised:Supervised.__init__"),
        "",
        JobState.RUNNING,
        JobState.SUCCEEDED,
    ),
    (
        Edge(AFTER, f"{QUEUE}:JobQueue.report_progress"),
        "wait",
        JobState.RUNNING,
        JobState.CANCELLED,
    ),
    (Edge(AFTER, f"{QUEUE}:JobQueue.heartbeat"), "wait", JobState.RUNNING, JobState.CANCELLED),
    (Edge(BEFORE, "superopt.server.worker.task:Task._conclude"), "", JobState.RUNNING, JobState.SUCCEEDED),
    (
        Edge(AFTER, "superopt.substitution_db.store.blobs:BlobStore.put_file"),
        "",
        JobState.RUNNING,
        JobState.SUCCEEDED,
    ),
    (Edge(BEFORE, f"{QUEUE}:JobQueue.succeed"), "", JobState.RUNNING, JobState.SUCCEEDED),
    (Edge(AFTER, f"{QUEUE}:give_result"), "", JobState.RUNNING, JobState.SUCCEEDED),
    (Edge(AFTER, f"{QUEUE}:JobQueue.succeed"), "", JobState.SUCCEEDED, JobState.SUCCEEDED),
    (Edge(BEFORE, f"{QUEUE}:JobQueue.fail"), "refuse", JobState.RUNNING, JobState.FAILED),
    (Edge(AFTER, f"{QUEUE}:JobQueue.fail"), "refuse", JobState.FAILED, JobState.FAILED),
    (Edge(BEFORE, f"{QUEUE}:JobQueue.lost_process"), "die", JobState.RUNNING, JobState.CRASHED),
    (Edge(AFTER, f"{QUEUE}:JobQueue.lost_process"), "die", JobState.QUEUED, JobState.CRASHED),
]


@pytest.mark.parametrize(("edge", "ending", "left", "final"), WORKER_EDGES, ids=str)
def test_kill_9_of_a_worker(
    database: Database, edge: Edge, ending: str, left: JobState, final: JobState
) -> None:
    job = submitted(database, ending)
    worker = start_worker(database.url, settings(), edge)
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    assert stored(database, job).state is left
    if ending == "wait":
        database.jobs.cancel(job.id)
    rescue(database, settings())
    (ended,) = check(database, [job.id])
    assert ended.state is final


@pytest.mark.parametrize(
    ("edge", "left"),
    [
        (Edge(BEFORE, f"{QUEUE}:JobQueue.cancelled"), JobState.CANCELLING),
        (Edge(AFTER, f"{QUEUE}:change_state", count=2), JobState.CANCELLING),
        (Edge(AFTER, f"{QUEUE}:JobQueue.cancelled"), JobState.CANCELLED),
    ],
    ids=str,
)
def test_kill_9_of_a_worker_that_cancels(database: Database, edge: Edge, left: JobState) -> None:
    job = submitted(database, "wait")
    worker = start_worker(database.url, settings(), edge)
    while not stored(database, job).progress:
        worker.join(0.01)
    database.jobs.cancel(job.id)
    worker.join()
    assert (worker.exitcode, stored(database, job).state) == (-signal.SIGKILL, left)
    rescue(database, settings())
    (ended,) = check(database, [job.id])
    assert ended.state is JobState.CANCELLED


@pytest.mark.parametrize(
    "edge",
    [
        Edge(BEFORE, f"{QUEUE}:JobQueue.give_back"),
        Edge(AFTER, f"{QUEUE}:JobQueue.give_back"),
    ],
    ids=str,
)
def test_kill_9_of_a_worker_that_shuts_down(database: Database, edge: Edge) -> None:
    job = submitted(database, "wait")
    worker = start_worker(database.url, settings(), edge)
    while not stored(database, job).progress:
        worker.join(0.01)
    worker.terminate()
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    database.jobs.cancel(job.id)
    rescue(database, settings())
    (ended,) = check(database, [job.id])
    assert ended.state is JobState.CANCELLED


SERVER_EDGES = [
    (Edge(BEFORE, "superopt.server.http.upload:Upload.keep"), 0),
    (Edge(AFTER, "superopt.substitution_db.store.blobs:BlobWriter.finish"), 0),
    (Edge(AFTER, "superopt.substitution_db.jobs.repository:insert_job"), 0),
    (Edge(AFTER, "superopt.substitution_db.jobs.repository:JobRepository.submit"), 1),
]


@pytest.mark.parametrize(("edge", "kept"), SERVER_EDGES, ids=str)
def test_kill_9_of_a_server_that_accepts(database: Database, edge: Edge, kept: int) -> None:
    with dying_server(database, edge) as client, pytest.raises(httpx.TransportError):
        client.post("/v1/optimizations", files={"model": b"model"})
    assert len(database.jobs.list()) == kept
    rescue(database, settings())
    assert len(check(database, [])) == kept


def test_a_request_sent_again_after_kill_9_finds_its_job(database: Database) -> None:
    request = {"files": {"model": b"model"}, "headers": {"Idempotency-Key": "order-1"}}
    edge = Edge(AFTER, "superopt.substitution_db.jobs.submissions:SubmissionRepository.submit")
    with dying_server(database, edge) as client, pytest.raises(httpx.TransportError):
        client.post("/v1/optimizations", **request)  # type: ignore[arg-type]
    (job,) = database.jobs.list()
    with dying_server(database, None) as client:
        again = client.post("/v1/optimizations", **request)  # type: ignore[arg-type]
    assert (again.status_code, again.json()["id"]) == (202, job.id)
    rescue(database, settings())
    check(database, [job.id])


@pytest.mark.parametrize(
    ("edge", "left"),
    [
        (Edge(BEFORE, "superopt.substitution_db.jobs.repository:JobRepository.cancel"), JobState.QUEUED),
        (Edge(AFTER, "superopt.substitution_db.jobs.repository:change_state"), JobState.QUEUED),
        (Edge(AFTER, "superopt.substitution_db.jobs.repository:JobRepository.cancel"), JobState.CANCELLED),
    ],
    ids=str,
)
def test_kill_9_of_a_server_that_cancels(database: Database, edge: Edge, left: JobState) -> None:
    job = submitted(database, "")
    with dying_server(database, edge) as client, pytest.raises(httpx.TransportError):
        client.delete(f"/v1/optimizations/{job.id}")
    assert stored(database, job).state is left
    rescue(database, settings())
    check(database, [job.id])


def stored(database: Database, job: Job) -> Job:
    found = database.jobs.get(job.id)
    assert found is not None
    return found


@contextmanager
def dying_server(database: Database, edge: Edge | None) -> Iterator[httpx.Client]:
    """A server that dies at the edge, or at the end of the block."""
    port = free_port()
    server = start_server(database.url, settings(), port, edge)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        wait_for(client)
        yield client
    if edge is None:
        server.kill()
    server.join()
    assert server.exitcode == -signal.SIGKILL
