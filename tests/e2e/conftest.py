"""What whole journeys share: a database of their own, and the command line as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
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

    def run(*arguments: str | Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "superopt", *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
