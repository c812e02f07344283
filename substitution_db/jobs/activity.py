"""What goes on, for metrics: which workers give signs of life, how long jobs took, how long the next waits.

All of it is in the database, so that every server of a service says the same, wherever the workers are, and
counts go on when processes end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from superopt.substitution_db.store.engine import Transactions, now
from superopt.substitution_db.store.models import JobDurationRow, JobRow, RuleRow, WorkerRow
from superopt.substitution_db.store.records import SCARCE, JobState, RuleStatus

DURATION_BOUNDS = (1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10800.0)
"""Upper bounds, in seconds, of the classes that jobs are counted in; the last class has none."""

_FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SignOfLife:
    """A worker and how many seconds ago it gave a sign of life; the job it has, if any; the devices that it
    can optimise for (one of a version that does not say claims whatever waits).
    """

    worker: str
    seconds: float
    job_id: str | None
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Durations:
    """Jobs that ended in one state, by class of ``DURATION_BOUNDS``, and the seconds of all, from the first
    start to the end.
    """

    jobs: tuple[int, ...]
    seconds: float


class ActivityRepository:
    """Signs of life, durations and counts."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def beat(self, worker: str, job_id: str | None, targets: Sequence[str] = ()) -> None:
        """A sign of life; workers that gave none for an hour are forgotten."""
        with self._transactions.write() as session:
            time = now(session)
            row = session.get(WorkerRow, worker)
            if row is None:
                session.execute(delete(WorkerRow).where(WorkerRow.seen_at < time - _FORGOTTEN))
                row = WorkerRow(name=worker, started_at=time)
                session.add(row)
            row.seen_at, row.job_id, row.targets = time, job_id, list(targets)

    def leave(self, worker: str) -> None:
        """The worker ends."""
        with self._transactions.write() as session:
            session.execute(delete(WorkerRow).where(WorkerRow.name == worker))

    def workers(self) -> tuple[SignOfLife, ...]:
        """The workers that did not leave, by name."""
        with self._transactions.read() as session:
            time = now(session)
            rows = session.scalars(select(WorkerRow).order_by(WorkerRow.name))
            return tuple(
                SignOfLife(
                    row.name,
                    (time - row.seen_at).total_seconds(),
                    row.job_id,
                    SCARCE if row.targets is None else tuple(row.targets),
                )
                for row in rows
            )

    def durations(self) -> Mapping[JobState, Durations]:
        """How long jobs took, by the state that they ended in."""
        jobs: dict[JobState, list[int]] = {}
        seconds: dict[JobState, float] = {}
        with self._transactions.read() as session:
            for row in session.scalars(select(JobDurationRow)):
                state = JobState(row.state)
                jobs.setdefault(state, [0] * (len(DURATION_BOUNDS) + 1))[row.bucket] = row.jobs
                seconds[state] = seconds.get(state, 0.0) + row.seconds
        return {state: Durations(tuple(counts), seconds[state]) for state, counts in jobs.items()}

    def rules(self) -> Mapping[RuleStatus, int]:
        """How many rules there are in each state."""
        with self._transactions.read() as session:
            counts = dict(
                session.execute(select(RuleRow.status, func.count()).group_by(RuleRow.status)).all()
            )
        return {status: counts.get(str(status), 0) for status in RuleStatus}

    def waiting_seconds(self) -> float:
        """How long the oldest waiting job has been waiting; 0 if none waits."""
        with self._transactions.read() as session:
            oldest = session.scalar(
                select(func.min(JobRow.created_at)).where(JobRow.state == JobState.QUEUED)
            )
            return 0.0 if oldest is None else max(0.0, (now(session) - oldest).total_seconds())


def count_duration(session: Session, state: JobState, started: datetime, ended: datetime) -> None:
    """Counts a job that ended, within the transaction that ends it."""
    seconds = max(0.0, (ended - started).total_seconds())
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    values = {
        "state": str(state),
        "bucket": bisect_left(DURATION_BOUNDS, seconds),
        "jobs": 1,
        "seconds": seconds,
    }
    statement = dialect.insert(JobDurationRow).values(values)
    more = {
        "jobs": JobDurationRow.jobs + statement.excluded.jobs,
        "seconds": JobDurationRow.seconds + statement.excluded.seconds,
    }
    session.execute(statement.on_conflict_do_update(index_elements=["state", "bucket"], set_=more))
