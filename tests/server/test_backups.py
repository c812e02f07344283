"""A backup, made as docs/operations.md says, is restored: jobs, results and keys are as they were."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from superopt.server.http.app import create_app
from superopt.server.settings import Settings
from superopt.substitution_db import Database, open_database, upgrade_database
from tests.server.conftest import Http

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
JOBS = "/v1/optimizations"


def test_a_backup_is_restored(
    http: Http,
    database: Database,
    settings: Settings,
    model: bytes,
    work: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = http.submit(model)
    work()
    (command,) = re.findall(r'`sqlite3 superopt\.db "(VACUUM INTO .*?)"`', PAGE)
    backup = tmp_path / "backup.db"
    with sqlite3.connect(database.url.removeprefix("sqlite:///")) as connection:
        connection.execute(command.replace("backup.db", str(backup)))
    shutil.copytree(
        database.blobs.directory, tmp_path / "copy", ignore=shutil.ignore_patterns("incoming", "work")
    )
    kept = http("GET", f"{JOBS}/{done}").json()
    database.keys.create("later")
    monkeypatch.setenv("SUPEROPT_BLOB_DIRECTORY", str(tmp_path / "copy"))
    before, after = upgrade_database(f"sqlite:///{backup}")
    assert before == after
    with open_database(f"sqlite:///{backup}", library=tmp_path / "none") as restored:
        again = Http(create_app(settings, restored))
        assert again("GET", f"{JOBS}/{done}").json() == kept
        assert again("GET", f"{JOBS}/{done}/model").content == model
        assert restored.keys.list() == ()
