"""Job queue for workers: a job is claimed under a lease, kept by heartbeats, and ended exactly once.

Every change by a worker names its lease. Once another worker has taken over, changes under the old lease have
no effect and raise ``LeaseLostError``, so that a job never gets two results.

A lease expires when another worker observes no new heartbeat for the lease time, by that worker's own
monotonic clock. Clocks of different machines are never compared.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from superopt.errors import MissingServiceError, SuperoptError
from superopt.substitution_db.jobs.repository import (
    add_event,
    are_stored,
    change_state,
    give_result,
    give_reused_result,
    job_of,
    locked,
)
from superopt.substitution_db.store.blobs import BlobStore
from superopt.substitution_db.store.engine import Transactions, keep_blobs, now
from superopt.substitution_db.store.models import JobRow
from superopt.substitution_db.store.records import (
    SCARCE,
    Job,
    JobFile,
    JobState,
    JsonObject,
    KnownResult,
    Lease,
)

LEASE_SECONDS = 30.0
"""How long a worker keeps a job without a heartbeat."""

_HELD = (str(JobState.RUNNING), str(JobState.CANCELLING))

_WORKER_LOST: JsonObject = {
    "type": "/problems/worker-lost",
    "title": "The worker was lost",
    "status": 500,
}
"""The problem document of a job whose worker is silent, as the service describes it."""

HEARTBEAT_SECONDS = 10.0
"""Heartbeat interval of workers."""


class LeaseLostError(SuperoptError):
    """The job belongs to another worker or has ended."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """The heartbeat of a lease, and when the observer first saw it (by its own clock)."""

    heartbeat: datetime | None
    seen: float


class JobQueue:
    """Claims jobs for one worker; ``worker`` is its display name, ``targets`` those it has devices for."""

    def __init__(
        self,
        transactions: Transactions,
        blobs: BlobStore,
        worker: str,
        lease_seconds: float,
        clock: Callable[[], float],
        targets: Sequence[str] = SCARCE,
    ) -> None:
        self._transactions = transactions
        self._blobs = blobs
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._absent = [target for target in SCARCE if target not in targets]
        self._signs: dict[str, _Sign] = {}

    def claim(self) -> Lease | None:
        """Claims the oldest queued job that this worker has the device for; it then runs under a new lease.
        None if there is none. Ends expired leases first.
        """
        self.expire()
        statement = select(JobRow).where(JobRow.state == JobState.QUEUED).order_by(JobRow.number).limit(1)
        if self._absent:
            target = func.coalesce(JobRow.options["target"].as_string(), "")
            statement = statement.where(target.not_in(self._absent))
        with self._transactions.read() as session:
            if session.scalars(statement).first() is None:
                return None
        with self._transactions.write() as session:
            row = session.scalars(statement.with_for_update(of=JobRow, skip_locked=True)).first()
            if row is None:
                return None
            time = now(session)
            row.lease = token = secrets.token_hex(16)
            row.worker = self._worker
            row.attempts += 1
            row.started_at = row.started_at or time
            self._extend(row, time)
            change_state(session, row, JobState.RUNNING)
            return Lease(token, job_of(row))

    def state(self, lease: Lease) -> JobState:
        """RUNNING or CANCELLING, without a heartbeat. Raises LeaseLostError."""
        with self._transactions.read() as session:
            state = session.scalar(
                select(JobRow.state).where(JobRow.id == lease.job.id, JobRow.lease == lease.token)
            )
        if state is None:
            raise self._lost(lease)
        return JobState(state)

    def heartbeat(self, lease: Lease) -> JobState:
        """Renews the lease; returns RUNNING or CANCELLING. Raises LeaseLostError."""
        with self._held(lease) as (session, row):
            self._extend(row, now(session))
            return JobState(row.state)

    def report_progress(self, lease: Lease, progress: JsonObject) -> JobState:
        """Records progress and renews the lease; returns RUNNING or CANCELLING. Raises LeaseLostError."""
        with self._held(lease) as (session, row):
            self._extend(row, now(session))
            row.progress = dict(progress)
            session.flush()
            add_event(session, row, "progress", progress)
            return JobState(row.state)

    def succeed(
        self,
        lease: Lease,
        results: Sequence[JobFile],
        key: str | None = None,
        outcome: JsonObject | None = None,
    ) -> Job:
        """Ends the job with its results, whose blobs are stored already; ``key`` allows to reuse them. A job
        in CANCELLING is cancelled instead.

        Raises LeaseLostError, and MissingServiceError if a blob has been removed meanwhile.
        """
        with self._held(lease) as (session, row):
            if self._is_wanted(session, row, results):
                give_result(session, row, results, key, outcome)
            return job_of(row)

    def reuse(self, lease: Lease, known: KnownResult) -> Job:
        """``succeed`` with the result of another job."""
        with self._held(lease) as (session, row):
            if self._is_wanted(session, row, known.files):
                give_reused_result(session, row, known)
            return job_of(row)

    def fail(self, lease: Lease, problem: JsonObject) -> Job:
        """Ends the job with an error that a retry would repeat. Raises LeaseLostError."""
        with self._held(lease) as (session, row):
            row.error = dict(problem)
            change_state(session, row, JobState.FAILED)
            return job_of(row)

    def cancelled(self, lease: Lease) -> Job:
        """Ends the job as cancelled. Raises LeaseLostError."""
        with self._held(lease) as (session, row):
            change_state(session, row, JobState.CANCELLED)
            return job_of(row)

    def lost_process(self, lease: Lease, problem: JsonObject) -> Job:
        """Handles the death of the job's process: requeues the job, or ends it as crashed after the last
        attempt.

        Raises LeaseLostError.
        """
        with self._held(lease) as (session, row):
            _again(session, row, problem)
            return job_of(row)

    def give_back(self, lease: Lease) -> Job:
        """Requeues the job without counting the attempt (the worker shuts down). Raises LeaseLostError."""
        with self._held(lease) as (session, row):
            row.attempts -= 1
            change_state(
                session, row, JobState.CANCELLED if row.state == JobState.CANCELLING else JobState.QUEUED
            )
            return job_of(row)

    def expire(self) -> int:
        """Ends the leases without a heartbeat for the lease time; returns how many."""
        with self._transactions.read() as session:
            held = select(JobRow.lease, JobRow.heartbeat_at).where(JobRow.state.in_(_HELD))
            signs = {str(token): heartbeat for token, heartbeat in session.execute(held)}
        time = self._clock()
        self._signs = {token: self._sign(token, heartbeat, time) for token, heartbeat in signs.items()}
        silent = [token for token, sign in self._signs.items() if time - sign.seen > self._lease_seconds]
        if not silent:
            return 0
        with self._transactions.write() as session:
            found = (
                select(JobRow).where(JobRow.lease.in_(silent)).with_for_update(of=JobRow, skip_locked=True)
            )
            rows = [row for row in session.scalars(found) if row.heartbeat_at == signs[_token(row)]]
            for row in rows:
                detail = f"the worker {row.worker} stopped sending heartbeats"
                _again(session, row, {**_WORKER_LOST, "detail": detail})
            return len(rows)

    def leases(self) -> frozenset[str]:
        """All leases currently held by workers."""
        with self._transactions.read() as session:
            tokens = session.scalars(select(JobRow.lease).where(JobRow.lease.is_not(None)))
            return frozenset(token for token in tokens if token is not None)

    @contextmanager
    def _held(self, lease: Lease) -> Generator[tuple[Session, JobRow]]:
        with self._transactions.write() as session:
            mine = select(JobRow).where(JobRow.id == lease.job.id, JobRow.lease == lease.token)
            row = session.scalars(locked(mine)).first()
            if row is None:
                raise self._lost(lease)
            yield session, row

    def _lost(self, lease: Lease) -> LeaseLostError:
        return LeaseLostError(f"worker {self._worker} no longer holds job {lease.job.id}")

    def _extend(self, row: JobRow, time: datetime) -> None:
        row.heartbeat_at = time
        row.lease_expires_at = time + timedelta(seconds=self._lease_seconds)

    def _sign(self, token: str, heartbeat: datetime | None, time: float) -> _Sign:
        before = self._signs.get(token)
        return before if before is not None and before.heartbeat == heartbeat else _Sign(heartbeat, time)

    def _is_wanted(self, session: Session, row: JobRow, results: Sequence[JobFile]) -> bool:
        """Whether the job can end with these results; ends it as cancelled if it is in CANCELLING."""
        if row.state == JobState.CANCELLING:
            change_state(session, row, JobState.CANCELLED)
            return False
        keep_blobs(session)
        if not are_stored(self._blobs, results):
            raise MissingServiceError(f"the results of job {row.id} were removed before it ended")
        return True


def _token(row: JobRow) -> str:
    return str(row.lease)


def _again(session: Session, row: JobRow, problem: JsonObject) -> None:
    if row.state == JobState.CANCELLING:
        change_state(session, row, JobState.CANCELLED)
    elif row.attempts < row.max_attempts:
        change_state(session, row, JobState.QUEUED)
    else:
        row.error = dict(problem)
        change_state(session, row, JobState.CRASHED)
