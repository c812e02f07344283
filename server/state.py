"""What all requests of one application share."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import cast

from fastapi import FastAPI, Request

from server.settings import Settings
from substitution_db import Database


@dataclass
class Traffic:
    """Finished requests by method, route and status, and the seconds that they took."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter[tuple[str, str, int]])
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))


@dataclass(frozen=True)
class State:
    """The settings, the database, whether the service is stopping, and counts of requests."""

    settings: Settings
    database: Database
    stopping: threading.Event
    proofs: threading.BoundedSemaphore
    traffic: Traffic = field(default_factory=Traffic)


def state_of(request: Request) -> State:
    """The state of the application that serves the request."""
    return shared_state(cast("FastAPI", request.app))


def shared_state(app: FastAPI) -> State:
    """The state of an application."""
    return cast("State", app.state.shared)
