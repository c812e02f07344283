"""The queue as workers see it: a job is claimed under a lease, kept by heartbeats, and ended once.

Everything that a worker changes names its lease: when another worker has taken over, the first one's changes
do nothing and it is told (``LeaseLostError``), so that a job never ends with two results.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from substitution_db.engine import Transactions, now
from substitution_db.jobs import add_event, change_state, file_row, job_of, locked
from substitution_db.models import JobRow
from substitution_db.records import Job, JobFile, JobState, JsonObject, Lease
from superopt.errors import SuperoptError

LEASE_SECONDS = 30.0
"""How long a job stays with a worker that gives no sign of life."""

HEARTBEAT_SECONDS = 10.0
"""How often a worker gives a sign of life."""


class LeaseLostError(SuperoptError):
    """Another worker has the job, or it was ended."""


class JobQueue:
    """Claims jobs for one worker; ``worker`` is a name for people."""

    def __init__(self, transactions: Transactions, worker: str, lease_seconds: float = LEASE_SECONDS) -> None:
        self._transactions = transactions
        self._worker = worker
        self._lease = timedelta(seconds=lease_seconds)

    def claim(self) -> Lease | None:
        """The oldest waiting job, now running under a new lease; None if none waits. Ends expired leases
        first.
        """
        self.expire()
        statement = select(JobRow).where(JobRow.state == JobState.QUEUED).order_by(JobRow.number).limit(1)
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
        """RUNNING or CANCELLING, without giving a sign of life. Raises LeaseLostError."""
        with self._transactions.read() as session:
            state = session.scalar(
                select(JobRow.state).where(JobRow.id == lease.job.id, JobRow.lease == lease.token)
            )
        if state is None:
            raise self._lost(lease)
        return JobState(state)

    def heartbeat(self, lease: Lease) -> JobState:
        """Keeps the lease; returns RUNNING or CANCELLING. Raises LeaseLostError."""
        with self._held(lease) as (session, row):
            self._extend(row, now(session))
            return JobState(row.state)

    def report_progress(self, lease: Lease, progress: JsonObject) -> JobState:
        """Records progress, keeps the lease; returns RUNNING or CANCELLING. Raises LeaseLostError."""
        with self._held(lease) as (session, row):
            self._extend(row, now(session))
            row.progress = dict(progress)
            session.flush()
            add_event(session, row, "progress", progress)
            return JobState(row.state)

    def succeed(self, lease: Lease, results: Sequence[JobFile]) -> Job:
        """Ends the job with its results (whose blobs are stored); a job being cancelled is cancelled instead.

        Raises LeaseLostError.
        """
        with self._held(lease) as (session, row):
            if row.state == JobState.CANCELLING:
                change_state(session, row, JobState.CANCELLED)
            else:
                row.files.extend(file_row(file) for file in results)
                change_state(session, row, JobState.SUCCEEDED)
            return job_of(row)

    def fail(self, lease: Lease, problem: JsonObject) -> Job:
        """Ends the job with an error that would come again. Raises LeaseLostError."""
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
        """The process of the job died: it is queued again, or crashed when its attempts are used up.

        Raises LeaseLostError.
        """
        with self._held(lease) as (session, row):
            _again(session, row, problem)
            return job_of(row)

    def give_back(self, lease: Lease) -> Job:
        """Queues the job again as if it had not been started (the worker shuts down). Raises
        LeaseLostError.
        """
        with self._held(lease) as (session, row):
            row.attempts -= 1
            change_state(
                session, row, JobState.CANCELLED if row.state == JobState.CANCELLING else JobState.QUEUED
            )
            return job_of(row)

    def expire(self) -> int:
        """Ends the leases of workers that gave no sign of life; returns how many."""
        with self._transactions.read() as session:
            if session.scalars(_expired(now(session))).first() is None:
                return 0
        with self._transactions.write() as session:
            rows = session.scalars(_expired(now(session)).with_for_update(of=JobRow, skip_locked=True)).all()
            for row in rows:
                detail = f"the worker {row.worker} gave no sign of life"
                _again(
                    session, row, {"type": "worker-lost", "title": "The worker was lost", "detail": detail}
                )
            return len(rows)

    def leases(self) -> frozenset[str]:
        """All leases that are held by any worker."""
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
        return LeaseLostError(f"job {lease.job.id} is no longer with {self._worker}")

    def _extend(self, row: JobRow, time: datetime) -> None:
        row.heartbeat_at = time
        row.lease_expires_at = time + self._lease


def _expired(time: datetime) -> Select[JobRow]:
    return select(JobRow).where(JobRow.lease.is_not(None), JobRow.lease_expires_at < time)


def _again(session: Session, row: JobRow, problem: JsonObject) -> None:
    if row.state == JobState.CANCELLING:
        change_state(session, row, JobState.CANCELLED)
    elif row.attempts < row.max_attempts:
        change_state(session, row, JobState.QUEUED)
    else:
        row.error = dict(problem)
        change_state(session, row, JobState.CRASHED)
