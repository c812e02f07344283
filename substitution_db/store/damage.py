"""Finds rows of the library's tables that nothing of superopt can have written: a database is a stranger's
data, too, and SQLite stores any value in any column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import cast

from sqlalchemy import JSON, Column, inspect, select
from sqlalchemy.orm import Session

from superopt.errors import InvalidFileError
from superopt.substitution_db.store.engine import Transactions
from superopt.substitution_db.store.models import (
    Base,
    LibraryRow,
    LibraryVersionRow,
    ProofRow,
    RuleOperatorRow,
    RuleRow,
    SuspicionRow,
)

TABLES = (RuleRow, RuleOperatorRow, ProofRow, SuspicionRow, LibraryRow, LibraryVersionRow)
"""The tables that hold the library."""

_TEXTS = (RuleRow.generalizations, ProofRow.axioms_used, ProofRow.validated_shapes)
"""Columns of JSON that hold a list of strings; the others hold an object."""

_NAMES = {
    bool: "true or false",
    datetime: "a time",
    dict: "an object",
    float: "a number",
    int: "an integer",
    str: "text",
}
"""What columns hold, by the type of their values."""

_SHOWN = 60
"""How many characters of a value are shown."""


def require_undamaged(transactions: Transactions) -> None:
    """Raises InvalidFileError, which names table, row and column, if a row of the library has a value of
    another type than its column.
    """
    with transactions.read() as session:
        found = next(_damages(session), None)
    if found is not None:
        raise InvalidFileError(
            f"database {transactions.engine.url.database}, {found}; the row was edited, so that nothing is "
            "known about the library: restore a copy, or start a new database"
        )


def _damages(session: Session) -> Iterator[str]:
    for table in TABLES:
        key = [column.name for column in inspect(table).primary_key]
        for column in inspect(table).columns:
            for row, fault in _faults(session, table, key, cast("Column[object]", column)):
                where = ", ".join(f"{name} {value!r}" for name, value in zip(key, row, strict=True))
                yield f"table {table.__tablename__}, {where}: {column.name}: {fault}"


def _faults(
    session: Session, table: type[Base], key: Sequence[str], column: Column[object]
) -> Iterator[tuple[Sequence[object], str]]:
    """The keys of rows with a wrong value in a column, and what is wrong with it."""
    names = [table.__table__.c[name] for name in key]
    try:
        rows = session.execute(select(*names, column)).all()
    except (ValueError, TypeError):  # a text that is no JSON, or no time
        rows = None
    if rows is not None:
        faults = ((row[:-1], _fault(column, row[-1])) for row in rows)
        yield from ((identity, fault) for identity, fault in faults if fault)
        return
    for identity in session.execute(select(*names)).all():
        chosen = [name == value for name, value in zip(names, identity, strict=True)]
        try:
            session.execute(select(column).where(*chosen)).all()
        except (ValueError, TypeError) as error:
            yield identity, f"it cannot be read: {error}"


def _fault(column: Column[object], value: object) -> str:
    """How a value differs from what its column holds; empty if it does not."""
    if value is None:
        return "" if column.nullable else "expected a value, got null"
    if any(column is texts.property.columns[0] for texts in _TEXTS):
        return "" if _are_texts(value) else f"expected a list of strings, got {_shown(value)}"
    expected = dict if isinstance(column.type, JSON) else column.type.python_type
    accepted = (int, float) if expected is float else expected
    return "" if isinstance(value, accepted) else f"expected {_NAMES[expected]}, got {_shown(value)}"


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
