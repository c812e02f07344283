"""Executors of tasks: this process, a process pool, a Dask cluster."""

from __future__ import annotations

import logging
import math
import operator
import socket
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from superopt.errors import InvalidOptionError, MissingServiceError
from superopt.generator.run.usage import count_start
from superopt.processes.pool import Allowance, LostTaskError, Pool

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_CONNECT_SECONDS = 10.0
_AHEAD_PER_PROCESS = 2
_AHEAD_PER_THREAD = 2


@dataclass(frozen=True)
class Workers:
    """An executor; ``ahead`` submitted tasks keep all of its workers busy.

    ``apart``: tasks run in dedicated processes. ``lost`` are the exceptions that mean a lost worker rather
    than a failed task. ``check`` raises MissingServiceError if all workers are lost permanently. ``device``:
    what each of them computes values on, one of ``superopt.domains.arrays.DEVICES``.
    """

    executor: Executor
    ahead: int
    apart: bool
    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)
    check: Callable[[], None] = lambda: None
    device: str = "cpu"


def in_process() -> Workers:
    """Runs tasks in this process on submission."""
    return Workers(_InProcess(), 1, apart=False)


@contextmanager
def processes(jobs: int) -> Generator[Workers]:
    """``jobs`` processes of one thread each; a killed one is replaced.

    They end with the block and with this process. Raises InvalidOptionError for less than one.
    """
    if jobs < 1:
        raise InvalidOptionError(f"jobs: expected at least 1, got {jobs}")
    with Pool[Callable[[], object], object](
        operator.call,
        jobs,
        Allowance(seconds=math.inf, megabytes=None),
        begin=count_start,
        environment=dict.fromkeys(_ONE_THREAD, "1"),
    ) as pool:
        yield Workers(_Processes(pool), _AHEAD_PER_PROCESS * jobs, apart=True, lost=(LostTaskError,))


@contextmanager
def dask(address: str) -> Generator[Workers]:
    """The workers of the Dask scheduler at ``tcp://HOST:PORT``; tasks of lost workers are retried by others.

    Raises InvalidOptionError for an invalid address; MissingServiceError if Dask is not installed, or no
    scheduler with workers is reachable.
    """
    host, port = _host_and_port(address)
    try:
        import distributed
        from distributed.comm.core import CommClosedError
    except ImportError as error:
        raise MissingServiceError(
            f"a Dask scheduler needs Dask ({error}): install the extra [distributed]"
        ) from None
    logging.getLogger("distributed.client").setLevel(
        logging.CRITICAL
    )  # its messages are part of the errors raised here
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
        client = cast(
            "_Client",
            distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False),
        )
    except (OSError, ValueError) as error:
        raise MissingServiceError(f"no Dask scheduler at {address}: {error}") from None

    def check() -> None:
        if client.status == "closed":
            raise MissingServiceError(f"lost the connection to the Dask scheduler at {address}")

    try:
        threads = sum(client.nthreads().values())
        if not threads:
            raise MissingServiceError(f"the Dask scheduler at {address} has no workers")
        lost = (BrokenExecutor, distributed.KilledWorker, CommClosedError)
        ahead = _AHEAD_PER_THREAD * threads
        yield Workers(client.get_executor(pure=False), ahead, apart=True, lost=lost, check=check)
    finally:
        with suppress(OSError):
            client.close()


class _Client(Protocol):
    """The used part of Dask's client, with types."""

    @property
    def status(self) -> str: ...

    def nthreads(self) -> dict[str, int]: ...

    def get_executor(self, *, pure: bool) -> Executor: ...

    def close(self) -> None: ...


class _InProcess(Executor):
    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        future = Future[Result]()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it is the caller's who asks for the result
            future.set_exception(error)
        return future


class _Processes(Executor):
    """A pool of processes as an executor, for what knows executors only."""

    def __init__(self, pool: Pool[Callable[[], object], object]) -> None:
        self._pool = pool

    def submit(
        self, fn: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Future[Result]:
        return cast("Future[Result]", self._pool.submit(partial(fn, *args, **kwargs)))


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port is None:
        raise InvalidOptionError(f"scheduler {address!r}: expected an address like tcp://127.0.0.1:8786")
    return host, port
