"""A fresh database per test: SQLite always, PostgreSQL too where its programs and driver are installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from substitution_db import Database, open_database
from superopt.equations import parse_equation
from superopt.ir.terms import Equation

BACKENDS = ["sqlite"]
if shutil.which("initdb") and shutil.which("pg_ctl") and importlib.util.find_spec("psycopg"):
    BACKENDS.append("postgresql")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A PostgreSQL of our own on a Unix socket; its URL lacks the name of a database."""
    directory = Path(tempfile.mkdtemp(prefix="superopt-postgres-"))
    data = directory / "data"
    user: dict[str, str] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = {"user": "postgres"}
        shutil.chown(directory, "postgres")
    initialise = ["initdb", "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync"]
    subprocess.run(initialise, check=True, capture_output=True, cwd=directory, **user)
    options = f"-k {directory} -c listen_addresses='' -c fsync=off"
    log = ["-l", str(directory / "log"), "-w"]
    subprocess.run(
        ["pg_ctl", "-D", str(data), "-o", options, *log, "start"],
        check=True,
        cwd=directory,
        stdout=subprocess.DEVNULL,
        **user,
    )
    yield f"postgresql://postgres@/{{name}}?host={directory}"
    subprocess.run(
        ["pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop"],
        check=True,
        cwd=directory,
        stdout=subprocess.DEVNULL,
        **user,
    )
    shutil.rmtree(directory)


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a database that does not exist yet (SQLite) or is empty (PostgreSQL)."""
    monkeypatch.setenv("SUPEROPT_BLOB_DIRECTORY", str(tmp_path / "blobs"))
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rules.db"
    template: str = request.getfixturevalue("postgres_server")
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(template.format(name="postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return template.format(name=name)


@pytest.fixture
def no_library(tmp_path: Path) -> Path:
    """A path where no shipped library is."""
    return tmp_path / "no-library.jsonl"


@pytest.fixture
def database(database_url: str, no_library: Path) -> Iterator[Database]:
    """An open database without rules."""
    with open_database(database_url, library=no_library) as opened:
        yield opened


EQUATIONS = (
    "relu(relu(x)) => relu(x)",
    "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)",
    "concat[axis=-1](matmul(x, y), matmul(x, z)) <=> matmul(x, concat[axis=-1](y, z))",
    "add(x, y) <=> add(y, x)",
)


@pytest.fixture
def equations() -> tuple[Equation, ...]:
    """A few rules."""
    return tuple(map(parse_equation, EQUATIONS))
