"""What whole journeys share: a database of their own, and the command line as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The process environment with a database that no other test uses."""
    database = tmp_path_factory.mktemp("database") / "superopt.db"
    return {**os.environ, "SUPEROPT_DATABASE_URL": f"sqlite:///{database}", "COLUMNS": "200"}


@pytest.fixture(scope="session")
def superopt(environment: dict[str, str]) -> CommandLine:
    """Runs ``superopt ARGUMENTS`` in a process of its own."""

    def run(*arguments: str | Path, timeout: float = 1200) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "superopt", *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@contextmanager
def serving(environment: dict[str, str], log: Path) -> Generator[str]:
    """A running service with its workers, by its address; ends it, which must succeed."""
    with log.open("w") as written:
        running = subprocess.Popen(
            [sys.executable, "-m", "superopt", "serve", "--port", "0"], env=environment, stderr=written
        )
        try:
            yield _address(running, log)
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(timeout=60) == 0, log.read_text()


def _address(running: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(600):
        found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
        if found:
            return found.group()
        try:
            running.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    pytest.fail(f"the service did not start: {log.read_text()}")
