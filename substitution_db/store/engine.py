"""Database engine and transactions: SQLite, durable and shared by processes, or PostgreSQL.

SQLite: WAL, ``synchronous=FULL`` (a committed job is on disk), foreign keys, ``busy_timeout`` (how long a
writer waits for another). Write transactions take the write lock when they begin, so that they cannot
deadlock; those of one process queue on a fair lock, because SQLite polls with growing pauses.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from select import POLLIN, poll
from typing import IO, TYPE_CHECKING, cast

from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import (
    DatabaseError,
    DBAPIError,
    InterfaceError,
    InvalidatePoolError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from superopt.errors import InvalidFileError, InvalidOptionError, MissingServiceError

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

    from superopt.substitution_db.store.models import Base

BUSY_TIMEOUT_SECONDS = 30
_KEPT = 20
_CONNECTIONS = 52
"""One connection per server thread that uses the database: 40, 8 for status reads, 4 for uploads."""

ELSEWHERE = "give --database FILE, or set SUPEROPT_DATABASE_URL"
"""How to use another database."""

_BEGIN = "sqlite_begin"
_NONE = "NONE"
_LOCK_NUMBER = 0x5355_5045  # advisory locks of PostgreSQL: for migrations,
_BLOB_LOCK_NUMBER = 0x5355_5046  # and between users and removers of blobs
_PG_DISK_FULL = "53100"


class DatabaseUnavailableError(MissingServiceError):
    """The database does not answer, or not in time."""


class DatabaseFullError(MissingServiceError):
    """The database's disk is full."""


def connect(url: URL) -> Engine:
    """An engine for the database, which connects lazily. Creates the directory of an SQLite file.

    Raises InvalidOptionError if the directory cannot be created, MissingServiceError if PostgreSQL's driver
    is not installed.
    """
    if url.get_backend_name() == "sqlite":
        return _connect_sqlite(url)
    try:
        engine = create_engine(url, pool_size=_KEPT, max_overflow=_CONNECTIONS - _KEPT)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise MissingServiceError(
            f"PostgreSQL needs its driver ({error}): pip install 'superopt[postgres]'"
        ) from error
    event.listen(engine, "checkout", partial(_refuse_ended, engine.dialect))
    return engine


def _refuse_ended(dialect: Dialect, connection: DBAPIConnection, _record: object, _proxy: object) -> None:
    """Detects a pooled connection closed by the server: its socket is readable although no query is pending.
    Only then a query is sent to test it, which costs a round trip.
    """
    try:
        looked = poll()
        looked.register(cast("IO[bytes]", connection), POLLIN)
        if not looked.poll(0) or dialect.do_ping(connection):
            return
    except (dialect.loaded_dbapi.Error, OSError):
        pass
    raise InvalidatePoolError


def _connect_sqlite(url: URL) -> Engine:
    path = Path(url.database or "")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidOptionError(
            f"database {path}: cannot create its directory: {error.strerror}; {ELSEWHERE}"
        ) from error
    engine = create_engine(
        url,
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS},
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=60,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # transactions begin explicitly below, including DDL
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_SECONDS * 1000}")
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _use_wal(cursor: sqlite3.Cursor) -> None:
    """Switches to WAL, retrying until the busy timeout, which the switch itself ignores."""
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    kind = connection.get_execution_options().get(_BEGIN, "DEFERRED")
    if kind != _NONE:
        connection.exec_driver_sql(f"BEGIN {kind}")


class Transactions:
    """Sessions on one engine; everything in a ``with`` block is one transaction."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writer = engine.execution_options(**{_BEGIN: "IMMEDIATE"})
        self._turn = threading.Lock() if engine.dialect.name == "sqlite" else None
        alone = {"isolation_level": "AUTOCOMMIT"} if self._turn is None else {_BEGIN: _NONE}
        self._single = engine.execution_options(**alone)

    @contextmanager
    def read(self) -> Generator[Session]:
        """A read-only transaction; never waits for writers."""
        with named_failures(self.engine.url), Session(self.engine) as session, session.begin():
            yield session

    @contextmanager
    def statement(self) -> Generator[Connection]:
        """A session for one reading statement without a transaction: one round trip.

        Must not be used for writing; use ``write``.
        """
        with named_failures(self.engine.url), self._single.connect() as connection:
            try:
                yield connection
            except BaseException:
                connection.invalidate()  # an unread result would keep an old snapshot of the database open
                raise

    @contextmanager
    def write(self) -> Generator[Session]:
        """A write transaction; commits at the end of the block, rolls back on an exception."""
        with (
            self._in_turn(),
            named_failures(self.engine.url),
            Session(self._writer, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def exclusive(self) -> Generator[Connection]:
        """A transaction exclusive among all processes, for migrations and loading the library."""
        with self._in_turn(), named_failures(self.engine.url), self._writer.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK_NUMBER)))
            yield connection

    def _in_turn(self) -> AbstractContextManager[object]:
        return nullcontext() if self._turn is None else _one_at_a_time(self._turn)


@contextmanager
def _one_at_a_time(turn: threading.Lock) -> Generator[None]:
    if not turn.acquire(timeout=BUSY_TIMEOUT_SECONDS):
        raise DatabaseUnavailableError(
            f"the database is locked: no write lock within {BUSY_TIMEOUT_SECONDS} s"
        )
    try:
        yield
    finally:
        turn.release()


def now(session: Session) -> datetime:
    """The time by the database's clock, the same for workers on all machines."""
    if session.get_bind().dialect.name == "postgresql":
        return session.execute(select(func.clock_timestamp())).scalar_one().astimezone(UTC)
    return datetime.now(UTC)


def keep_blobs(session: Session) -> None:
    """Prevents the removal of blobs until the end of the write transaction."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock_shared(_BLOB_LOCK_NUMBER)))


def own_blobs(session: Session) -> None:
    """Prevents new references to blobs until the end of the write transaction."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(_BLOB_LOCK_NUMBER)))


@contextmanager
def named_failures(url: URL) -> Generator[None]:
    """Turns database exceptions into errors of superopt with a one-line message."""
    shown = url.database if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    try:
        yield
    except PoolTimeoutError as error:
        raise DatabaseUnavailableError(f"database {shown}: all connections are in use") from error
    except (OperationalError, InterfaceError) as error:
        kind = DatabaseFullError if _is_full(error.orig) else DatabaseUnavailableError
        advice = f"; {ELSEWHERE}" if _is_unwritable(error.orig) else ""
        raise kind(f"database {shown} cannot be used: {_first_line(error)}{advice}") from error
    except DatabaseError as error:
        if error.connection_invalidated:
            raise DatabaseUnavailableError(
                f"database {shown} cannot be used: {_first_line(error)}"
            ) from error
        if isinstance(error.orig, sqlite3.DatabaseError) and error.orig.sqlite_errorcode in (
            sqlite3.SQLITE_NOTADB,
            sqlite3.SQLITE_CORRUPT,
        ):
            raise InvalidFileError(
                f"database {shown} is not an SQLite database, or is damaged: {error.orig}"
            ) from error
        raise


def _is_full(error: BaseException | None) -> bool:
    if isinstance(error, sqlite3.Error):
        return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL
    return getattr(error, "sqlstate", None) == _PG_DISK_FULL


def _is_unwritable(error: BaseException | None) -> bool:
    codes = sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF in codes


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]


def upsert(session: Session, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
    """An INSERT in the database's dialect, for ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    if session.get_bind().dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # takes long to import, and most databases are SQLite

        return postgresql.insert(table)
    return sqlite.insert(table)
