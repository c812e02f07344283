"""The repository of jobs as the service sees it: accepted, read, cancelled, and their events.

States: queued -> running -> succeeded | failed | crashed; queued -> cancelled; running -> cancelling ->
cancelled; queued -> succeeded when the result is known. A running job whose worker is gone is queued again
until its attempts are used up, then it is crashed (``substitution_db.jobs.queue``). A final state is final.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from sqlalchemy import Row, Select, bindparam, delete, func, insert, select
from sqlalchemy.orm import Session

from superopt.errors import MissingServiceError, SuperoptError
from superopt.substitution_db.jobs.activity import count_duration
from superopt.substitution_db.store.blobs import Blob, BlobStore
from superopt.substitution_db.store.engine import Transactions, keep_blobs, now, own_blobs
from superopt.substitution_db.store.models import JobEventRow, JobFileRow, JobRow, LibraryVersionRow
from superopt.substitution_db.store.records import (
    FINAL_STATES,
    Job,
    JobEvent,
    JobFile,
    JobRole,
    JobState,
    JsonObject,
    KnownResult,
)

DEFAULT_ATTEMPTS = 3
_REMOVED_AT_ONCE = 200


_JOB = tuple(JobRow.__table__.columns)
_FILE = (JobFileRow.role, JobFileRow.name, JobFileRow.sha256, JobFileRow.bytes)
_BY_ID = (
    select(*_JOB, *(column.label(f"file_{column.key}") for column in _FILE))
    .outerjoin(JobFileRow, JobFileRow.job_number == JobRow.number)
    .where(JobRow.id == bindparam("id"))
    .order_by(JobFileRow.name)
)
"""One statement, and no objects that are watched for changes: this is what is read most often."""


_WAITING = select(func.count()).select_from(JobRow).where(JobRow.state == JobState.QUEUED)


class QueueFullError(SuperoptError):
    """There are already as many jobs waiting as are allowed."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be accepted; the blobs of its files are stored already. ``owner`` is an API key's id or
    empty. With a known result it succeeds at once. ``traceparent`` is the span that submits it (W3C trace
    context).
    """

    model_name: str
    files: Sequence[JobFile]
    options: JsonObject = field(default_factory=dict[str, object])
    owner: str = ""
    max_attempts: int = DEFAULT_ATTEMPTS
    known: KnownResult | None = None
    traceparent: str | None = None


class JobRepository:
    """Jobs by id."""

    def __init__(self, transactions: Transactions, blobs: BlobStore) -> None:
        self._transactions = transactions
        self._blobs = blobs

    def submit(self, new: NewJob, *, queue_limit: int | None = None) -> Job:
        """Accepts a job: when this returns it is on disk. Raises QueueFullError beyond ``queue_limit``
        waiting.
        """
        with self._transactions.write() as session:
            return insert_job(session, self._blobs, new, queue_limit)

    def result(self, key: str) -> Job | None:
        """The first job that succeeded with that result key."""
        statement = select(JobRow).where(JobRow.result_key == key).order_by(JobRow.number).limit(1)
        with self._transactions.read() as session:
            row = session.scalars(statement).first()
            return None if row is None else job_of(row)

    def get(self, identity: str) -> Job | None:
        """The job with that id."""
        with self._transactions.statement() as connection:
            rows = connection.execute(_BY_ID, {"id": identity}).all()
        return _job_of_rows(rows) if rows else None

    def list(
        self, *, state: JobState | None = None, before: int | None = None, limit: int | None = None
    ) -> tuple[Job, ...]:
        """Jobs, newest first, in a state, with numbers below ``before``."""
        statement = select(JobRow).order_by(JobRow.number.desc()).limit(limit)
        if state is not None:
            statement = statement.where(JobRow.state == state)
        if before is not None:
            statement = statement.where(JobRow.number < before)
        with self._transactions.read() as session:
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
            select(JobEventRow.id, JobEventRow.kind, JobEventRow.content, JobEventRow.created_at)
            .join(JobRow, JobRow.number == JobEventRow.job_number)
            .where(JobRow.id == identity, JobEventRow.id > after)
            .order_by(JobEventRow.id)
            .limit(limit)
        )
        with self._transactions.statement() as connection:
            return tuple(JobEvent(*row) for row in connection.execute(statement))

    def newest_event(self) -> int:
        """The id of the newest event of any job; 0 without."""
        with self._transactions.statement() as connection:
            return connection.execute(select(func.max(JobEventRow.id))).scalar() or 0

    def news(self, after: int, *, limit: int = 1000) -> dict[str, int]:
        """The jobs with events behind ``after``, of the next ``limit``, and the newest of each."""
        events = (
            select(JobEventRow.id, JobEventRow.job_number)
            .where(JobEventRow.id > after)
            .order_by(JobEventRow.id)
            .limit(limit)
            .subquery()
        )
        newest = (
            select(JobRow.id, func.max(events.c.id))
            .join(events, events.c.job_number == JobRow.number)
            .group_by(JobRow.id)
        )
        with self._transactions.statement() as connection:
            return dict(connection.execute(newest).all())

    def waiting(self) -> int:
        """How many jobs wait."""
        with self._transactions.statement() as connection:
            return connection.execute(_WAITING).scalar() or 0

    def counts(self) -> dict[JobState, int]:
        """How many jobs there are in each state."""
        statement = select(JobRow.state, func.count()).group_by(JobRow.state)
        with self._transactions.read() as session:
            counts = dict(session.execute(statement).all())
        return {state: counts.get(str(state), 0) for state in JobState}

    @contextmanager
    def unused(self, hashes: Iterable[str]) -> Generator[frozenset[str]]:
        """Those of the blobs that belong to no job; none comes to belong to one within the block."""
        asked = frozenset(hashes)
        with self._transactions.write() as session:
            own_blobs(session)
            used = session.scalars(select(JobFileRow.sha256).where(JobFileRow.sha256.in_(asked)).distinct())
            yield asked - frozenset(used)

    def remove_finished(self, older_than_seconds: float) -> int:
        """Forgets jobs that ended that long ago; returns how many. Their blobs are not removed."""
        removed = 0
        while True:
            with self._transactions.write() as session:
                before = now(session) - timedelta(seconds=older_than_seconds)
                ended = JobRow.state.in_([str(state) for state in FINAL_STATES])
                some = select(JobRow.number).where(ended, JobRow.finished_at < before).limit(_REMOVED_AT_ONCE)
                gone = delete(JobRow).where(JobRow.number.in_(some))
                count = len(session.scalars(gone.returning(JobRow.number)).all())
            removed += count
            if count < _REMOVED_AT_ONCE:
                return removed


def insert_job(session: Session, blobs: BlobStore, new: NewJob, queue_limit: int | None) -> Job:
    """Inserts a job with its files: queued, or succeeded with a known result.

    Raises QueueFullError beyond ``queue_limit`` waiting, MissingServiceError if a file has been removed
    meanwhile (which its age forbids, unless clocks jump).
    """
    keep_blobs(session)
    if not are_stored(blobs, new.files):
        raise MissingServiceError("the files of the job were removed before it was accepted; send it again")
    known = new.known if new.known is not None and are_stored(blobs, new.known.files) else None
    if known is None:
        _require_room(session, queue_limit)
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
        traceparent=new.traceparent,
        library_version=session.scalar(select(func.max(LibraryVersionRow.number))),
        files=[file_row(file) for file in new.files],
    )
    session.add(row)
    session.flush()
    add_event(session, row, "state", {"state": str(JobState.QUEUED)})
    if known is not None:
        give_result(session, row, known.files, known.key, known.job_id)
    return job_of(row)


def are_stored(blobs: BlobStore, files: Iterable[JobFile]) -> bool:
    """Whether all those blobs are there, completely."""
    return all(blobs.holds(Blob(file.sha256, file.bytes)) for file in files)


def give_result(
    session: Session, row: JobRow, files: Iterable[JobFile], key: str | None, reused_from: str | None
) -> None:
    """Ends a job with its result; ``key`` is the hash of all that it depends on."""
    row.files.extend(file_row(file) for file in files)
    row.result_key, row.reused_from = key, reused_from
    change_state(session, row, JobState.SUCCEEDED)


def _require_room(session: Session, queue_limit: int | None) -> None:
    if queue_limit is not None and (count := session.scalar(_WAITING) or 0) >= queue_limit:
        raise QueueFullError(f"{count} jobs are waiting, as many as are allowed")


def change_state(session: Session, row: JobRow, state: JobState) -> None:
    """Puts a job in another state and says so in its events; a job that is not running has no lease."""
    row.state = str(state)
    if state not in (JobState.RUNNING, JobState.CANCELLING):
        row.lease = row.worker = row.lease_expires_at = row.heartbeat_at = None
    if state.final:
        row.finished_at = ended = now(session)
        if row.started_at is not None:
            count_duration(session, state, row.started_at, ended)
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
    return _job(row, tuple(JobFile(JobRole(f.role), f.name, f.sha256, f.bytes) for f in row.files))


def _job_of_rows(rows: Sequence[Row[*tuple[object, ...]]]) -> Job:
    """The rows of ``_BY_ID``, one for each file and at least one."""
    files = (cast("tuple[str, str, str, int]", row[len(_JOB) :]) for row in rows)
    return _job(
        cast("JobRow", rows[0]),
        tuple(JobFile(JobRole(role), name, sha256, bytes_) for role, name, sha256, bytes_ in files if role),
    )


def _job(row: JobRow, files: tuple[JobFile, ...]) -> Job:
    """The columns of a row, and files."""
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
        traceparent=row.traceparent,
        reused_from=row.reused_from,
        files=files,
    )
