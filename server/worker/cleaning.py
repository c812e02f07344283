"""What is left over: jobs past their time, blobs that no job uses, working directories of dead workers."""

from __future__ import annotations

import logging
from itertools import islice

from superopt.substitution_db import Database
from superopt.substitution_db.jobs.queue import JobQueue

_YOUNG_SECONDS = 3600.0 * 6
"""Blobs of this age may belong to a request that is still being accepted."""

_BLOBS_AT_ONCE = 20
_log = logging.getLogger(__name__)


def clean(
    database: Database, queue: JobQueue, retention_seconds: float, young_seconds: float = _YOUNG_SECONDS
) -> None:
    """Removes everything that is left over; safe beside other workers and servers."""
    removed = database.jobs.remove_finished(retention_seconds)
    database.submissions.forget_jobs()
    remove_abandoned_work(database, queue)
    stored = iter(database.blobs.stored())
    while batch := tuple(islice(stored, _BLOBS_AT_ONCE)):
        with database.jobs.unused(batch) as unused:
            database.blobs.remove_unused(unused, young_seconds)
    database.blobs.remove_copies(young_seconds)
    database.blobs.remove_abandoned(young_seconds)
    _log.info("cleaned: %d jobs past their time", removed)


def remove_abandoned_work(database: Database, queue: JobQueue) -> None:
    """Removes working directories without a lease (a directory is made after its lease: looked at in that
    order).
    """
    directories = database.blobs.work_directories()
    database.blobs.remove_work(directories - queue.leases())
