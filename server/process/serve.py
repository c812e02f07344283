"""The service on one machine: an HTTP server and its worker processes."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from superopt.errors import InvalidOptionError, MissingServiceError
from superopt.processes import logs
from superopt.processes.supervised import Supervised
from superopt.server.http.app import create_app
from superopt.server.http.protocol import BoundedHttp
from superopt.server.http.security import is_loopback
from superopt.server.http.state import shared_state
from superopt.server.process.background import beside
from superopt.server.process.key_uses import record_key_uses
from superopt.server.process.tls import Tls
from superopt.server.process.tracing import traces_of_environment
from superopt.server.settings import Settings, misspelt
from superopt.server.worker.device import this_device
from superopt.substitution_db import open_database
from superopt.substitution_db.rules.currency import current

_WORKER = "superopt.server.worker.loop"
_RESTART_SECONDS = 1.0
_BACKLOG = 2048
_SWITCH_SECONDS = 0.001
"""Interpreter switch interval, so that threads that process uploads do not delay responses."""

_log = logging.getLogger(__name__)


def serve(
    host: str = "127.0.0.1",
    port: int = 8080,
    workers: int = 1,
    database_url: str | None = None,
    settings: Settings | None = None,
    tls: Tls | None = None,
) -> None:
    """Serves HTTP, or HTTPS with ``tls``, and runs jobs until SIGTERM or SIGINT; then requests and workers
    may finish.

    ``port`` 0 selects a free port. With 0 workers it only serves HTTP; ``superopt worker`` runs jobs
    elsewhere. Raises InvalidOptionError (also if the address cannot be bound) and MissingServiceError.
    """
    settings = settings or Settings.from_environment()
    with open_database(database_url) as database, traces_of_environment("superopt-server") as traces:
        database.rules.refresh(current())
        database.blobs.free_bytes()  # raises an error for a directory that cannot be used
        app = create_app(settings, database, traces)
        configuration = http_configuration(app, int(settings.shutdown_seconds), tls)
        server = _Server(configuration, shared_state(app).stopping)
        listening = _listening(host, port)
        logs.configure(settings.log_format, settings.log_level, "server")
        for name, near in misspelt(os.environ).items():
            _log.warning("%s is no setting and is ignored; did you mean %s?", name, near)
        _say_where("http" if tls is None else "https", host, listening)
        if not is_loopback(host) and not database.keys.any_made():
            _log.warning(
                "no API key exists: only clients on this machine are served (superopt keys create NAME)"
            )
        threading.Thread(target=_look_around, daemon=True).start()
        uses = beside(partial(record_key_uses, database.keys))
        with listening, _stop_signals_kept(), _Workers(workers, database.url, settings), uses:
            gc.freeze()  # imported objects are permanent: exclude them from garbage collection
            sys.setswitchinterval(_SWITCH_SECONDS)
            server.run(sockets=[listening])


def _look_around() -> None:
    """Work done ahead of the first upload, so that it need not wait."""
    try:
        this_device()
    except MissingServiceError as error:
        _log.error("%s", error)


def http_configuration(app: FastAPI, shutdown_seconds: int, tls: Tls | None = None) -> uvicorn.Config:
    """The uvicorn configuration of the application. Raises InvalidOptionError."""
    context = None if tls is None else tls.context()
    return uvicorn.Config(
        app,
        http=BoundedHttp,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=shutdown_seconds,
        limit_concurrency=1000,
        forwarded_allow_ips=shared_state(app).settings.trusted_proxies,
        ssl_context_factory=None if context is None else lambda _config, _default: context,
    )


def _listening(host: str, port: int) -> socket.socket:
    """A listening socket. Raises InvalidOptionError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidOptionError(f"cannot listen on {host}, port {port}: {error.strerror}") from None


def _say_where(scheme: str, host: str, listening: socket.socket) -> None:
    shown = f"[{host}]" if listening.family is socket.AF_INET6 else host
    port = listening.getsockname()[1]
    _log.info("superopt running on %s://%s:%d (Ctrl-C ends it)", scheme, shown, port)


@contextmanager
def _stop_signals_kept() -> Generator[None]:
    """Ignores the stop signal that the HTTP server raises again after it has ended."""
    before = {number: signal.signal(number, _ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass


class _Server(uvicorn.Server):
    """HTTP server that ends open event streams when it is told to stop."""

    def __init__(self, configuration: uvicorn.Config, stopping: threading.Event) -> None:
        super().__init__(configuration)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._stopping.set()
        super().handle_exit(sig, frame)


class _Workers:
    """Worker processes: dead ones are replaced, and none outlives this process.

    Unlike the processes of a pool they take their work from the database; one whose channel closes finishes
    or requeues its job and ends.
    """

    def __init__(self, count: int, database_url: str, settings: Settings) -> None:
        self._count = count
        self._environment = {**settings.to_environment(), "SUPEROPT_DATABASE_URL": database_url}
        self._grace = settings.shutdown_seconds + settings.cancel_seconds
        self._stopping = threading.Event()
        self._processes: list[Supervised] = []
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._processes = [self._start() for _ in range(self._count)]
        self._watcher.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._watcher.join()
        deadline = time.monotonic() + self._grace
        for process in self._processes:
            process.channel.close()
        for process in self._processes:
            process.exit_code(max(0.0, deadline - time.monotonic()))
            process.end()

    def _watch(self) -> None:
        while not self._stopping.wait(_RESTART_SECONDS):
            for index, process in enumerate(self._processes):
                code = process.exit_code(0)
                if code is not None:
                    _log.error("a worker ended with %s; starting a new one", code)
                    process.end()
                    self._processes[index] = self._start()

    def _start(self) -> Supervised:
        return Supervised(_WORKER, environment=self._environment)
