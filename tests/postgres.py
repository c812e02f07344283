"""A PostgreSQL server of our own: unprivileged, on a Unix socket, in a directory that goes with it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

_PROGRAMS = "/usr/lib/postgresql"
"""Where Debian installs each version, outside PATH."""


def programs() -> Path | None:
    """The directory of ``initdb``, ``postgres`` and ``pg_ctl``; None where they are not installed."""
    installed = sorted(Path(_PROGRAMS).glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    return installed[-1].parent if installed else None


class PostgresServer:
    """A running server; ``durable`` says whether commits survive what ends the machine (and cost that)."""

    def __init__(self, binaries: Path, *, durable: str = "off") -> None:
        self._binaries = binaries
        self._directory = Path(tempfile.mkdtemp(prefix="superopt-postgres-"))
        self._user = _unprivileged()
        if self._user is not None:
            shutil.chown(self._directory, self._user)
        self._options = (
            f"-k {self._directory} -c listen_addresses='' -c max_connections=200 -c fsync={durable}"
        )
        self._run(
            "initdb",
            "-A",
            "trust",
            "-U",
            "postgres",
            "--no-sync",
            "--no-instructions",
            "--locale=C",
            "-E",
            "UTF8",
        )
        self.start()
        self.admin = self.url("postgres")

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        self._run("pg_ctl", "-o", self._options, "-l", str(self._directory / "log"), "-w", "start")

    def stop(self, mode: str = "fast") -> None:
        """Ends it: ``fast`` closes all connections, ``immediate`` is a crash of the server."""
        self._run("pg_ctl", "-m", mode, "-w", "stop")

    def url(self, name: str) -> str:
        """The URL of a database."""
        return f"postgresql://postgres@/{name}?host={self._directory}"

    def new_database(self, template: str = "template0") -> str:
        """Makes a database; returns its name."""
        import psycopg

        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
        return name

    def remove(self) -> None:
        """Ends it and removes everything."""
        self.stop("immediate")
        shutil.rmtree(self._directory)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), "-D", str(self._directory / "data"), *arguments]
        done = subprocess.run(
            command,
            cwd=self._directory,
            user=self._user,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.strip()}")


def _unprivileged() -> str | None:
    """Who runs it: the server refuses to be root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
