"""What all requests of one application share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import cast

import anyio
from fastapi import FastAPI, Request

from server.metrics import Metrics
from server.news import News
from server.rates import TokenBuckets
from server.settings import Settings
from substitution_db import Database


@dataclass(frozen=True)
class State:
    """The settings, the database, whether the service is stopping, what may be done at once or how often, and
    metrics.
    """

    settings: Settings
    database: Database
    stopping: threading.Event
    proofs: threading.BoundedSemaphore
    rates: TokenBuckets
    inspections: anyio.CapacityLimiter
    metrics: Metrics
    news: News
    proved: dict[int | None, int] = field(default_factory=dict[int | None, int])
    """Verified rules by version of the library, of those that were looked through."""
    _keyed: threading.Event = field(default_factory=threading.Event)

    def keys_made(self) -> bool:
        """Whether an API key was ever made; from then on every request needs one."""
        if not self._keyed.is_set() and self.database.keys.any_made():
            self._keyed.set()
        return self._keyed.is_set()


def state_of(request: Request) -> State:
    """The state of the application that serves the request."""
    return shared_state(cast("FastAPI", request.app))


def shared_state(app: FastAPI) -> State:
    """The state of an application."""
    return cast("State", app.state.shared)
