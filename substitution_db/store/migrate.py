"""Migrations: brings a database to the newest schema; safe when several processes do it at once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from superopt.errors import InvalidFileError, MissingServiceError
from superopt.substitution_db.store.engine import Transactions

if TYPE_CHECKING:  # loaded only where a database has to be migrated: every command opens one
    from alembic.config import Config
    from alembic.script import ScriptDirectory

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
"""The revisions that this version of the code knows (a test compares them with the migrations)."""

_LOCK_MILLISECONDS = 300
"""Less than PostgreSQL's ``deadlock_timeout`` (a second, if nobody changed it)."""
_LOCKED = frozenset(("55P03", "40P01"))
_PAUSES = tuple(0.1 * 1.3**attempt for attempt in range(16))
"""Seconds between attempts, half a minute in all."""

HEAD = REVISIONS[-1]
"""The revision that this version of the code needs."""


def revision_of(connection: Connection) -> str | None:
    """The revision that the database is at; None when it is empty.

    Raises InvalidFileError for a database that holds other tables.
    """
    tables = inspect(connection).get_table_names()
    if "alembic_version" in tables:
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if tables:
        raise InvalidFileError(
            f"the database holds another program's tables ({', '.join(sorted(tables)[:3])}); give another one"
        )
    return None


def is_usable(connection: Connection, revision: str | None) -> bool:
    """Whether this code works on a database at that revision as it is: at HEAD, or a later one that says so.

    A migration that only adds what older code need not know leaves ``oldest_code`` as it is; one that takes
    something away raises it, and comes a release after the code that no longer needs it.
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
    """Brings the database to HEAD unless a later revision admits this code; returns the revisions before and
    after.

    Each migration is a transaction. On PostgreSQL it waits for locks only shortly and begins anew: nobody
    queues behind it for long. Raises InvalidFileError for a database that only a newer superopt can use,
    MissingServiceError when locks cannot be had.
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
    from alembic import command
    from alembic.util.exc import CommandError

    configuration = _configuration()
    configuration.attributes["connection"] = connection
    try:
        command.upgrade(configuration, "+1")
    except CommandError as error:
        raise InvalidFileError(
            f"the database is at revision {before}, which this superopt (at {HEAD}) does not know; "
            "use the newer superopt that made it"
        ) from error


def _waited_for_a_lock(error: MissingServiceError) -> bool:
    cause = error.__cause__
    return isinstance(cause, DBAPIError) and getattr(cause.orig, "sqlstate", None) in _LOCKED


def scripts() -> ScriptDirectory:
    """The migrations in this package."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_configuration())


def _configuration() -> Config:
    from alembic.config import Config

    configuration = Config()
    location = str(Path(__file__).parent / "migrations")
    configuration.set_main_option("script_location", location.replace("%", "%%"))
    return configuration
