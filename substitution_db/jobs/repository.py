"""Job repository for the server: submission, reading, cancelling, events.

States: queued -> running -> succeeded | failed | crashed; queued -> cancelled; running -> cancelling ->
cancelled; queued -> succeeded when a result is reused. A running job whose worker died is requeued until its
last attempt, then it is crashed (``substitution_db.jobs.queue``). Final states never change.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from sqlalchemy import ColumnElement, Row, Select, String, bindparam, delete, func, insert, or_, select
from sqlalchemy.orm import Session

from superopt.errors import MissingServiceError, SuperoptError
from superopt.substitution_db.jobs.activity import count_duration
from superopt.substitution_db.store.blobs import Blob, BlobStore
from superopt.substitution_db.store.engine import Transactions, keep_blobs, now, own_blobs
from superopt.substitution_db.store.models import (
    ApiKeyRow,
    JobEventRow,
    JobFileRow,
    JobRow,
    LibraryVersionRow,
)
from superopt.substitution_db.store.records import (
    FINAL_STATES,
    Job,
    JobEvent,
    JobFile,
    JobOwner,
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
"""One statement without ORM entities, because this is the most frequent query."""


def _belongs_to(key: object, owner: object) -> ColumnElement[bool]:
    """Whether a job is of an API key or of another key of its owner."""
    siblings = select(ApiKeyRow.id).where(ApiKeyRow.owner == owner)
    return or_(JobRow.owner == key, JobRow.owner.in_(siblings))


_BY_ID_OF_OWNER = _BY_ID.where(_belongs_to(bindparam("key", type_=String), bindparam("owner", type_=String)))


_WAITING = select(func.count()).select_from(JobRow).where(JobRow.state == JobState.QUEUED)


class QueueFullError(SuperoptError):
    """The queue is full."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be submitted; the blobs of its files are stored already. ``owner`` is an API key's id or
    empty. With a known result it succeeds at once. ``traceparent`` is the submitting span (W3C trace
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
        """Stores a job durably. Raises QueueFullError if ``queue_limit`` jobs are queued."""
        with self._transactions.write() as session:
            return insert_job(session, self._blobs, new, queue_limit)

    def result(self, key: str) -> Job | None:
        """The first succeeded job with that result key."""
        statement = select(JobRow).where(JobRow.result_key == key).order_by(JobRow.number).limit(1)
        with self._transactions.read() as session:
            row = session.scalars(statement).first()
            return None if row is None else job_of(row)

    def get(self, identity: str, of: JobOwner | None = None) -> Job | None:
        """The job with that id, if it is of that owner."""
        with self._transactions.statement() as connection:
            rows = connection.execute(*_by_id(identity, of)).all()
        return _job_of_rows(rows) if rows else None

    def list(
        self,
        *,
        state: JobState | None = None,
        before: int | None = None,
        limit: int | None = None,
        of: JobOwner | None = None,
    ) -> tuple[Job, ...]:
        """Jobs, newest first; optionally in one state, with numbers below ``before``, of one owner."""
        statement = select(JobRow).order_by(JobRow.number.desc()).limit(limit)
        if state is not None:
            statement = statement.where(JobRow.state == state)
        if before is not None:
            statement = statement.where(JobRow.number < before)
        if of is not None:
            statement = statement.where(_belongs_to(of.key, of.owner))
        with self._transactions.read() as session:
            return tuple(job_of(row) for row in session.scalars(statement))

    def cancel(self, identity: str, of: JobOwner | None = None) -> Job | None:
        """Requests cancellation: a queued job is cancelled at once, a running one becomes CANCELLING. None if
        there is no such job of that owner.
        """
        statement = select(JobRow).where(JobRow.id == identity)
        if of is not None:
            statement = statement.where(_belongs_to(of.key, of.owner))
        with self._transactions.write() as session:
            row = session.scalars(locked(statement)).first()
            if row is None:
                return None
            if row.state == JobState.QUEUED:
                change_state(session, row, JobState.CANCELLED)
            elif row.state == JobState.RUNNING:
                change_state(session, row, JobState.CANCELLING)
            return job_of(row)

    def events(self, identity: str, *, after: int = 0, limit: int = 500) -> tuple[JobEvent, ...]:
        """The events of a job after the event ``after``, in order."""
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
        """The id of the newest event of any job; 0 without events."""
        with self._transactions.statement() as connection:
            return connection.execute(select(func.max(JobEventRow.id))).scalar() or 0

    def news(self, after: int, *, limit: int = 1000) -> dict[str, int]:
        """The newest event id by job, of the next ``limit`` events after ``after``."""
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
        """The number of queued jobs."""
        with self._transactions.statement() as connection:
            return connection.execute(_WAITING).scalar() or 0

    def counts(self) -> dict[JobState, int]:
        """Number of jobs by state."""
        statement = select(JobRow.state, func.count()).group_by(JobRow.state)
        with self._transactions.read() as session:
            counts = dict(session.execute(statement).all())
        return {state: counts.get(str(state), 0) for state in JobState}

    @contextmanager
    def unused(self, hashes: Iterable[str]) -> Generator[frozenset[str]]:
        """The given blobs that no job references; no job can start to reference one within the block."""
        asked = frozenset(hashes)
        with self._transactions.write() as session:
            own_blobs(session)
            used = session.scalars(select(JobFileRow.sha256).where(JobFileRow.sha256.in_(asked)).distinct())
            yield asked - frozenset(used)

    def remove_finished(self, older_than_seconds: float) -> int:
        """Removes jobs that ended at least that many seconds ago; returns how many. Keeps their blobs."""
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


def _by_id(identity: str, of: JobOwner | None) -> tuple[Select[*tuple[object, ...]], dict[str, str]]:
    """The statement for a job, with its parameters."""
    if of is None:
        return _BY_ID, {"id": identity}
    return _BY_ID_OF_OWNER, {"id": identity, "key": of.key, "owner": of.owner}


def insert_job(session: Session, blobs: BlobStore, new: NewJob, queue_limit: int | None) -> Job:
    """Inserts a job with its files, queued, or succeeded if its result is known.

    Raises QueueFullError if ``queue_limit`` jobs are queued, MissingServiceError if a file has been removed
    meanwhile (possible only if clocks jump).
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
        give_reused_result(session, row, known)
    return job_of(row)


def are_stored(blobs: BlobStore, files: Iterable[JobFile]) -> bool:
    """Whether all those blobs are stored completely."""
    return all(blobs.holds(Blob(file.sha256, file.bytes)) for file in files)


def give_result(
    session: Session, row: JobRow, files: Iterable[JobFile], key: str | None, outcome: JsonObject | None
) -> None:
    """Ends a job with its result; ``key`` is the hash of everything the result depends on."""
    row.files.extend(file_row(file) for file in files)
    row.result_key, row.outcome = key, None if outcome is None else dict(outcome)
    change_state(session, row, JobState.SUCCEEDED)


def give_reused_result(session: Session, row: JobRow, known: KnownResult) -> None:
    """Ends a job with the result of another."""
    row.reused_from = known.job_id
    give_result(session, row, known.files, known.key, known.outcome)


def _require_room(session: Session, queue_limit: int | None) -> None:
    if queue_limit is not None and (count := session.scalar(_WAITING) or 0) >= queue_limit:
        raise QueueFullError(f"the queue is full: {count} jobs")


def change_state(session: Session, row: JobRow, state: JobState) -> None:
    """Changes the state of a job and records an event; clears the lease of a job that does not run."""
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
    """Records an event. The job's row must be locked, so that ids of its events grow in commit order."""
    session.execute(
        insert(JobEventRow).values(
            job_number=row.number, kind=kind, content=dict(content), created_at=now(session)
        )
    )


def locked(statement: Select[JobRow]) -> Select[JobRow]:
    """Adds row locks until the end of the transaction (SQLite locks the whole database for writing)."""
    return statement.with_for_update(of=JobRow)


def file_row(file: JobFile) -> JobFileRow:
    """A file as a row."""
    return JobFileRow(role=str(file.role), name=file.name, sha256=file.sha256, bytes=file.bytes)


def job_of(row: JobRow) -> Job:
    """A row as a value."""
    return _job(row, tuple(JobFile(JobRole(f.role), f.name, f.sha256, f.bytes) for f in row.files))


def _job_of_rows(rows: Sequence[Row[*tuple[object, ...]]]) -> Job:
    """A job from the rows of ``_BY_ID``, one per file and at least one."""
    files = (cast("tuple[str, str, str, int]", row[len(_JOB) :]) for row in rows)
    return _job(
        cast("JobRow", rows[0]),
        tuple(JobFile(JobRole(role), name, sha256, bytes_) for role, name, sha256, bytes_ in files if role),
    )


def _job(row: JobRow, files: tuple[JobFile, ...]) -> Job:
    """A job from the columns of a row and its files."""
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
        outcome=row.outcome,
        files=files,
    )
