"""State shared by all requests of one application."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple, Unpack, cast

import anyio
import anyio.to_thread
from fastapi import FastAPI, Request

from superopt.server.http.job_feed import JobFeed
from superopt.server.http.rate_limits import TokenBuckets
from superopt.server.process.metrics import Metrics
from superopt.server.settings import Settings
from superopt.substitution_db import Database

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True)
class State:
    """Settings, database, stop flag, concurrency and rate limits, metrics."""

    settings: Settings
    database: Database
    stopping: threading.Event
    proofs: threading.BoundedSemaphore
    rates: TokenBuckets
    inspections: anyio.CapacityLimiter
    metrics: Metrics
    job_feed: JobFeed
    reads: anyio.CapacityLimiter
    """Threads for short reads of jobs and keys, apart from those that wait for disks or write locks."""
    intake: anyio.CapacityLimiter
    """Threads that process uploads; few, because each holds the interpreter lock at times."""
    proved: dict[int | None, int] = field(default_factory=dict[int | None, int])
    """Number of verified rules by library version, for the versions counted so far."""

    async def look(self, function: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
        """Calls a function with a short database read in a thread for reads."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self.reads)

    async def take_in(self, function: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
        """Calls a function that processes part of an upload in a thread for uploads."""
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self.intake)


def state_of(request: Request) -> State:
    """The state of the application that serves the request."""
    return shared_state(cast("FastAPI", request.app))


def shared_state(app: FastAPI) -> State:
    """The state of an application."""
    return cast("State", app.state.shared)
