"""What is left over: jobs past their time, blobs that no job uses, working directories of dead workers."""

from __future__ import annotations

import logging

from substitution_db import Database
from substitution_db.queue import JobQueue

_YOUNG_SECONDS = 3600.0 * 6
"""Blobs of this age may belong to a request that is still being accepted."""

_log = logging.getLogger(__name__)


def clean(database: Database, queue: JobQueue, retention_seconds: float) -> None:
    """Removes everything that is left over; safe beside other workers and servers."""
    removed = database.jobs.remove_finished(retention_seconds)
    database.submissions.forget_jobs()
    remove_abandoned_work(database, queue)
    stored = database.blobs.stored()
    database.blobs.remove_unused(stored - database.jobs.used_blobs(), _YOUNG_SECONDS)
    database.blobs.remove_abandoned(_YOUNG_SECONDS)
    _log.info("cleaned: %d jobs past their time", removed)


def remove_abandoned_work(database: Database, queue: JobQueue) -> None:
    """Removes working directories without a lease (a directory is made after its lease: looked at in that
    order).
    """
    directories = database.blobs.work_directories()
    database.blobs.remove_work(directories - queue.leases())
