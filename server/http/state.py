"""What all requests of one application share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple, Unpack, cast

import anyio
import anyio.to_thread
from fastapi import FastAPI, Request

from superopt.server.http.job_feed import News
from superopt.server.http.rate_limits import TokenBuckets
from superopt.server.process.metrics import Metrics
from superopt.server.settings import Settings
from superopt.substitution_db import Database

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


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
    reads: anyio.CapacityLimiter
    """Threads that look at jobs and keys: never behind those that wait for a disk, or for a writer's turn."""
    intake: anyio.CapacityLimiter
    """Threads that take in uploads: few, for each of them keeps all else from going on now and then."""
    proved: dict[int | None, int] = field(default_factory=dict[int | None, int])
    """Verified rules by version of the library, of those that were looked through."""

    async def look(self, function: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
        """Calls a function that reads little of the database, in a thread for that."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self.reads)

    async def take_in(self, function: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
        """Calls a function that does part of taking in an upload, in a thread for that."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self.intake)


def state_of(request: Request) -> State:
    """The state of the application that serves the request."""
    return shared_state(cast("FastAPI", request.app))


def shared_state(app: FastAPI) -> State:
    """The state of an application."""
    return cast("State", app.state.shared)
