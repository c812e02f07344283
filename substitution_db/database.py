"""One database: opening it (migrated, with the shipped library) and its repositories."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from superopt.substitution_db.store.engine import Transactions, connect
from superopt.substitution_db.store.keys import KeyRepository
from superopt.substitution_db.store.location import blob_store, database_url
from superopt.substitution_db.store.migrate import is_usable, revision_of, upgrade
from superopt.substitution_db.store.records import SCARCE


@dataclass(frozen=True)
class Database:
    """An open database. ``url`` (with any password) opens it again in another process.

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
        """The queue of jobs for a worker of that name, whose clock (in seconds) only ever goes forward, and
        which has devices for those targets (of those that not every worker has).
        """
        return JobQueue(self.transactions, self.blobs, worker, lease_seconds, clock, targets)

    def ping(self) -> str | None:
        """The revision of the schema; raises MissingServiceError when the database does not answer."""
        with self.transactions.read() as session:
            return session.execute(text("SELECT version_num FROM alembic_version")).scalar()

    def is_migrated(self) -> bool:
        """Whether the schema is one that this code works on; raises MissingServiceError like ``ping``."""
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
    """Opens the database at ``url`` (see ``location.database_url``), at the newest schema and with the
    library loaded (by default the shipped one, see ``shipped_library``). Several processes may do this at
    once, also for a database that is not there yet.

    Raises InvalidOptionError (a URL that makes no sense), InvalidFileError (not a database, another
    program's, or a newer superopt's), MissingServiceError (it does not answer).
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


def upgrade_database(url: str | None = None) -> tuple[str | None, str]:
    """Brings the database at ``url`` to the newest schema; returns the revisions before and after."""
    transactions = Transactions(connect(database_url(url)))
    try:
        return upgrade(transactions)
    finally:
        transactions.engine.dispose()
