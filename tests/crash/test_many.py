"""Workers that race for jobs, and a few kills at random (``python -m tests.crash`` for many)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from superopt.substitution_db import Database
from superopt.substitution_db.jobs.repository import NewJob, insert_job
from superopt.substitution_db.store.records import JobFile, JobRole, JobState
from tests.crash.kills import kill_at_random
from tests.crash.processes import start_racers

JOBS = 200


def test_two_workers_race_and_each_job_is_done_once(database: Database, tmp_path: Path) -> None:
    blob = database.blobs.put_bytes(b"model")
    file = JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)
    new = NewJob("net.onnx", [file])
    with database.transactions.write() as session:
        accepted = [insert_job(session, database.blobs, new, None).id for _ in range(JOBS)]
    ready = tmp_path / "ready"
    ready.mkdir()
    for racer in start_racers(database.url, ("one", "two"), ready):
        racer.join()
    jobs = database.jobs.list()
    assert [job.id for job in jobs] == accepted[::-1]
    assert Counter((job.state, job.attempts, len(job.files)) for job in jobs) == {
        (JobState.SUCCEEDED, 1, 2): JOBS
    }
    winners = Counter(file.name for job in jobs for file in job.files if file.role is JobRole.RESULT)
    assert set(winners) == {"one", "two"}


def test_kills_at_random(database: Database) -> None:
    outcome = kill_at_random(database, count=4, seed=0)
    assert outcome.jobs[JobState.SUCCEEDED] > 0
