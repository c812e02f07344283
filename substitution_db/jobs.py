"""The repository of jobs as the service sees it: accepted, read, cancelled, and their events.

States: queued -> running -> succeeded | failed | crashed; queued -> cancelled; running -> cancelling ->
cancelled. A running job whose worker is gone is queued again until its attempts are used up, then it is
crashed (``substitution_db.queue``). A final state never changes.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Select, delete, func, insert, select
from sqlalchemy.orm import Session

from substitution_db.engine import Transactions, now
from substitution_db.models import JobEventRow, JobFileRow, JobRow, LibraryVersionRow
from substitution_db.records import FINAL_STATES, Job, JobEvent, JobFile, JobRole, JobState, JsonObject
from superopt.errors import InvalidOptionError, SuperoptError

DEFAULT_ATTEMPTS = 3


class QueueFullError(SuperoptError):
    """There are already as many jobs waiting as are allowed."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be accepted; the blobs of its files are stored already. ``owner`` is an API key's id or
    empty.
    """

    model_name: str
    files: Sequence[JobFile]
    options: JsonObject = field(default_factory=dict[str, object])
    owner: str = ""
    max_attempts: int = DEFAULT_ATTEMPTS


class JobRepository:
    """Jobs by id."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def submit(self, new: NewJob, *, queue_limit: int | None = None) -> Job:
        """Accepts a job: when this returns it is on disk. Raises QueueFullError beyond ``queue_limit``
        waiting.
        """
        with self._transactions.write() as session:
            return insert_job(session, new, queue_limit)

    def get(self, identity: str) -> Job | None:
        """The job with that id."""
        with self._transactions.read() as session:
            row = session.scalars(select(JobRow).where(JobRow.id == identity)).first()
            return None if row is None else job_of(row)

    def list(
        self, *, state: JobState | None = None, before: str | None = None, limit: int | None = None
    ) -> tuple[Job, ...]:
        """Jobs, newest first, in a state, older than the job ``before``. Raises InvalidOptionError if
        unknown.
        """
        statement = select(JobRow).order_by(JobRow.number.desc()).limit(limit)
        if state is not None:
            statement = statement.where(JobRow.state == state)
        with self._transactions.read() as session:
            if before is not None:
                number = session.scalar(select(JobRow.number).where(JobRow.id == before))
                if number is None:
                    raise InvalidOptionError(f"there is no job {before} to continue behind")
                statement = statement.where(JobRow.number < number)
            return tuple(job_of(row) for row in session.scalars(statement))

    def cancel(self, identity: str) -> Job | None:
        """Asks for a job to end: one that waits is cancelled at once, one that runs is told. None if
        unknown.
        """
        with self._transactions.write() as session:
            row = session.scalars(locked(select(JobRow).where(JobRow.id == identity))).first()
            if row is None:
                return None
            if row.state == JobState.QUEUED:
                change_state(session, row, JobState.CANCELLED)
            elif row.state == JobState.RUNNING:
                change_state(session, row, JobState.CANCELLING)
            return job_of(row)

    def events(self, identity: str, *, after: int = 0, limit: int = 500) -> tuple[JobEvent, ...]:
        """What happened to a job behind the event ``after``, in order."""
        statement = (
            select(JobEventRow)
            .join(JobRow, JobRow.number == JobEventRow.job_number)
            .where(JobRow.id == identity, JobEventRow.id > after)
            .order_by(JobEventRow.id)
            .limit(limit)
        )
        with self._transactions.read() as session:
            rows = session.scalars(statement)
            return tuple(JobEvent(row.id, row.kind, row.content, row.created_at) for row in rows)

    def counts(self) -> dict[JobState, int]:
        """How many jobs there are in each state."""
        statement = select(JobRow.state, func.count()).group_by(JobRow.state)
        with self._transactions.read() as session:
            counts = dict(session.execute(statement).all())
        return {state: counts.get(str(state), 0) for state in JobState}

    def used_blobs(self) -> frozenset[str]:
        """The hashes of all blobs that belong to a job."""
        with self._transactions.read() as session:
            return frozenset(session.scalars(select(JobFileRow.sha256).distinct()))

    def remove_finished(self, older_than_seconds: float) -> int:
        """Forgets jobs that ended that long ago; returns how many. Their blobs are not removed."""
        with self._transactions.write() as session:
            time = now(session)
            ended = session.execute(
                select(JobRow.number, JobRow.finished_at).where(
                    JobRow.state.in_([str(s) for s in FINAL_STATES])
                )
            )
            old = [
                n for n, at in ended if at is not None and (time - at).total_seconds() > older_than_seconds
            ]
            for number in old:
                session.execute(delete(JobRow).where(JobRow.number == number))
            return len(old)


def insert_job(session: Session, new: NewJob, queue_limit: int | None) -> Job:
    """Inserts a queued job with its files. Raises QueueFullError beyond ``queue_limit`` waiting."""
    waiting = (
        session.scalar(select(func.count()).select_from(JobRow).where(JobRow.state == JobState.QUEUED)) or 0
    )
    if queue_limit is not None and waiting >= queue_limit:
        raise QueueFullError(f"{waiting} jobs are waiting, as many as are allowed")
    row = JobRow(
        id=secrets.token_hex(16),
        state=str(JobState.QUEUED),
        owner=new.owner,
        model_name=new.model_name,
        options=dict(new.options),
        progress={},
        error=None,
        attempts=0,
        max_attempts=new.max_attempts,
        created_at=now(session),
        library_version=session.scalar(select(func.max(LibraryVersionRow.number))),
        files=[file_row(file) for file in new.files],
    )
    session.add(row)
    session.flush()
    add_event(session, row, "state", {"state": str(JobState.QUEUED)})
    return job_of(row)


def change_state(session: Session, row: JobRow, state: JobState) -> None:
    """Puts a job in another state and says so in its events; a job that is not running has no lease."""
    row.state = str(state)
    if state not in (JobState.RUNNING, JobState.CANCELLING):
        row.lease = row.worker = row.lease_expires_at = row.heartbeat_at = None
    if state.final:
        row.finished_at = now(session)
    session.flush()
    add_event(session, row, "state", {"state": str(state)})


def add_event(session: Session, row: JobRow, kind: str, content: JsonObject) -> None:
    """Records an event; the row of the job is locked, so that ids grow in the order of commits."""
    session.execute(
        insert(JobEventRow).values(
            job_number=row.number, kind=kind, content=dict(content), created_at=now(session)
        )
    )


def locked(statement: Select[JobRow]) -> Select[JobRow]:
    """The rows locked until the transaction ends (on SQLite the whole database is, when the transaction
    writes).
    """
    return statement.with_for_update(of=JobRow)


def file_row(file: JobFile) -> JobFileRow:
    """A file as a row."""
    return JobFileRow(role=str(file.role), name=file.name, sha256=file.sha256, bytes=file.bytes)


def job_of(row: JobRow) -> Job:
    """A row as a value."""
    return Job(
        number=row.number,
        id=row.id,
        state=JobState(row.state),
        owner=row.owner,
        model_name=row.model_name,
        options=row.options,
        progress=row.progress,
        error=row.error,
        attempts=row.attempts,
        max_attempts=row.max_attempts,
        worker=row.worker,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        library_version=row.library_version,
        files=tuple(JobFile(JobRole(f.role), f.name, f.sha256, f.bytes) for f in row.files),
    )
