"""From every earlier schema to the newest while old software reads and writes.

What old software does is what its own schema allows: here every table as it was then, and every column that
must be given.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import (
    JSON,
    Connection,
    DateTime,
    Engine,
    Float,
    Integer,
    MetaData,
    Table,
    insert,
    select,
    text,
)

from superopt import substitution_db
from superopt.errors import InvalidFileError
from superopt.substitution_db import open_database, upgrade_database
from superopt.substitution_db.store.engine import connect
from superopt.substitution_db.store.location import database_url as resolved
from superopt.substitution_db.store.migrate import HEAD, REVISIONS
from superopt.substitution_db.store.records import JobState

NAMES = {
    "state": "queued",
    "role": "model",
    "kind": "progress",
    "status": "verified",
    "verdict": "verified",
    "side": "source",
}
COUNTED = {("jobs", "number"), ("job_events", "id"), ("proofs", "id"), ("library_versions", "number")}
ONE_ROW = {"library", "schema_support"}
Row = Mapping[str, object]


def migrate(engine: Engine, revision: str) -> None:
    configuration = Config()
    configuration.set_main_option(
        "script_location", str(Path(substitution_db.__file__).parent / "store" / "migrations")
    )
    with engine.begin() as connection:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)


def tables_of(engine: Engine) -> tuple[Table, ...]:
    """The tables as they are, those that others refer to first."""
    metadata = MetaData()
    metadata.reflect(engine)
    return tuple(table for table in metadata.sorted_tables if table.name != "alembic_version")


def write(connection: Connection, tables: tuple[Table, ...], number: int) -> None:
    """A row in every table, with a value for each column that has to be given."""
    for table in tables:
        if table.name in ONE_ROW and number > 1:
            continue
        given = [c for c in table.columns if not c.nullable and (table.name, c.name) not in COUNTED]
        values = {column.name: _value(column.name, column.type, number) for column in given}
        connection.execute(insert(table).values(values))


def _value(name: str, kind: object, number: int) -> object:
    if name in NAMES:
        return NAMES[name]
    if isinstance(kind, Integer):
        return number
    if isinstance(kind, Float):
        return float(number)
    if isinstance(kind, DateTime):
        return datetime(2026, 1, 1, tzinfo=UTC)
    return [] if isinstance(kind, JSON) else f"{number:06}"


def read(connection: Connection, tables: tuple[Table, ...]) -> dict[str, list[Row]]:
    return {
        table.name: [
            dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()
        ]
        for table in tables
    }


class OldSoftware:
    """Reads and writes by the schema that it knows, again and again, until its block ends."""

    def __init__(self, engine: Engine, tables: tuple[Table, ...], first: int) -> None:
        self.engine, self.tables, self.number = engine, tables, first
        self.failures: list[Exception] = []
        self._end = threading.Event()
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> OldSoftware:
        self._thread.start()
        self._began.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def step(self) -> None:
        with self.engine.begin() as connection:
            write(connection, self.tables, self.number)
        with self.engine.connect() as connection:
            assert len(read(connection, self.tables)["jobs"]) == self.number
        self.number += 1

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
                self.failures.append(error)
                return
            finally:
                self._began.set()


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_old_software_works_on_while_and_after_the_schema_is_migrated(
    revision: str, database_url: str, no_library: Path
) -> None:
    engine = connect(resolved(database_url))
    migrate(engine, revision)
    tables = tables_of(engine)
    if "schema_support" in {table.name for table in tables}:
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM schema_support"))
    with engine.begin() as connection:
        for number in (1, 2, 3):
            write(connection, tables, number)
    with engine.connect() as connection:
        before = read(connection, tables)
    with OldSoftware(engine, tables, 4) as old:
        assert upgrade_database(database_url) == (revision, HEAD)
    assert old.failures == []
    old.step()
    with engine.connect() as connection:
        after = read(connection, tables)
    for name, rows in before.items():
        assert after[name][: len(rows)] == rows, f"rows of {name} are as they were"
    engine.dispose()
    with open_database(database_url, library=no_library) as opened:
        assert opened.is_migrated()
        assert opened.jobs.counts()[JobState.QUEUED] == old.number - 1
        lease = opened.queue("new").claim()
        assert lease is not None
        assert [file.name for file in lease.job.files] == ["000001"]


def test_software_works_on_a_later_schema_that_admits_it(database_url: str, no_library: Path) -> None:
    with open_database(database_url, library=no_library) as opened:
        with opened.transactions.engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        assert opened.is_migrated()
        with open_database(database_url, library=no_library) as again:
            assert again.ping() == "9999"
        assert upgrade_database(database_url) == ("9999", "9999")
        with opened.transactions.engine.begin() as connection:
            connection.execute(text("UPDATE schema_support SET oldest_code = '9998'"))
        assert not opened.is_migrated()
    with pytest.raises(InvalidFileError, match="revision 9999, unknown to this superopt"):
        upgrade_database(database_url)
