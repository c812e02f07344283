"""Idempotency keys: a repeated request gets the job of the first one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select, update

from superopt.errors import SuperoptError
from superopt.substitution_db.jobs.repository import NewJob, insert_job
from superopt.substitution_db.store.blobs import BlobStore
from superopt.substitution_db.store.engine import Transactions, now
from superopt.substitution_db.store.models import JobRow, SubmissionRow
from superopt.substitution_db.store.records import Job
from superopt.substitution_db.store.rows import insert_new

RESERVED_SECONDS = 60
"""How long a reservation lasts without renewal (its server may have died)."""

KEY_SECONDS = 24 * 3600
"""Lifetime of a key."""


class KeyTakenError(SuperoptError):
    """Another request with the same idempotency key was accepted first."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The state of an idempotency key; without a job, its first request is in progress."""

    fingerprint: str | None
    job_id: str | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job of an idempotency key, and when the key expires."""

    job: Job
    expires_at: datetime


class SubmissionRepository:
    """Idempotency keys by owner (an API key's id, or empty) and key."""

    def __init__(self, transactions: Transactions, blobs: BlobStore) -> None:
        self._transactions = transactions
        self._blobs = blobs

    def reserve(self, owner: str, key: str) -> Submission | None:
        """Reserves the key for a new request; returns its state if it is already in use, else None."""
        with self._transactions.write() as session:
            time = now(session)
            session.execute(delete(SubmissionRow).where(SubmissionRow.expires_at < time))
            values = {
                "owner": owner,
                "key": key,
                "fingerprint": None,
                "job_id": None,
                "expires_at": time + timedelta(seconds=RESERVED_SECONDS),
            }
            if insert_new(session, SubmissionRow, [values], ("owner", "key")):
                return None
            row = session.get(SubmissionRow, (owner, key))
            if row is None:  # released concurrently: the next attempt succeeds
                return Submission(None, None, time)
            return Submission(row.fingerprint, row.job_id, row.expires_at)

    def keep(self, owner: str, key: str) -> None:
        """Renews the reservation of a key."""
        with self._transactions.write() as session:
            session.execute(
                update(SubmissionRow)
                .where(SubmissionRow.owner == owner, SubmissionRow.key == key, SubmissionRow.job_id.is_(None))
                .values(expires_at=now(session) + timedelta(seconds=RESERVED_SECONDS))
            )

    def submit(
        self, owner: str, key: str, fingerprint: str, new: NewJob, *, queue_limit: int | None = None
    ) -> Submitted:
        """Stores a job and binds it to its key, in one transaction.

        Raises QueueFullError, and KeyTakenError if the reservation expired and another request took the key.
        """
        with self._transactions.write() as session:
            job = insert_job(session, self._blobs, new, queue_limit)
            expires = now(session) + timedelta(seconds=KEY_SECONDS)
            values = {"fingerprint": fingerprint, "job_id": job.id, "expires_at": expires}
            mine = (SubmissionRow.owner == owner, SubmissionRow.key == key, SubmissionRow.job_id.is_(None))
            reserved = session.scalars(
                update(SubmissionRow).where(*mine).values(values).returning(SubmissionRow.key)
            ).all()
            again = {"owner": owner, "key": key, **values}
            if not reserved and not insert_new(session, SubmissionRow, [again], ("owner", "key")):
                raise KeyTakenError(f"another request with the key {key} was accepted first")
            return Submitted(job, expires)

    def release(self, owner: str, key: str) -> None:
        """Releases a reserved key after its request failed."""
        with self._transactions.write() as session:
            session.execute(
                delete(SubmissionRow).where(
                    SubmissionRow.owner == owner, SubmissionRow.key == key, SubmissionRow.job_id.is_(None)
                )
            )

    def forget_jobs(self) -> None:
        """Removes keys of jobs that are no longer stored."""
        with self._transactions.write() as session:
            gone = SubmissionRow.job_id.not_in(select(JobRow.id))
            session.execute(delete(SubmissionRow).where(SubmissionRow.job_id.is_not(None), gone))
