"""Garbage collection: expired jobs, unreferenced blobs, working directories of dead workers."""

from __future__ import annotations

import logging
from itertools import islice

from superopt.substitution_db import Database
from superopt.substitution_db.jobs.queue import JobQueue

_YOUNG_SECONDS = 3600.0 * 6
"""Blobs younger than this may belong to a request in progress."""

_BLOBS_AT_ONCE = 20
_log = logging.getLogger(__name__)


def clean(
    database: Database, queue: JobQueue, retention_seconds: float, young_seconds: float = _YOUNG_SECONDS
) -> None:
    """Removes expired jobs, unreferenced blobs and abandoned files. Safe while workers and servers run."""
    removed = database.jobs.remove_finished(retention_seconds)
    database.submissions.forget_jobs()
    remove_abandoned_work(database, queue)
    stored = iter(database.blobs.stored())
    while batch := tuple(islice(stored, _BLOBS_AT_ONCE)):
        with database.jobs.unused(batch) as unused:
            database.blobs.remove_unused(unused, young_seconds)
    database.blobs.remove_copies(young_seconds)
    database.blobs.remove_abandoned(young_seconds)
    _log.info("cleaned: %d expired jobs", removed)


def remove_abandoned_work(database: Database, queue: JobQueue) -> None:
    """Removes working directories without a lease. Directories are listed before leases, since a lease
    precedes its directory.
    """
    directories = database.blobs.work_directories()
    database.blobs.remove_work(directories - queue.leases())
