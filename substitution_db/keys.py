"""API keys: made, listed, revoked, recognised. Only a hash is stored; the secret is shown once."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from substitution_db.engine import Transactions, now
from substitution_db.models import ApiKeyRow
from substitution_db.records import ApiKey
from superopt.errors import InvalidOptionError

SCOPES = ("submit", "read", "admin")
_PREFIX = "superopt"


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made and its token, which cannot be shown again."""

    key: ApiKey
    token: str


class KeyRepository:
    """API keys by id."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def create(self, name: str, scopes: Sequence[str] = ("submit", "read")) -> NewKey:
        """Makes a key. Raises InvalidOptionError for an empty name or an unknown scope."""
        if not name.strip():
            raise InvalidOptionError("an API key needs a name")
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise InvalidOptionError(
                f"scopes: expected some of {', '.join(SCOPES)}, got {', '.join(unknown) or 'none'}"
            )
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        token = f"{_PREFIX}_{identity}_{secret}"
        with self._transactions.write() as session:
            row = ApiKeyRow(
                id=identity,
                name=name.strip(),
                sha256=_digest(token),
                scopes=sorted(set(scopes), key=SCOPES.index),
                created_at=now(session),
                revoked_at=None,
            )
            session.add(row)
            return NewKey(_key(row), token)

    def list(self) -> tuple[ApiKey, ...]:
        """All keys, revoked ones too, oldest first."""
        with self._transactions.read() as session:
            rows = session.scalars(select(ApiKeyRow).order_by(ApiKeyRow.created_at, ApiKeyRow.id))
            return tuple(_key(row) for row in rows)

    def revoke(self, identity: str) -> ApiKey:
        """Ends a key; doing it again changes nothing. Raises InvalidOptionError if there is no such key."""
        with self._transactions.write() as session:
            row = session.get(ApiKeyRow, identity)
            if row is None:
                raise InvalidOptionError(f"there is no API key {identity}")
            row.revoked_at = row.revoked_at or now(session)
            return _key(row)

    def any_made(self) -> bool:
        """Whether a key was ever made (revoking the last one does not open the service)."""
        with self._transactions.read() as session:
            return (session.scalar(select(func.count()).select_from(ApiKeyRow)) or 0) > 0

    def recognise(self, token: str) -> ApiKey | None:
        """The key that a token belongs to, unless it is revoked; compares in constant time."""
        parts = token.split("_", 2)
        identity = parts[1] if len(parts) == 3 and parts[0] == _PREFIX else ""
        with self._transactions.read() as session:
            row = session.get(ApiKeyRow, identity)
            known = row.sha256 if row is not None else _digest("")
            if not hmac.compare_digest(known, _digest(token)) or row is None or row.revoked_at is not None:
                return None
            return _key(row)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _key(row: ApiKeyRow) -> ApiKey:
    return ApiKey(row.id, row.name, tuple(row.scopes), row.created_at, row.revoked_at)
