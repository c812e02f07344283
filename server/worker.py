"""A worker: takes jobs from the database, one at a time, and does each in a child process.

A job is lost by no failure: a child that dies is started again, a worker that dies is replaced when its lease
ends, a worker that is told to stop gives its job back.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

from server.child import Died, Done, Ending, Failed, Limits, Stopped, run_in_child
from server.cleaning import clean, remove_abandoned_work
from server.problem_types import ProblemType
from server.settings import Settings
from substitution_db import Database, open_database
from substitution_db.queue import JobQueue, LeaseLostError
from substitution_db.records import Job, JobFile, JobRole, JobState, JsonObject, Lease
from superopt.errors import MissingServiceError

WORK = "server.work:optimize"
_CLEANING_SECONDS = 3600.0
_PROGRESS_SECONDS = 0.25
_RETRY_SECONDS = 2.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Worker:
    """Does jobs until it is stopped."""

    def __init__(self, database: Database, settings: Settings, stop: threading.Event) -> None:
        self._database = database
        self._settings = settings
        self._stop = stop
        name = f"{socket.gethostname()}:{os.getpid()}"
        self._queue = database.queue(name, settings.lease_seconds)

    def run(self) -> None:
        """Does jobs until it is told to stop."""
        cleaned = float("-inf")
        while not self._stop.is_set():
            try:
                if time.monotonic() - cleaned > _CLEANING_SECONDS:
                    clean(self._database, self._queue, self._settings.retention_seconds)
                    cleaned = time.monotonic()
                if not self.do_one():
                    self._stop.wait(self._settings.poll_seconds)
            except MissingServiceError as error:
                _log.error("%s; trying again", error)
                self._stop.wait(_RETRY_SECONDS)

    def do_one(self) -> bool:
        """Does one job; False if none waits."""
        lease = self._queue.claim()
        if lease is None:
            return False
        _log.info("job %s: attempt %d of %d", lease.job.id, lease.job.attempts, lease.job.max_attempts)
        try:
            job = _Task(self._database, self._queue, self._settings, self._stop, lease).run()
            _log.info("job %s: %s", job.id, job.state)
        except LeaseLostError as error:
            _log.warning("%s", error)
        except OSError as error:
            full = error.errno == errno.ENOSPC
            kind = ProblemType.DISK_FULL if full else ProblemType.JOB_INTERNAL
            _log.error("job %s: %s", lease.job.id, error)
            self._queue.lost_process(lease, kind.document("the worker cannot read or write the job's files"))
        finally:
            self._database.blobs.remove_work([lease.token])
        return True


class _Task:
    """One job under one lease."""

    def __init__(
        self, database: Database, queue: JobQueue, settings: Settings, stop: threading.Event, lease: Lease
    ) -> None:
        self._database = database
        self._queue = queue
        self._settings = settings
        self._stop = stop
        self._lease = lease
        self._reported = self._alive = time.monotonic()
        self._unreported: JsonObject | None = None

    def run(self) -> Job:
        directory = self._database.blobs.work_directory(self._lease.token)
        self._lay_out(directory / "input")
        arguments: JsonObject = {
            "directory": str(directory),
            "model_name": self._lease.job.model_name,
            "options": self._options(directory / "input"),
            "database_url": self._database.url,
            "max_model_nodes": self._settings.max_model_nodes,
            "optimize_file": self._settings.optimize_file,
        }
        limits = Limits(
            self._settings.max_job_seconds, self._settings.max_job_bytes, self._settings.cancel_seconds
        )
        ending = run_in_child(WORK, arguments, limits, on_progress=self._on_progress, wanted=self._wanted)
        return self._conclude(ending, directory)

    def _lay_out(self, target: Path) -> None:
        """The model and its data as they were uploaded, the locations checked then."""
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

    def _conclude(self, ending: Ending, directory: Path) -> Job:
        queue, lease = self._queue, self._lease
        match ending:
            case Done(result):
                files = self._results(directory, str(result["result"]))
                return self._durably(lambda: queue.succeed(lease, files))
            case Failed(problem):
                return self._durably(lambda: queue.fail(lease, problem))
            case Died(problem):
                return self._durably(lambda: queue.lost_process(lease, problem))
            case Stopped():
                if self._stop.is_set():
                    return self._durably(lambda: queue.give_back(lease))
                return self._durably(lambda: queue.cancelled(lease))

    def _results(self, directory: Path, result: str) -> tuple[JobFile, ...]:
        model, report = directory / result, directory / "report.json"
        stem = Path(self._lease.job.model_name).stem
        names = (
            (JobRole.RESULT, model, f"{stem}-optimized{model.suffix}"),
            (JobRole.REPORT, report, f"{stem}-report.json"),
        )
        files: list[JobFile] = []
        for role, path, name in names:
            blob = self._database.blobs.put_file(path)
            files.append(JobFile(role, name, blob.sha256, blob.bytes))
        return tuple(files)

    def _on_progress(self, progress: JsonObject) -> None:
        self._unreported = progress
        self._report()

    def _report(self) -> None:
        """Records the latest progress, unless there is none or the one before was recorded just now."""
        now = time.monotonic()
        progress = self._unreported
        if progress is None or now - self._reported < _PROGRESS_SECONDS:
            return
        self._reported, self._unreported = now, None
        try:
            self._queue.report_progress(self._lease, progress)
            self._alive = now
        except MissingServiceError as error:
            _log.error("job %s: progress not recorded: %s", self._lease.job.id, error)

    def _wanted(self) -> bool:
        """Whether the job shall go on; gives signs of life. Raises LeaseLostError."""
        if self._stop.is_set():
            return False
        self._report()
        now = time.monotonic()
        try:
            if now - self._alive > self._settings.heartbeat_seconds:
                self._alive = now
                return self._queue.heartbeat(self._lease) is JobState.RUNNING
            return self._queue.state(self._lease) is JobState.RUNNING
        except MissingServiceError as error:
            _log.error("job %s: no sign of life: %s", self._lease.job.id, error)
            return True

    def _durably(self, change: Callable[[], T]) -> T:
        """Makes a change, trying again for as long as the lease may last while the database does not
        answer.
        """
        deadline = time.monotonic() + self._settings.lease_seconds
        while True:
            try:
                return change()
            except MissingServiceError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)


def run_worker(
    database_url: str | None = None, settings: Settings | None = None, stop: threading.Event | None = None
) -> None:
    """Does jobs until SIGTERM or SIGINT (or until ``stop`` is set, when given: no signal is handled then)."""
    settings = settings or Settings.from_environment()
    if stop is None:
        stop = threading.Event()
        _stop_on_signals(stop)
    with open_database(database_url) as database:
        remove_abandoned_work(database, database.queue("cleaning"))
        Worker(database, settings, stop).run()


def _stop_on_signals(stop: threading.Event) -> None:
    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


def _stop_when_closed(descriptor: int, stop: threading.Event) -> None:
    """Stops the worker when the process at the other end of the pipe is gone."""

    def listen() -> None:
        with open(descriptor, "rb") as pipe:
            pipe.read()
        stop.set()

    threading.Thread(target=listen, daemon=True).start()


def main() -> None:
    """A worker of ``server.serve``: settings and database come from the environment."""
    parser = argparse.ArgumentParser(prog="server.worker")
    parser.add_argument("--until-closed", type=int, required=True, metavar="FD")
    stop = threading.Event()
    _stop_on_signals(stop)
    _stop_when_closed(parser.parse_args().until_closed, stop)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s worker: %(message)s")
    run_worker(stop=stop)


if __name__ == "__main__":
    main()
