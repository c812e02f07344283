"""What all tests rely on."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from superopt.substitution_db import open_database
from superopt.substitution_db.rules.shipped import SHIPPED_LIBRARY
from tests import machine
from tests.postgres import PostgresServer, programs

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as in the product: some tests load the runtime first

os.environ["SUPEROPT_PROGRESS_SECONDS"] = "0"  # what commands print does not depend on how long they take

# Bytecode is written whatever the environment says: hundreds of tests start interpreters that read it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell ignores interrupts for what it runs in the background, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

BACKENDS = ("sqlite", "postgresql")

WithLibrary = Callable[[Path], str]
"""Puts a database with the shipped library at a path, and gives its URL."""


def pytest_collection_finish() -> None:
    """Keeps the tests themselves out of every garbage collection that follows."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says in one line each why tests were skipped, and how they can be run."""
    for line in machine.reasons(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of our own, started once."""
    binaries = programs()
    if binaries is None:
        pytest.skip("no PostgreSQL: apt-get install postgresql")
    server = PostgresServer(binaries)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def with_library(tmp_path_factory: pytest.TempPathFactory) -> WithLibrary:
    """Copies a database that was filled once, as every new one is."""
    filled = tmp_path_factory.mktemp("filled") / "rules.db"
    open_database(f"sqlite:///{filled}", library=SHIPPED_LIBRARY).close()

    def copied(path: Path) -> str:
        return f"sqlite:///{shutil.copy(filled, path)}"

    return copied


@pytest.fixture
def backend() -> str:
    """Which database a test runs on; modules that want both override it with ``BACKENDS``."""
    return "sqlite"


@pytest.fixture
def database_url(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The URL of a database that does not exist yet (SQLite) or is empty (PostgreSQL)."""
    monkeypatch.setenv("SUPEROPT_BLOB_DIRECTORY", str(tmp_path / "blobs"))
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/service.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.new_database())
