"""The commands for operators of the service: API keys and the database."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from superopt.cli.lifetimes import lifetime
from superopt.cli.main import run
from superopt.errors import InvalidOptionError


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A database of its own, without rules."""
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", f"sqlite:///{tmp_path / 'service.db'}")
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)


def answer(words: str, capsys: pytest.CaptureFixture[str]) -> object:
    """What a command prints as JSON."""
    assert run([*words.split(), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"owner": None, "all_jobs": False, "scopes": ["submit", "read"], "expires_at": None}),
        ("--owner ada", {"owner": "ada", "all_jobs": False}),
        ("--all-jobs --scope read", {"all_jobs": True, "scopes": ["read"]}),
        ("--scope admin", {"all_jobs": True, "scopes": ["admin"]}),
    ],
)
def test_a_key_is_made_and_listed(
    options: str, expected: Mapping[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    made = answer(f"keys create ci {options}", capsys)
    assert isinstance(made, dict)
    assert made.pop("token").startswith(f"superopt_{made['id']}_")
    assert expected.items() <= made.items()
    assert answer("keys list", capsys) == [made]


def test_the_list_says_owner_expiry_and_last_use(capsys: pytest.CaptureFixture[str]) -> None:
    made = answer("keys create ci --owner ada --expires 30d", capsys)
    assert isinstance(made, dict)
    expires, created = (datetime.fromisoformat(made[name]) for name in ("expires_at", "created_at"))
    assert expires - created == timedelta(days=30)
    assert run(["keys", "list"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "id"
    for word in ("ci", "ada", "submit read", "own", f"{expires:%Y-%m-%d}", "never"):
        assert word in row


@pytest.mark.parametrize(
    ("text", "expected"), [("12h", timedelta(hours=12)), ("30d", timedelta(30)), ("8w", timedelta(56))]
)
def test_lifetimes(text: str, expected: timedelta) -> None:
    assert lifetime(text) == expected


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1y", "1.5d", "9999999d"])
def test_what_is_no_lifetime(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"expires: expected hours, days or weeks, .* got "):
        lifetime(text)


def test_a_wrong_lifetime_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["keys", "create", "ci", "--expires", "soon"]) == 2
    assert "expected hours, days or weeks" in capsys.readouterr().err
    assert answer("keys list", capsys) == []
