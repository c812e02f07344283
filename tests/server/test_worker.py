from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from superopt.processes.supervised import Supervised
from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.store.records import Job, JobFile, JobRole, JobState
from tests.conftest import BACKENDS

Work = Callable[..., None]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Workers are tested on both databases."""
    return str(request.param)


@pytest.fixture
def job(database: Database, model: bytes) -> Job:
    """A waiting job."""
    blob = database.blobs.put_bytes(model)
    file = JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)
    return database.jobs.submit(NewJob("net.onnx", [file], max_attempts=2))


def after(database: Database, job: Job) -> Job:
    stored = database.jobs.get(job.id)
    assert stored is not None
    return stored


@pytest.mark.parametrize(
    ("function", "changes", "state", "slug", "detail"),
    [
        ("refuse", {}, "failed", "invalid-input", "target: expected cpu or cuda, got abacus"),
        ("miss", {}, "failed", "missing-service", "there is no CUDA device"),
        (
            "have_a_bug",
            {},
            "failed",
            "optimization-error",
            "the process failed; see its log",
        ),
        ("hang", {"max_job_seconds": 1.0}, "failed", "time-limit", "the time limit is 1 s"),
        ("eat_memory", {"max_job_bytes": 400 << 20}, "failed", "memory-limit", "the memory limit is 400 MiB"),
        (
            "copy",
            {"max_model_nodes": 1},
            "failed",
            "model-too-large",
            "the model has 2 nodes, the limit is 1",
        ),
        (
            "break_down",
            {},
            "failed",
            "optimization-error",
            "the log has the details, under the id of the job",
        ),
        ("crash", {}, "queued", "process-lost", "the process was killed by SIGSEGV"),
        ("lose_the_database", {}, "queued", "database-unavailable", "the job could not use the database"),
    ],
)
def test_no_job_takes_the_worker_with_it(
    database: Database,
    job: Job,
    work: Work,
    function: str,
    changes: dict[str, float],
    state: str,
    slug: str,
    detail: str,
) -> None:
    work(function, **changes)
    ended = after(database, job)
    assert ended.state == state
    if ended.state is JobState.QUEUED:
        work(function, **changes)
        ended = after(database, job)
        assert ended.state is JobState.CRASHED
    assert ended.error is not None
    assert (ended.error["type"], ended.error["detail"]) == (f"/problems/{slug}", detail)
    assert database.blobs.work_directories() == frozenset()


def test_a_child_that_died_is_started_again(
    database: Database, job: Job, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRASHED_ALREADY", str(tmp_path / "crashed"))
    work("crash_once")
    assert after(database, job).state is JobState.QUEUED
    work("crash_once")
    assert (after(database, job).state, after(database, job).attempts) == (JobState.SUCCEEDED, 2)


def start(database: Database, settings: Settings, function: str) -> tuple[threading.Thread, threading.Event]:
    stop = threading.Event()
    changed = settings.model_copy(update={"optimize_file": f"work_functions:{function}"})
    thread = threading.Thread(target=Worker(database, changed, stop).run)
    thread.start()
    return thread, stop


def wait_for_progress(database: Database, job: Job) -> dict[str, object]:
    while not (progress := after(database, job).progress):
        time.sleep(0.02)
    return dict(progress)


def state_when_cancelled(
    database: Database, job: Job, thread: threading.Thread, stop: threading.Event
) -> JobState:
    """Cancels the job that a worker does, and ends the worker."""
    database.jobs.cancel(job.id)
    while not after(database, job).state.final:
        time.sleep(0.02)
    stop.set()
    thread.join()
    return after(database, job).state


def test_a_worker_that_stops_gives_its_job_back(database: Database, job: Job, settings: Settings) -> None:
    thread, stop = start(database, settings, "wait_until_cancelled")
    wait_for_progress(database, job)
    stop.set()
    thread.join()
    assert (after(database, job).state, after(database, job).attempts) == (JobState.QUEUED, 0)


def test_a_job_that_does_not_listen_is_ended(database: Database, job: Job, settings: Settings) -> None:
    changed = settings.model_copy(update={"cancel_seconds": 0.2, "job_niceness": 3})
    thread, stop = start(database, changed, "hang")
    pid = wait_for_progress(database, job)["pid"]
    assert psutil.Process(int(str(pid))).nice() == psutil.Process().nice() + 3
    assert state_when_cancelled(database, job, thread, stop) is JobState.CANCELLED
    assert not psutil.pid_exists(int(str(pid)))


def test_work_does_not_take_cancelling_for_a_failure(
    database: Database, job: Job, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    thread, stop = start(database, settings, "complain_of_failures")
    wait_for_progress(database, job)
    assert state_when_cancelled(database, job, thread, stop) is JobState.CANCELLED
    assert "it failed" not in capfd.readouterr().err


def test_a_job_lost_to_another_worker_is_dropped(database: Database, job: Job, settings: Settings) -> None:
    thread, stop = start(database, settings, "hang")
    wait_for_progress(database, job)
    heir = database.queue("heir", lease_seconds=0.01)
    while (lease := heir.claim()) is None:
        time.sleep(0.01)
    stop.set()
    thread.join()
    assert heir.state(lease) is JobState.RUNNING
    assert heir.succeed(lease, []).state is JobState.SUCCEEDED


def test_kill_9_of_a_worker_leaves_no_process_and_no_job_behind(
    database: Database, job: Job, settings: Settings
) -> None:
    environment = {
        **settings.model_copy(update={"optimize_file": "work_functions:hang"}).to_environment(),
        "SUPEROPT_DATABASE_URL": database.url,
    }
    worker = Supervised("superopt.server.worker.loop", environment=environment)
    pid = int(str(wait_for_progress(database, job)["pid"]))
    worker.end()
    heir = database.queue("heir", lease_seconds=0.1)
    while (lease := heir.claim()) is None:
        time.sleep(0.02)
    assert (lease.job.id, lease.job.attempts) == (job.id, 2)
    while psutil.pid_exists(pid):
        time.sleep(0.02)


@pytest.mark.usefixtures("job")
def test_what_is_left_over_is_removed(database: Database, work: Work) -> None:
    from superopt.server.worker.cleaning import clean

    work()
    database.blobs.put_bytes(b"nobody's")
    database.blobs.work_directory("nobody's")
    queue = database.queue("cleaning")
    clean(database, queue, 3600)
    assert database.blobs.work_directories() == frozenset()
    assert len(database.blobs.stored()) == 3  # the model is its own result
    clean(database, queue, 3600, young_seconds=-1)
    assert len(database.blobs.stored()) == 2
    clean(database, queue, -1, young_seconds=-1)
    assert database.blobs.stored() == frozenset()
