"""One attempt at a job under a lease: lays out its files, runs it in a child process, stores the results."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

from superopt.errors import MissingServiceError
from superopt.processes.child import ResourceLimits, Returned, Stopped
from superopt.server.process.background import beside
from superopt.server.process.child import Died, Ending, Failed, run_in_child
from superopt.server.settings import Settings
from superopt.server.worker.forward import ForwardProgress
from superopt.server.worker.results import known_result, result_key, result_names
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.queue import JobQueue, LeaseLostError
from superopt.substitution_db.store.records import Job, JobFile, JobRole, JobState, JsonObject, Lease

WORK = "superopt.server.worker.work:optimize"
_FILES_SECONDS = 3600.0
_PROGRESS_SECONDS = 0.25
_RETRY_SECONDS = 1.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Task:
    """One job under one lease, to be run once."""

    def __init__(
        self, database: Database, queue: JobQueue, settings: Settings, stop: threading.Event, lease: Lease
    ) -> None:
        self._database = database
        self._queue = queue
        self._settings = settings
        self._stop = stop
        self._lease = lease
        self._reported = time.monotonic()
        self._unreported: JsonObject | None = None
        self._progress = ForwardProgress()

    def run(self) -> Job:
        """Runs the job; returns it in its final state, or requeued.

        Raises LeaseLostError, MissingServiceError, OSError (its files cannot be read or written).
        """
        bound = self._settings.max_job_seconds + _FILES_SECONDS
        with kept_lease(self._queue, self._lease, self._settings.heartbeat_seconds, bound):
            job = self._lease.job
            key = result_key(self._database, self._settings, job.files, job.options, job.library_version)
            known = known_result(self._database, key, job.model_name)
            if known is not None:
                return self._durably(lambda: self._queue.reuse(self._lease, known))
            return self._compute(key)

    def give_back(self) -> Job:
        """Requeues the job without counting the attempt. Raises LeaseLostError, MissingServiceError."""
        return self._durably(lambda: self._queue.give_back(self._lease))

    def _compute(self, key: str) -> Job:
        directory = self._database.blobs.work_directory(self._lease.token)
        self._lay_out(directory / "input")
        arguments: JsonObject = {
            "directory": str(directory),
            "job": self._lease.job.id,
            "model_name": self._lease.job.model_name,
            "options": self._options(directory / "input"),
            "database_url": self._database.url,
            "max_model_nodes": self._settings.max_model_nodes,
            "optimize_file": self._settings.optimize_file,
        }
        settings = self._settings
        limits = ResourceLimits(
            settings.max_job_seconds, settings.max_job_bytes, settings.cancel_seconds, settings.job_niceness
        )
        ending = run_in_child(WORK, arguments, limits, on_progress=self._on_progress, wanted=self._wanted)
        return self._conclude(ending, directory, key)

    def _lay_out(self, target: Path) -> None:
        """Writes the model and its external data; locations were checked at upload."""
        target.mkdir()
        for file in self._lease.job.files:
            if file.role in (JobRole.MODEL, JobRole.DATA, JobRole.CLUSTER):
                root = target.parent if file.role is JobRole.CLUSTER else target
                path = root / file.name
                path.parent.mkdir(parents=True, exist_ok=True)
                self._database.blobs.place(file.sha256, path)

    def _options(self, directory: Path) -> JsonObject:
        cluster = self._lease.job.file(JobRole.CLUSTER)
        paths = {} if cluster is None else {"cluster": str(directory.parent / cluster.name)}
        library = {"library_version": self._lease.job.library_version}
        return {**self._lease.job.options, **paths, **library}

    def _conclude(self, ending: Ending, directory: Path, key: str) -> Job:
        queue, lease = self._queue, self._lease
        match ending:
            case Returned(result):
                files = self._results(directory, str(result["result"]))
                outcome = cast("JsonObject", result["outcome"])
                return self._durably(lambda: queue.succeed(lease, files, key, outcome))
            case Failed(problem):
                return self._durably(lambda: queue.fail(lease, problem))
            case Died(problem):
                return self._durably(lambda: queue.lost_process(lease, problem))
            case Stopped():
                if self._stop.is_set():
                    return self.give_back()
                return self._durably(lambda: queue.cancelled(lease))

    def _results(self, directory: Path, result: str) -> tuple[JobFile, ...]:
        paths = {JobRole.RESULT: directory / result, JobRole.REPORT: directory / "report.json"}
        names = result_names(self._lease.job.model_name, paths[JobRole.RESULT].suffix)
        files: list[JobFile] = []
        for role, path in paths.items():
            blob = self._database.blobs.put_file(path)
            files.append(JobFile(role, names[role], blob.sha256, blob.bytes))
        return tuple(files)

    def _on_progress(self, progress: JsonObject) -> None:
        self._unreported = self._progress.after(progress)
        self._report()

    def _report(self) -> None:
        """Records the latest progress, at a limited rate."""
        now = time.monotonic()
        progress = self._unreported
        if progress is None or now - self._reported < _PROGRESS_SECONDS:
            return
        self._reported, self._unreported = now, None
        try:
            self._queue.report_progress(self._lease, progress)
        except MissingServiceError as error:
            _log.error("job %s: progress not recorded: %s", self._lease.job.id, error)

    def _wanted(self) -> bool:
        """Whether the job should continue. Raises LeaseLostError."""
        if self._stop.is_set():
            return False
        self._report()
        try:
            return self._queue.state(self._lease) is JobState.RUNNING
        except MissingServiceError as error:
            _log.error("job %s: its state cannot be read: %s", self._lease.job.id, error)
            return True

    def _durably(self, change: Callable[[], T]) -> T:
        """Makes a change; retries for the time of a lease while the database is not available."""
        deadline = time.monotonic() + self._settings.lease_seconds
        while True:
            try:
                return change()
            except MissingServiceError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)


@contextmanager
def kept_lease(queue: JobQueue, lease: Lease, seconds: float, bound: float) -> Generator[None]:
    """Renews a lease during the block, for at most ``bound`` seconds, and watches other workers' leases."""

    def keep(ended: threading.Event) -> None:
        deadline = time.monotonic() + bound
        pause = seconds
        while not ended.wait(pause) and time.monotonic() < deadline:
            try:
                queue.heartbeat(lease)
                queue.expire()
                pause = seconds
            except LeaseLostError:
                return  # the task notices by itself
            except MissingServiceError as error:
                _log.error("job %s: heartbeat failed: %s", lease.job.id, error)
                pause = min(seconds, _RETRY_SECONDS)

    with beside(keep):
        yield
