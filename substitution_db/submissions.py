"""Idempotency keys: the same request sent again gives the job that the first one made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, select, update

from substitution_db.engine import Transactions, now
from substitution_db.jobs import NewJob, insert_job
from substitution_db.models import JobRow, SubmissionRow
from substitution_db.records import Job
from substitution_db.rows import insert_new

UPLOAD_SECONDS = 3600
"""How long a first request may take before its key is free again (its server may have died)."""

KEY_SECONDS = 24 * 3600
"""How long a key remembers its job."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What is known of an idempotency key: without a job, its first request is under way."""

    fingerprint: str | None
    job_id: str | None


class SubmissionRepository:
    """Idempotency keys by owner (an API key's id, or empty) and key."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def reserve(self, owner: str, key: str) -> Submission | None:
        """Takes the key for a request that begins; what is known of it if somebody has it already."""
        with self._transactions.write() as session:
            time = now(session)
            session.execute(delete(SubmissionRow).where(SubmissionRow.expires_at < time))
            values = {
                "owner": owner,
                "key": key,
                "fingerprint": None,
                "job_id": None,
                "expires_at": time + timedelta(seconds=UPLOAD_SECONDS),
            }
            if insert_new(session, SubmissionRow, [values], ("owner", "key")):
                return None
            row = session.get_one(SubmissionRow, (owner, key))
            return Submission(row.fingerprint, row.job_id)

    def submit(
        self, owner: str, key: str, fingerprint: str, new: NewJob, *, queue_limit: int | None = None
    ) -> Job:
        """Accepts the job of a reserved key, both in one transaction. Raises QueueFullError."""
        with self._transactions.write() as session:
            job = insert_job(session, new, queue_limit)
            session.execute(
                update(SubmissionRow)
                .where(SubmissionRow.owner == owner, SubmissionRow.key == key)
                .values(
                    fingerprint=fingerprint,
                    job_id=job.id,
                    expires_at=now(session) + timedelta(seconds=KEY_SECONDS),
                )
            )
            return job

    def release(self, owner: str, key: str) -> None:
        """Frees a reserved key whose request failed."""
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
