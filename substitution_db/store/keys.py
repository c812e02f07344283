"""API keys: creation, listing, revocation, expiry, authentication. Only hashes of tokens are stored.

Answers of the database are cached for ``REMEMBERED_SECONDS``, so that not every request queries it. Changes
by this process take effect at once, except for requests in progress.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from superopt.errors import InvalidOptionError, SuperoptError
from superopt.substitution_db.store.engine import Transactions, now
from superopt.substitution_db.store.models import ApiKeyRow
from superopt.substitution_db.store.records import ApiKey, JobsSeen

SCOPES = ("submit", "read", "admin")
DEFAULT_SCOPES = ("submit", "read")
REMEMBERED_SECONDS = 1.0
"""Cache lifetime: how long changes by another process may go unnoticed."""

_PREFIX = "superopt"
_OWNER_CHARACTERS = 255


class KeyExpiredError(SuperoptError):
    """The API key of a valid token has expired."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key and its token, which is not stored."""

    key: ApiKey
    token: str


@dataclass(frozen=True, slots=True)
class _Known:
    """A cached key, the hash of its token, and when it was read from the database."""

    key: ApiKey
    sha256: str
    seen: float


class KeyRepository:
    """API keys by id."""

    def __init__(self, transactions: Transactions, clock: Callable[[], float] = time.monotonic) -> None:
        self._transactions = transactions
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._made = False
        self._none_made_at = float("-inf")
        self._using = threading.Lock()
        self._used: set[str] = set()

    def create(
        self,
        name: str,
        scopes: Sequence[str] = DEFAULT_SCOPES,
        *,
        owner: str = "",
        lifetime: timedelta | None = None,
        sees: JobsSeen = JobsSeen.OWN,
    ) -> NewKey:
        """Creates a key, which expires after its lifetime.

        Raises InvalidOptionError for an empty name, a long owner, an unknown scope or an invalid lifetime.
        """
        _require_valid(name, scopes, owner)
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        token = f"{_PREFIX}_{identity}_{secret}"
        with self._transactions.write() as session:
            created = now(session)
            row = ApiKeyRow(
                id=identity,
                name=name.strip(),
                sha256=_digest(token),
                scopes=sorted(set(scopes), key=SCOPES.index),
                created_at=created,
                revoked_at=None,
                owner=owner.strip() or None,
                expires_at=None if lifetime is None else _end(created, lifetime),
                sees=str(sees),
            )
            session.add(row)
        self._made = True
        return NewKey(_key(row), token)

    def list(self) -> tuple[ApiKey, ...]:
        """All keys including revoked ones, oldest first."""
        with self._transactions.read() as session:
            rows = session.scalars(select(ApiKeyRow).order_by(ApiKeyRow.created_at, ApiKeyRow.id))
            return tuple(_key(row) for row in rows)

    def revoke(self, identity: str) -> ApiKey:
        """Revokes a key; idempotent. Raises InvalidOptionError for an unknown key."""
        with self._transactions.write() as session:
            row = session.get(ApiKeyRow, identity)
            if row is None:
                raise InvalidOptionError(f"there is no API key {identity}")
            row.revoked_at = row.revoked_at or now(session)
        self._known.pop(identity, None)
        return _key(row)

    def any_made(self) -> bool:
        """Whether a key was ever created. Revoked keys count: revoking the last one must not open the
        service.
        """
        if not self.remembers_any_made():
            asked = self._clock()
            with self._transactions.statement() as connection:
                found = connection.execute(_ANY).first() is not None
            self._made, self._none_made_at = self._made or found, asked
        return self._made

    def recognise(self, token: str) -> ApiKey | None:
        """The key of a token, None if unknown or revoked. Compares in constant time.

        Raises KeyExpiredError.
        """
        known = self._remembered(token)
        if known is not None:
            return self._used_now(known)
        identity, digest, asked = _identity(token), _digest(token), self._clock()
        with self._transactions.read() as session:
            row = session.get(ApiKeyRow, identity)
            stored = row.sha256 if row is not None else _digest("")
            if not hmac.compare_digest(stored, digest) or row is None or row.revoked_at is not None:
                return None
            _require_unexpired(session, row)
            self._known[identity] = _Known(_key(row), digest, asked)
            return self._used_now(_key(row))

    def record_uses(self) -> None:
        """Records the time of last use of the keys recognised since the last call."""
        with self._using:
            used, self._used = self._used, set()
        if not used:
            return
        try:
            with self._transactions.write() as session:
                mine = update(ApiKeyRow).where(ApiKeyRow.id.in_(sorted(used)))
                session.execute(mine.values(last_used_at=now(session)))
        except SuperoptError:
            with self._using:
                self._used |= used
            raise

    def remembers_any_made(self) -> bool:
        """Whether ``any_made`` can be answered from the cache."""
        return self._made or self._is_recent(self._none_made_at)

    def remembers(self, token: str) -> bool:
        """Whether ``recognise`` and ``any_made`` can be answered from the cache."""
        return self._remembered(token) is not None if self._made else self.remembers_any_made()

    def _used_now(self, key: ApiKey) -> ApiKey:
        with self._using:
            self._used.add(key.id)
        return key

    def _remembered(self, token: str) -> ApiKey | None:
        known = self._known.get(_identity(token))
        if known is None or not self._is_recent(known.seen):
            return None
        return known.key if hmac.compare_digest(known.sha256, _digest(token)) else None

    def _is_recent(self, seen: float) -> bool:
        return self._clock() - seen < REMEMBERED_SECONDS


_ANY = select(ApiKeyRow.id).limit(1)


def _identity(token: str) -> str:
    parts = token.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == _PREFIX else ""


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _require_valid(name: str, scopes: Sequence[str], owner: str) -> None:
    if not name.strip():
        raise InvalidOptionError("an API key needs a name")
    if len(owner.strip()) > _OWNER_CHARACTERS:
        raise InvalidOptionError(f"owner: expected at most {_OWNER_CHARACTERS} characters, got {len(owner)}")
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise InvalidOptionError(
            f"scopes: expected some of {', '.join(SCOPES)}, got {', '.join(unknown) or 'none'}"
        )


def _end(created: datetime, lifetime: timedelta) -> datetime:
    if lifetime <= timedelta():
        raise InvalidOptionError("expires: expected a positive time")
    try:
        return created + lifetime
    except OverflowError:
        raise InvalidOptionError("expires: expected a time before the year 10000") from None


def _require_unexpired(session: Session, row: ApiKeyRow) -> None:
    if row.expires_at is not None and row.expires_at <= now(session):
        raise KeyExpiredError(f"the API key {row.name!r} expired at {row.expires_at:%Y-%m-%d %H:%M} UTC")


def _key(row: ApiKeyRow) -> ApiKey:
    return ApiKey(
        row.id,
        row.name,
        tuple(row.scopes),
        row.created_at,
        row.revoked_at,
        row.owner or "",
        row.expires_at,
        row.last_used_at,
        JobsSeen.ALL if row.sees is None else JobsSeen(row.sees),
    )
