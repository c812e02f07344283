"""Library versions: verdicts are recorded continuously and published to new jobs atomically.

Proofs are append-only and numbered. A version is the number of the last proof that it includes: publishing
inserts a row, and a job that stores its version sees the same rules whatever is recorded or published later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Select, func, select, text
from sqlalchemy.orm import Session

from superopt.errors import InvalidOptionError
from superopt.substitution_db.rules.currency import Currency
from superopt.substitution_db.rules.repository import RuleRepository, verified_proofs
from superopt.substitution_db.store.engine import Transactions, now
from superopt.substitution_db.store.models import LibraryVersionRow, ProofRow
from superopt.substitution_db.store.records import LibraryVersion


@dataclass(frozen=True, slots=True)
class PublishedRules:
    """The equations of a library version by rule id, smallest first, and the hash of the set.

    ``version`` is its number. ``stale`` is the number of rules that are not among them because the software
    has changed since they were proved.
    """

    version: int | None
    sha256: str
    equations: Mapping[str, str]
    stale: int = 0


class LibraryVersions:
    """Versions by number; the one published last is current."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._rules = RuleRepository(transactions)

    def in_force(self) -> LibraryVersion | None:
        """The current version, used by new jobs; None before the first is published."""
        with self._transactions.read() as session:
            row = session.scalars(_newest()).first()
            return None if row is None else _version(row)

    def get(self, number: int) -> LibraryVersion | None:
        """The version with that number."""
        with self._transactions.read() as session:
            row = session.get(LibraryVersionRow, number)
            return None if row is None else _version(row)

    def read(self, currency: Currency, number: int | None = None) -> PublishedRules:
        """The rules of that version, by default of the current one. Includes rules whose proofs are no longer
        valid because the software has changed.
        """
        asked = None if number is None else self.get(number)
        stale = self._rules.stale_count(currency)
        if asked is not None:
            equations = self._rules.verified_equations(currency, asked)
            if digest(equations) == asked.sha256:
                return PublishedRules(asked.number, asked.sha256, equations, stale)
        version = self.in_force()
        equations = self._rules.verified_equations(currency, version)
        number = None if version is None else version.number
        return PublishedRules(number, digest(equations), equations, stale)

    def list(self) -> tuple[LibraryVersion, ...]:
        """All versions, newest first."""
        with self._transactions.read() as session:
            rows = session.scalars(select(LibraryVersionRow).order_by(LibraryVersionRow.number.desc()))
            return tuple(_version(row) for row in rows)

    def publish(self, currency: Currency, note: str) -> LibraryVersion:
        """Publishes all verdicts recorded so far, in one transaction; returns the current version if nothing
        changed.
        """
        with self._transactions.exclusive() as connection, Session(connection) as session, session.begin():
            return publish(session, currency, note)

    def renew(self, currency: Currency, note: str) -> LibraryVersion | None:
        """Publishes the current version without rules that have become suspect since."""
        with self._transactions.exclusive() as connection, Session(connection) as session, session.begin():
            newest = session.scalars(_newest()).first()
            return None if newest is None else _insert(session, currency, newest.through_proof, note)

    def restore(self, number: int, currency: Currency) -> LibraryVersion:
        """Publishes an earlier version again. Raises InvalidOptionError for an unknown number."""
        with self._transactions.exclusive() as connection, Session(connection) as session, session.begin():
            old = session.get(LibraryVersionRow, number)
            if old is None:
                raise InvalidOptionError(f"there is no version {number} of the library")
            return _insert(session, currency, old.through_proof, f"version {number} again")


def publish(session: Session, currency: Currency, note: str) -> LibraryVersion:
    """``LibraryVersions.publish`` within an exclusive transaction."""
    if session.get_bind().dialect.name == "postgresql":  # ids are assigned before commit
        session.execute(text("LOCK TABLE proofs IN SHARE MODE"))
    return _insert(session, currency, session.scalar(select(func.max(ProofRow.id))) or 0, note)


def digest(rules: Iterable[str]) -> str:
    """SHA-256 of a set of rules, given by id."""
    return hashlib.sha256("\n".join(sorted(rules)).encode()).hexdigest()


def _insert(session: Session, currency: Currency, through: int, note: str) -> LibraryVersion:
    rules = verified_proofs(session, currency, through)
    newest = session.scalars(_newest()).first()
    sha256 = digest(rules)
    if newest is not None and (newest.through_proof, newest.sha256) == (through, sha256):
        return _version(newest)
    row = LibraryVersionRow(
        through_proof=through, rules=len(rules), sha256=sha256, note=note, published_at=now(session)
    )
    session.add(row)
    session.flush()
    return _version(row)


def _newest() -> Select[LibraryVersionRow]:
    return select(LibraryVersionRow).order_by(LibraryVersionRow.number.desc()).limit(1)


def _version(row: LibraryVersionRow) -> LibraryVersion:
    return LibraryVersion(row.number, row.through_proof, row.rules, row.sha256, row.note, row.published_at)
