"""What must hold of jobs whatever was killed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from superopt.server.worker.cleaning import clean
from superopt.substitution_db import Database
from superopt.substitution_db.store.records import Job, JobRole, JobState

_NEXT = {
    None: {"queued"},
    "queued": {"running", "cancelled", "succeeded"},
    "running": {"queued", "cancelling", "succeeded", "failed", "crashed"},
    "cancelling": {"cancelled", "failed"},
}


def check(database: Database, accepted: Iterable[str]) -> tuple[Job, ...]:
    """No accepted job is lost, all have ended, each on one way through the states and with one result that is
    there; nothing else is left. Returns the jobs.
    """
    jobs = database.jobs.list()
    assert set(accepted) <= {job.id for job in jobs}, "a job was lost"
    for job in jobs:
        _check_history(database, job)
        for file in job.files:
            content = database.blobs.path(file.sha256).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file.sha256
        results = [file.role for file in job.files if file.role in (JobRole.RESULT, JobRole.REPORT)]
        expected = [JobRole.REPORT, JobRole.RESULT] if job.state is JobState.SUCCEEDED else []
        assert sorted(results) == sorted(expected), (job.id, job.state, results)
    _check_disk(database, jobs)
    return jobs


def _check_history(database: Database, job: Job) -> None:
    states = [str(e.content["state"]) for e in database.jobs.events(job.id) if e.kind == "state"]
    before = None
    for state in states:
        assert state in _NEXT.get(before, set()), (job.id, states)
        before = state
    assert before == job.state, (job.id, states, job.state)
    assert job.state.final, (job.id, job.state)


def _check_disk(database: Database, jobs: Iterable[Job]) -> None:
    """What dead processes left is collected, and only that."""
    clean(database, database.queue("cleaning"), 3600, young_seconds=-1)
    directory = database.blobs.directory
    assert database.blobs.stored() == {file.sha256 for job in jobs for file in job.files}
    assert [path.name for name in ("incoming", "work") for path in (directory / name).glob("*")] == []
