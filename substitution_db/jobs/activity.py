"""Activity for metrics: live workers, durations of jobs, waiting time of the queue.

Everything is stored in the database, so that all servers of a service report the same and counts survive
restarts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from superopt.substitution_db.store.engine import Transactions, now, upsert
from superopt.substitution_db.store.models import JobDurationRow, JobRow, RuleRow, WorkerRow
from superopt.substitution_db.store.records import SCARCE, JobState, RuleStatus

DURATION_BOUNDS = (1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10800.0)
"""Upper bounds in seconds of the histogram buckets of job durations; the last bucket has none."""

_FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """The latest heartbeat of a worker: its age in seconds, the worker's job if any, and the devices that it
    can optimise for (unknown for older versions, which claim any job).
    """

    worker: str
    seconds: float
    job_id: str | None
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Durations:
    """Histogram of the durations of jobs that ended in one state: counts by bucket of ``DURATION_BOUNDS``,
    and the total seconds from first start to end.
    """

    jobs: tuple[int, ...]
    seconds: float


class ActivityRepository:
    """Heartbeats, durations and counts."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def beat(self, worker: str, job_id: str | None, targets: Sequence[str] = ()) -> None:
        """Records a heartbeat; removes workers without one for an hour."""
        with self._transactions.write() as session:
            time = now(session)
            row = session.get(WorkerRow, worker)
            if row is None:
                session.execute(delete(WorkerRow).where(WorkerRow.seen_at < time - _FORGOTTEN))
                row = WorkerRow(name=worker, started_at=time)
                session.add(row)
            row.seen_at, row.job_id, row.targets = time, job_id, list(targets)

    def leave(self, worker: str) -> None:
        """Deregisters a worker."""
        with self._transactions.write() as session:
            session.execute(delete(WorkerRow).where(WorkerRow.name == worker))

    def workers(self) -> tuple[WorkerHeartbeat, ...]:
        """The registered workers, by name."""
        with self._transactions.read() as session:
            time = now(session)
            rows = session.scalars(select(WorkerRow).order_by(WorkerRow.name))
            return tuple(
                WorkerHeartbeat(
                    row.name,
                    (time - row.seen_at).total_seconds(),
                    row.job_id,
                    SCARCE if row.targets is None else tuple(row.targets),
                )
                for row in rows
            )

    def durations(self) -> Mapping[JobState, Durations]:
        """Durations of jobs by final state."""
        jobs: dict[JobState, list[int]] = {}
        seconds: dict[JobState, float] = {}
        with self._transactions.read() as session:
            for row in session.scalars(select(JobDurationRow)):
                state = JobState(row.state)
                jobs.setdefault(state, [0] * (len(DURATION_BOUNDS) + 1))[row.bucket] = row.jobs
                seconds[state] = seconds.get(state, 0.0) + row.seconds
        return {state: Durations(tuple(counts), seconds[state]) for state, counts in jobs.items()}

    def rules(self) -> Mapping[RuleStatus, int]:
        """Number of rules by state."""
        with self._transactions.read() as session:
            counts = dict(
                session.execute(select(RuleRow.status, func.count()).group_by(RuleRow.status)).all()
            )
        return {status: counts.get(str(status), 0) for status in RuleStatus}

    def waiting_seconds(self) -> float:
        """Waiting time of the oldest queued job in seconds; 0 if none is queued."""
        with self._transactions.read() as session:
            oldest = session.scalar(
                select(func.min(JobRow.created_at)).where(JobRow.state == JobState.QUEUED)
            )
            return 0.0 if oldest is None else max(0.0, (now(session) - oldest).total_seconds())


def count_duration(session: Session, state: JobState, started: datetime, ended: datetime) -> None:
    """Adds an ended job to the histogram, in the transaction that ends it."""
    seconds = max(0.0, (ended - started).total_seconds())
    values = {
        "state": str(state),
        "bucket": bisect_left(DURATION_BOUNDS, seconds),
        "jobs": 1,
        "seconds": seconds,
    }
    statement = upsert(session, JobDurationRow).values(values)
    more = {
        "jobs": JobDurationRow.jobs + statement.excluded.jobs,
        "seconds": JobDurationRow.seconds + statement.excluded.seconds,
    }
    session.execute(statement.on_conflict_do_update(index_elements=["state", "bucket"], set_=more))
