"""A database of either kind, and work that is done by functions of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from superopt.server.worker import task
from superopt.substitution_db import Database, open_database
from tests.conftest import BACKENDS
from tests.crash.processes import NO_LIBRARY, ROOT, WORK


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """What is survived is survived on both."""
    return str(request.param)


@pytest.fixture
def database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """An open database without rules."""
    monkeypatch.setattr(task, "WORK", WORK)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with open_database(database_url, library=NO_LIBRARY) as opened:
        yield opened
