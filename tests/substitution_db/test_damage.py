"""A row that somebody edited by hand is named, whatever stands in it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from superopt.cli.main import run
from superopt.equations import parse_equation, spelled
from superopt.journeys.library.discovery import verify_pending
from superopt.substitution_db import CandidateRule, open_database
from superopt.substitution_db.rules.currency import current

RULE = "concat[axis=1](relu(x), relu(y)) => relu(concat[axis=1](x, y)) where dim(x, 0) = dim(y, 0)"

EDITS = {
    "axioms_used that are no JSON": (
        "UPDATE proofs SET axioms_used = 'relu-of'",
        "table proofs, id 1: axioms_used: it cannot be read: ",
    ),
    "axioms_used that are a number": (
        "UPDATE proofs SET axioms_used = '7'",
        "table proofs, id 1: axioms_used: expected a list of strings, got 7",
    ),
    "axioms_used with a number": (
        "UPDATE proofs SET axioms_used = '[\"a\", 7]'",
        "table proofs, id 1: axioms_used: expected a list of strings, got ['a', 7]",
    ),
    "a certificate that is a list": (
        "UPDATE proofs SET certificate = '[]'",
        "table proofs, id 1: certificate: expected an object, got []",
    ),
    "a certificate that is cut": (
        "UPDATE proofs SET certificate = substr(certificate, 1, 40)",
        "table proofs, id 1: certificate: it cannot be read: ",
    ),
    "a time that is none": (
        "UPDATE proofs SET proved_at = 'yesterday'",
        "table proofs, id 1: proved_at: it cannot be read: ",
    ),
    "milliseconds that are text": (
        "UPDATE proofs SET milliseconds = 'long'",
        "table proofs, id 1: milliseconds: expected a number, got 'long'",
    ),
    "a text that is binary": (
        "UPDATE rules SET equation = x'00ff'",
        "equation: expected text, got b'\\x00\\xff'",
    ),
    "an occurrence that is text": (
        "UPDATE rule_operators SET occurrences = 'two' WHERE operator = 'concat'",
        "operator 'concat': occurrences: expected an integer, got 'two'",
    ),
    "generalizations that are no texts": (
        "UPDATE rules SET generalizations = '{}'",
        "generalizations: expected a list of strings, got {}",
    ),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one proved rule."""
    path = tmp_path_factory.mktemp("honest") / "rules.db"
    with open_database(str(path), library=path.with_name("none")) as database:
        database.rules.add_candidates([CandidateRule(spelled(parse_equation(RULE)), "test")])
        assert verify_pending(database).verified == 1
        database.library.publish(current(), "test")
        database.rules.refresh(current())
    return path


@pytest.fixture
def path(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the database, with no other library."""
    monkeypatch.setenv("SUPEROPT_LIBRARY", os.devnull)
    return Path(shutil.copy(honest, tmp_path / "rules.db"))


def edit(path: Path, statement: str) -> None:
    """Edits rows as somebody does who means no good."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement)


def test_the_honest_one_passes(path: Path) -> None:
    assert run(["gate", "--database", str(path)]) == 0


@pytest.mark.parametrize("quick", [[], ["--quick"]])
@pytest.mark.parametrize("name", EDITS)
def test_a_damaged_row_is_named(
    path: Path, capsys: pytest.CaptureFixture[str], name: str, quick: list[str]
) -> None:
    statement, said = EDITS[name]
    edit(path, statement)
    assert run(["gate", "--database", str(path), *quick]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"superopt: database {path}, table ")
    assert said in line


def test_conditions_are_those_of_the_equation(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(path, "UPDATE rules SET conditions = ''")
    assert run(["gate", "--database", str(path)]) == 1
    assert "it lists the conditions none, its equation has dim(x, 0) = dim(y, 0)" in capsys.readouterr().out
