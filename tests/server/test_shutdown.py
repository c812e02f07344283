"""SIGTERM: what runs is given back within the grace period, and the exit code is 0."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from superopt.server.settings import Settings
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.store.records import JobFile, JobRole, JobState

GRACE_SECONDS = 60


@pytest.mark.parametrize(
    "program",
    [
        "from superopt.server.process.serve import serve; serve(port=0, workers=1)",
        "from superopt.server.worker.loop import run_worker; run_worker()",
    ],
)
def test_a_running_job_is_given_back(
    program: str, database: Database, settings: Settings, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPEROPT_LIBRARY", "/dev/null")
    slow = settings.model_copy(update={"optimize_file": "work_functions:wait_until_cancelled"})
    blob = database.blobs.put_bytes(model)
    file = JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)
    job = database.jobs.submit(NewJob("net.onnx", [file]))
    environment = {
        **os.environ,
        **slow.to_environment(),
        "SUPEROPT_DATABASE_URL": database.url,
        "SUPEROPT_BLOB_DIRECTORY": str(database.blobs.directory),
    }
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    while database.jobs.events(job.id)[-1].kind != "progress":
        assert process.poll() is None
        time.sleep(0.02)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=GRACE_SECONDS) == 0
    assert [member for member in family if member.is_running()] == []
    after = database.jobs.get(job.id)
    assert after is not None
    assert (after.state, after.attempts) == (JobState.QUEUED, 0)
    assert database.activity.workers() == ()
