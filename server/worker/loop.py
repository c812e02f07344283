"""Worker loop: claims jobs from the database one at a time and runs each in a child process.

No failure loses a job: a dead child is restarted, a dead worker's job is claimed by another once its lease
expires, and a worker that is told to stop requeues its job.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import threading
import time
from types import FrameType

from superopt.errors import MissingServiceError
from superopt.processes import logs
from superopt.processes.logs import about_job
from superopt.server.problem_types import ProblemType
from superopt.server.process.background import beside
from superopt.server.process.tracing import RequestSpan, Traces, traces_of_environment
from superopt.server.settings import Settings
from superopt.server.worker.cleaning import clean, remove_abandoned_work
from superopt.server.worker.device import this_device
from superopt.server.worker.presence import HeartbeatSender
from superopt.server.worker.task import Task
from superopt.substitution_db import Database, open_database
from superopt.substitution_db.jobs.queue import LeaseLostError
from superopt.substitution_db.store.records import Lease

_CLEANING_SECONDS = 3600.0
_RETRY_SECONDS = 2.0
_log = logging.getLogger(__name__)


class Worker:
    """Runs jobs until it is stopped."""

    def __init__(
        self, database: Database, settings: Settings, stop: threading.Event, traces: Traces | None = None
    ) -> None:
        self._database = database
        self._settings = settings
        self._stop = stop
        self._traces = traces or Traces(None)
        name = f"{socket.gethostname()}:{os.getpid()}"
        targets = this_device().targets
        self._heartbeats = HeartbeatSender(database, name, settings.heartbeat_seconds, targets)
        self._queue = database.queue(name, settings.lease_seconds, targets=targets)

    def run(self) -> None:
        """Runs jobs until told to stop."""
        with beside(self._heartbeats.send):
            self._run()

    def _run(self) -> None:
        cleaned = float("-inf")
        while not self._stop.is_set():
            try:
                if time.monotonic() - cleaned > _CLEANING_SECONDS:
                    clean(self._database, self._queue, self._settings.retention_seconds)
                    cleaned = time.monotonic()
                self._require_disk()
                if not self.do_one():
                    self._stop.wait(self._settings.poll_seconds)
            except (MissingServiceError, OSError) as error:
                _log.error("%s; retrying", error)
                self._stop.wait(_RETRY_SECONDS)

    def do_one(self) -> bool:
        """Runs one job; returns False if none is queued."""
        lease = self._queue.claim()
        if lease is None:
            return False
        self._heartbeats.job_id = lease.job.id
        with about_job(lease.job.id), self._traces.job(lease.job.id, lease.job.traceparent) as entry:
            _log.info("attempt %d of %d", lease.job.attempts, lease.job.max_attempts)
            try:
                self._do(lease, entry)
            except LeaseLostError as error:
                _log.warning("%s", error)
            finally:
                self._heartbeats.job_id = None
                self._database.blobs.remove_work([lease.token])
        return True

    def _do(self, lease: Lease, entry: RequestSpan) -> None:
        task = Task(self._database, self._queue, self._settings, self._stop, lease)
        try:
            job = task.run()
            _log.info("%s", job.state)
            entry.set({"superopt.job.state": str(job.state), "superopt.job.attempt": lease.job.attempts})
        except MissingServiceError:
            task.give_back()
            raise
        except OSError as error:
            full = error.errno == errno.ENOSPC
            kind = ProblemType.DISK_FULL if full else ProblemType.JOB_INTERNAL
            _log.error("%s", error)
            entry.failed(str(error))
            self._queue.lost_process(lease, kind.document("the worker cannot read or write the job's files"))

    def _require_disk(self) -> None:
        """Raises OSError if there is too little disk space for a job."""
        if self._database.blobs.free_bytes() < self._settings.min_free_bytes:
            raise OSError(errno.ENOSPC, "the disk is nearly full; no jobs are started")


def run_worker(
    database_url: str | None = None, settings: Settings | None = None, stop: threading.Event | None = None
) -> None:
    """Runs jobs until SIGTERM or SIGINT, or until ``stop`` is set if given (then no signal is handled)."""
    settings = settings or Settings.from_environment()
    if stop is None:
        stop = threading.Event()
        _stop_on_signals(stop)
    logs.configure(settings.log_format, settings.log_level, "worker")
    with open_database(database_url) as database, traces_of_environment("superopt-worker") as traces:
        remove_abandoned_work(database, database.queue("cleaning"))
        Worker(database, settings, stop, traces).run()


def _stop_on_signals(stop: threading.Event) -> None:
    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


def _stop_when_closed(descriptor: int, stop: threading.Event) -> None:
    """Stops the worker when the process at the other end of the socket has died."""

    def listen() -> None:
        with open(descriptor, "rb") as connection:
            connection.read()
        stop.set()

    threading.Thread(target=listen, daemon=True).start()


def main(descriptor: int) -> None:
    """A worker of ``server.process.serve``, until the socket closes; configured by the environment."""
    stop = threading.Event()
    _stop_on_signals(stop)
    _stop_when_closed(descriptor, stop)
    run_worker(stop=stop)
