"""Schema migrations; safe for concurrent processes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from superopt.errors import InvalidFileError, MissingServiceError
from superopt.substitution_db.store.engine import Transactions

if TYPE_CHECKING:  # imported only if a migration is needed, because every command opens a database
    from alembic.script import ScriptDirectory

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010")
"""The revisions known to this code (a test compares them with the migrations)."""

_LOCK_MILLISECONDS = 300
"""Less than PostgreSQL's ``deadlock_timeout`` (a second, if nobody changed it)."""
_LOCKED = frozenset(("55P03", "40P01"))
_PAUSES = tuple(0.1 * 1.3**attempt for attempt in range(16))
"""Seconds between attempts, 30 s in all."""

HEAD = REVISIONS[-1]
"""The revision that this code needs."""


def revision_of(connection: Connection) -> str | None:
    """The revision of the database; None if it is empty.

    Raises InvalidFileError for a database that holds other tables.
    """
    tables = inspect(connection).get_table_names()
    if "alembic_version" in tables:
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if tables:
        raise InvalidFileError(
            f"the database holds another program's tables ({', '.join(sorted(tables)[:3])}); choose another"
        )
    return None


def is_usable(connection: Connection, revision: str | None) -> bool:
    """Whether this code can use a database at that revision without migration: HEAD, or a compatible later
    one.

    A migration that only adds leaves ``oldest_code`` unchanged; one that removes something raises it, and is
    released after the code that no longer needs what it removes.
    """
    if revision == HEAD:
        return True
    if (
        revision is None
        or revision in REVISIONS
        or "schema_support" not in inspect(connection).get_table_names()
    ):
        return False
    return connection.execute(text("SELECT oldest_code FROM schema_support")).scalar() in REVISIONS


def upgrade(transactions: Transactions) -> tuple[str | None, str]:
    """Migrates the database to HEAD, unless it is at a compatible later revision; returns the revisions
    before and after.

    Each migration is one transaction. On PostgreSQL it waits for locks briefly and retries, so that it does
    not block other transactions for long. Raises InvalidFileError for a database that needs a newer superopt,
    MissingServiceError if locks cannot be acquired.
    """
    step = first = _patiently(transactions)
    while not step.usable:
        step = _patiently(transactions)
    return first.before, step.after or HEAD


@dataclass(frozen=True, slots=True)
class _Step:
    """The revisions before and after a migration, and whether the latter is usable."""

    before: str | None
    after: str | None
    usable: bool


def _patiently(transactions: Transactions) -> _Step:
    for pause in _PAUSES:
        try:
            return _step(transactions)
        except MissingServiceError as error:
            if not _waited_for_a_lock(error):
                raise
            time.sleep(pause)
    return _step(transactions)


def _step(transactions: Transactions) -> _Step:
    """The next migration, if one is needed."""
    with transactions.exclusive() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}"))
        before = revision_of(connection)
        if not is_usable(connection, before):
            _migrate(connection, before)
        after = revision_of(connection)
        return _Step(before, after, is_usable(connection, after))


def _migrate(connection: Connection, before: str | None) -> None:
    """Runs the migration after that revision."""
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    if before is not None and before not in REVISIONS:
        raise InvalidFileError(
            f"the database is at revision {before}, unknown to this superopt (at {HEAD}); "
            "use the newer superopt that made it"
        )
    after = REVISIONS[0 if before is None else REVISIONS.index(before) + 1]
    context = MigrationContext.configure(connection)
    with Operations.context(context):
        scripts().get_revision(after).module.upgrade()
    context.stamp(scripts(), after)


def _waited_for_a_lock(error: MissingServiceError) -> bool:
    cause = error.__cause__
    return isinstance(cause, DBAPIError) and getattr(cause.orig, "sqlstate", None) in _LOCKED


@cache
def scripts() -> ScriptDirectory:
    """The migrations in this package."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    configuration = Config()
    location = str(Path(__file__).parent / "migrations")
    configuration.set_main_option("script_location", location.replace("%", "%%"))
    return ScriptDirectory.from_config(configuration)
