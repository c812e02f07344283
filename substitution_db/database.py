"""Database access: opens a database (migrated, with the shipped library) and gives its repositories."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import text

from superopt.substitution_db.jobs.activity import ActivityRepository
from superopt.substitution_db.jobs.queue import LEASE_SECONDS, JobQueue
from superopt.substitution_db.jobs.repository import JobRepository
from superopt.substitution_db.jobs.submissions import SubmissionRepository
from superopt.substitution_db.rules.quarantine import Quarantine
from superopt.substitution_db.rules.repository import RuleRepository
from superopt.substitution_db.rules.shipped import load_shipped, shipped_library
from superopt.substitution_db.rules.versions import LibraryVersions
from superopt.substitution_db.store.blobs import BlobStore
from superopt.substitution_db.store.costs import CostRepository
from superopt.substitution_db.store.engine import ELSEWHERE, Transactions, connect
from superopt.substitution_db.store.keys import KeyRepository
from superopt.substitution_db.store.location import blob_store, database_url, why_default_is_unwritable
from superopt.substitution_db.store.migrate import is_usable, revision_of, upgrade
from superopt.substitution_db.store.records import SCARCE

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Database:
    """An open database. ``url`` (including a password) can open it in another process.

    Close it, or use it in a ``with`` statement.
    """

    url: str
    blobs: BlobStore
    rules: RuleRepository
    library: LibraryVersions
    quarantine: Quarantine
    activity: ActivityRepository
    costs: CostRepository
    jobs: JobRepository
    submissions: SubmissionRepository
    keys: KeyRepository
    transactions: Transactions

    def queue(
        self,
        worker: str,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        targets: Sequence[str] = SCARCE,
    ) -> JobQueue:
        """The job queue for the worker ``worker``, with its monotonic clock in seconds and the targets it has
        devices for (apart from those every worker has).
        """
        return JobQueue(self.transactions, self.blobs, worker, lease_seconds, clock, targets)

    def ping(self) -> str | None:
        """The revision of the schema. Raises MissingServiceError if the database is not available."""
        with self.transactions.read() as session:
            return session.execute(text("SELECT version_num FROM alembic_version")).scalar()

    def is_migrated(self) -> bool:
        """Whether this code can use the schema. Raises MissingServiceError like ``ping``."""
        with self.transactions.read() as session:
            return is_usable(session.connection(), revision_of(session.connection()))

    def close(self) -> None:
        """Closes all connections."""
        self.transactions.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_database(url: str | None = None, *, library: Path | None = None) -> Database:
    """Opens the database at ``url`` (see ``location.database_url``), migrated to the newest schema and with a
    library loaded (by default the shipped one, see ``shipped_library``). Creates a missing database. Safe for
    concurrent processes.

    Raises InvalidOptionError (an invalid URL), InvalidFileError (not a database, another program's, or a
    newer superopt's), MissingServiceError (not available).
    """
    address = database_url(url)
    blobs = blob_store(address)
    transactions = Transactions(connect(address))
    try:
        with transactions.read() as session:
            usable = is_usable(session.connection(), revision_of(session.connection()))
        if not usable:
            upgrade(transactions)
        load_shipped(transactions, library or shipped_library())
    except BaseException:
        transactions.engine.dispose()
        raise
    return Database(
        url=address.render_as_string(hide_password=False),
        blobs=blobs,
        rules=RuleRepository(transactions),
        library=LibraryVersions(transactions),
        quarantine=Quarantine(transactions),
        activity=ActivityRepository(transactions),
        costs=CostRepository(transactions),
        jobs=JobRepository(transactions, blobs),
        submissions=SubmissionRepository(transactions, blobs),
        keys=KeyRepository(transactions),
        transactions=transactions,
    )


@contextmanager
def open_or_temporary(url: str | None = None) -> Generator[Database]:
    """Opens the database for work that can do without what it learned before. If no URL is given and the
    default database cannot be written, uses a temporary one with the shipped library, and logs a warning.

    Raises as ``open_database``.
    """
    why = why_default_is_unwritable(url)
    if not why:
        with open_database(url) as opened:
            yield opened
        return
    _LOG.warning("%s; a temporary database with the shipped rules is used; %s", why, ELSEWHERE)
    with (
        tempfile.TemporaryDirectory(prefix="superopt-") as directory,
        open_database(str(Path(directory) / "superopt.db")) as opened,
    ):
        yield opened


def upgrade_database(url: str | None = None) -> tuple[str | None, str]:
    """Brings the database at ``url`` to the newest schema; returns the revisions before and after."""
    transactions = Transactions(connect(database_url(url)))
    try:
        return upgrade(transactions)
    finally:
        transactions.engine.dispose()
