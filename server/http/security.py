"""Authentication and authorisation: API keys as bearer tokens; without keys, loopback clients only."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from fastapi import Request

from superopt.server.http.problems import Problem
from superopt.server.http.state import state_of
from superopt.server.problem_types import ProblemType
from superopt.substitution_db.store.keys import KeyExpiredError, KeyRepository
from superopt.substitution_db.store.records import ApiKey, JobOwner

Scope: TypeAlias = Literal["submit", "read", "admin"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request: the id of the API key (empty for loopback clients without keys), and whose jobs it
    may see (None for everybody's).
    """

    key: str = ""
    jobs: JobOwner | None = None


def require(scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency that returns the caller if its API key has the scope, or raises Problem."""

    async def caller(request: Request) -> Caller:
        _refuse_cross_site(request)
        _refuse_control_characters(request)
        state, token = state_of(request), _token(request)
        keys = state.database.keys
        key = _key_of(keys, token) if keys.remembers(token) else await state.look(_key_of, keys, token)
        if key is None:
            _refuse_remote(request)
            return Caller()
        if scope not in key.scopes and "admin" not in key.scopes:
            raise Problem(ProblemType.FORBIDDEN, f"the API key {key.name!r} lacks the scope {scope}")
        wait = state.rates.take(key.id)
        if wait:
            rate = state.settings.max_requests_per_second
            raise Problem(
                ProblemType.RATE,
                f"the API key {key.name!r} may send {rate:g} requests a second",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        return Caller(key.id, key.visible_jobs)

    return caller


async def local_or_keys(request: Request) -> None:
    """A dependency for routes without a key: rejects remote clients while no key exists."""
    _refuse_control_characters(request)
    state = state_of(request)
    keys = state.database.keys
    if not (keys.any_made() if keys.remembers_any_made() else await state.look(keys.any_made)):
        _refuse_remote(request)


def _key_of(keys: KeyRepository, token: str) -> ApiKey | None:
    """The API key of a token; None while no key exists. Raises Problem for an unknown token."""
    if not keys.any_made():
        return None
    try:
        key = keys.recognise(token)
    except KeyExpiredError as error:
        raise _unauthenticated(str(error)) from None
    if key is None:
        raise _unauthenticated(
            "the API key is missing, unknown or revoked; send it as Authorization: Bearer KEY"
        )
    return key


def _unauthenticated(detail: str) -> Problem:
    return Problem(ProblemType.UNAUTHENTICATED, detail, headers={"WWW-Authenticate": "Bearer"})


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _refuse_remote(request: Request) -> None:
    """Rejects remote clients, and local ones whose ``Host`` is not this machine (DNS rebinding)."""
    client = request.client.host if request.client else ""
    if not (is_loopback(client) and is_loopback(request.url.hostname or "")):
        raise Problem(
            ProblemType.REMOTE, "to serve other machines, create an API key with `superopt keys create NAME`"
        )


def _refuse_cross_site(request: Request) -> None:
    """Rejects cross-site requests, for example forms of other sites, by the ``Origin`` that browsers send."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise Problem(ProblemType.CROSS_SITE, f"cross-site requests from {origin} are not allowed")


def _refuse_control_characters(request: Request) -> None:
    """Rejects NUL characters, which PostgreSQL cannot compare."""
    if any(
        "\0" in text for text in (request.url.path, request.scope["path"], *request.query_params.values())
    ):
        raise Problem(ProblemType.BAD_REQUEST, "the URL contains a NUL character")


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, by name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
