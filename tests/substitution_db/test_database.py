from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from superopt.errors import InvalidFileError, InvalidOptionError, MissingServiceError
from superopt.substitution_db import Database, open_database, upgrade_database
from superopt.substitution_db.store.location import blob_directory
from superopt.substitution_db.store.location import database_url as resolved
from superopt.substitution_db.store.migrate import HEAD, REVISIONS, scripts
from superopt.substitution_db.store.models import Base


def test_the_migrations_make_what_the_models_say(database: Database) -> None:
    with database.transactions.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "render_as_batch": True})
        assert compare_metadata(context, Base.metadata) == []
    assert tuple(script.revision for script in scripts().walk_revisions())[::-1] == REVISIONS
    assert database.ping() == HEAD


def test_upgrade_is_repeatable(database_url: str) -> None:
    assert upgrade_database(database_url) == (None, HEAD)
    assert upgrade_database(database_url) == (HEAD, HEAD)


def test_a_statement_that_is_not_read_to_its_end_holds_nothing(database: Database, no_library: Path) -> None:
    statement = text("SELECT number FROM library_versions UNION SELECT 1 UNION SELECT 2")

    def break_off() -> None:
        with database.transactions.statement() as connection:
            result = connection.execute(statement)
            assert result.fetchone() is not None
            raise LookupError

    with pytest.raises(LookupError) as broken:
        break_off()
    with open_database(database.url, library=no_library) as other:
        other.activity.beat("w", None)
    for _ in range(3):
        database.keys.create("me")
    assert broken.traceback, "keeps what was being read"


def _open(url: str, library: Path, start: multiprocessing.synchronize.Barrier) -> None:
    start.wait()
    with open_database(url, library=library) as database:
        assert len(database.rules.list()) == 1


def test_several_processes_use_a_new_database_at_once(database_url: str, tmp_path: Path) -> None:
    library = tmp_path / "library.jsonl"
    library.write_text(
        '{"schema":1,"id":"17af882e6e7f2525","equation":"relu(relu(x)) => relu(x)",'
        '"operators_source":["relu","relu"],"operators_target":["relu"],"status":"candidate","proof":null,"provenance":"generated"}\n'
    )
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(3)
    processes = [spawn.Process(target=_open, args=(database_url, library, start)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]


WRITER = """
import sys
from superopt.substitution_db import open_database
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.store.records import JobFile, JobRole
database = open_database(sys.argv[1])
while True:
    blob = database.blobs.put_bytes(b"model")
    job = database.jobs.submit(NewJob("m", [JobFile(JobRole.MODEL, "m.onnx", blob.sha256, blob.bytes)]))
    database.costs.put(job.id, 1.0)
    print(job.id, flush=True)
"""


def test_kill_9_leaves_a_database_that_opens_with_every_accepted_job(
    database_url: str, no_library: Path
) -> None:
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, database_url], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert writer.stdout is not None
        accepted = [writer.stdout.readline().strip() for _ in range(5)]
        writer.send_signal(signal.SIGKILL)
        accepted += [line.strip() for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        writer.stdout.close()
        with open_database(database_url, library=no_library) as database:
            for identity in accepted:
                job = database.jobs.get(identity)
                assert job is not None
                assert database.blobs.path(job.files[0].sha256).read_bytes() == b"model"
            if database.url.startswith("sqlite"):
                with sqlite3.connect(database_url.removeprefix("sqlite:///")) as connection:
                    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                connection.close()


def test_sqlite_is_durable(tmp_path: Path, no_library: Path) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
    with (
        open_database(str(tmp_path / "x.db"), library=no_library) as database,
        database.transactions.engine.connect() as connection,
    ):
        settings = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30000}


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        ("rules.db", {}, f"sqlite:///{Path.cwd()}/rules.db"),
        ("/data/rules.db", {"SUPEROPT_DATABASE_URL": "other.db"}, "sqlite:////data/rules.db"),
        (None, {"SUPEROPT_DATABASE_URL": "sqlite:////data/x.db"}, "sqlite:////data/x.db"),
        ("postgresql://u:p@h/n", {}, "postgresql+psycopg://u:p@h/n"),
    ],
)
def test_where_the_database_is(text: str | None, environment: dict[str, str], expected: str) -> None:
    assert resolved(text, environment).render_as_string(hide_password=False) == expected


def test_where_the_database_is_by_default() -> None:
    url = resolved(None, {})
    assert (url.database or "").endswith("superopt/superopt.db")
    assert blob_directory(url, {}) == Path(f"{url.database}.blobs")
    assert blob_directory(url, {"SUPEROPT_BLOB_DIRECTORY": "/blobs"}) == Path("/blobs")


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("sqlite://", InvalidOptionError, "expected a file"),
        ("sqlite:///:memory:", InvalidOptionError, "expected a file"),
        ("mysql://localhost/x", InvalidOptionError, "expected sqlite or postgresql, got mysql"),
        ("nonsense", InvalidOptionError, "expected a file, as in ./nonsense or nonsense.db"),
        ("://", InvalidOptionError, "expected sqlite:///FILE"),
        ("{tmp}/text.db", InvalidFileError, "not an SQLite database"),
        ("{tmp}/other.db", InvalidFileError, "another program's tables"),
        ("{tmp}/newer.db", InvalidFileError, "revision 9999, unknown to this superopt"),
        ("{tmp}/directory", MissingServiceError, "cannot be used: unable to open"),
        ("{tmp}/text.db/x.db", InvalidOptionError, "cannot create its directory"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, url: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "text.db").write_text(
        "this is not a database, it is a text that is long enough to be read" * 20
    )
    (tmp_path / "directory").mkdir()
    for name, table in (("other", "notes (x)"), ("newer", "alembic_version (version_num)")):
        connection = sqlite3.connect(tmp_path / f"{name}.db")
        connection.execute(f"CREATE TABLE {table}")
        if name == "newer":
            connection.execute("INSERT INTO alembic_version VALUES ('9999')")
        connection.commit()
        connection.close()
    with pytest.raises(error, match=message) as caught:
        open_database(url.format(tmp=tmp_path))
    assert "\n" not in str(caught.value)


def test_postgresql_that_is_not_there_is_a_missing_service() -> None:
    pytest.importorskip("psycopg", reason="the driver is an extra")
    with pytest.raises(MissingServiceError, match="cannot be used"):
        open_database("postgresql://nobody:secret@127.0.0.1:1/none")
