"""Readiness checks of the service for ``/readyz``."""

from __future__ import annotations

from superopt.errors import SuperoptError
from superopt.server.http.documents import Check
from superopt.server.http.state import State
from superopt.substitution_db import Database
from superopt.substitution_db.rules.currency import current

_MEBIBYTE = 1 << 20


def readiness(state: State) -> dict[str, Check]:
    """The result of each check by name; without a database, checks that need it are omitted."""
    checks = {"database": _database(state.database)}
    if checks["database"].ok:
        checks |= {"migrations": _migrations(state.database), "library": _library(state)}
    return {**checks, "disk": _disk(state), "running": _running(state)}


def _database(database: Database) -> Check:
    try:
        database.ping()
    except SuperoptError as error:
        return Check(ok=False, detail=f"the database is not available ({type(error).__name__})")
    return Check(ok=True, detail="it answers")


def _migrations(database: Database) -> Check:
    try:
        revision, usable = database.ping(), database.is_migrated()
    except SuperoptError as error:
        return Check(ok=False, detail=f"the schema cannot be read ({type(error).__name__})")
    if usable:
        return Check(ok=True, detail=f"revision {revision}")
    return Check(ok=False, detail=f"revision {revision} is not the required one: superopt db upgrade")


def _library(state: State) -> Check:
    """Whether the current library version has rules whose proofs are valid for this code. Versions never
    change, so the result is cached per version.
    """
    try:
        version = state.database.library.in_force()
        number = None if version is None else version.number
        if number not in state.proved:
            state.proved[number] = len(state.database.library.read(current()).equations)
    except SuperoptError as error:
        return Check(ok=False, detail=f"the library cannot be read ({type(error).__name__})")
    count = state.proved[number]
    if count:
        return Check(ok=True, detail=f"version {number}: {count} verified rules")
    return Check(ok=False, detail=f"version {number} has no verified rules: superopt library verify")


def _disk(state: State) -> Check:
    needed = state.settings.min_free_bytes
    try:
        free = state.database.blobs.free_bytes()
    except (SuperoptError, OSError) as error:
        return Check(ok=False, detail=f"the blob directory cannot be used ({type(error).__name__})")
    detail = f"{free // _MEBIBYTE} MiB free, {needed // _MEBIBYTE} MiB needed"
    return Check(ok=free >= needed, detail=detail)


def _running(state: State) -> Check:
    stopping = state.stopping.is_set()
    return Check(ok=not stopping, detail="the service is stopping" if stopping else "requests are served")
