"""A client that blocks: it runs the coroutines of ``Operations`` over a blocking connection.

They never suspend, so they need no event loop and may run within one.
"""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar, cast

import httpx

from superopt.client import calls
from superopt.client.calls import Retries
from superopt.client.documents import Event, Optimization, Substitution
from superopt.client.operations import Operations

T = TypeVar("T")
P = ParamSpec("P")


class _Body(httpx.AsyncByteStream):
    """The body of a response, read by blocking."""

    def __init__(self, blocking: httpx.SyncByteStream) -> None:
        self._blocking = blocking

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._blocking:
            yield chunk

    async def aclose(self) -> None:
        self._blocking.close()


class _Blocking(Operations[httpx.Client]):
    """The operations, blocking wherever ``AsyncClient`` suspends."""

    async def close(self) -> None:
        self._http.close()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        response = self._http.send(request, stream=True)
        response.stream = _Body(cast("httpx.SyncByteStream", response.stream))
        return response

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def _finished(coroutine: Coroutine[object, None, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    raise RuntimeError("a coroutine over a blocking connection suspended")


def _iterated(items: AsyncGenerator[T]) -> Iterator[T]:
    """The items of a generator that never suspends, which is closed with the iterator."""
    try:
        while True:
            yield _finished(anext(items))
    except StopAsyncIteration:
        return
    finally:
        _finished(items.aclose())


def _blocking(
    method: Callable[Concatenate[_Blocking, P], Coroutine[object, None, T]],
) -> Callable[Concatenate[Client, P], T]:
    """The method that runs a coroutine of the operations to its end."""

    @functools.wraps(method)
    def blocking(self: Client, *args: P.args, **kwargs: P.kwargs) -> T:
        operations = self._operations  # pyright: ignore[reportPrivateUsage]
        return _finished(method(operations, *args, **kwargs))

    return blocking


class Client:
    """A client of the service at a URL such as ``http://127.0.0.1:8080``. Close it, or use it in ``with``.

    Every method raises ServerUnreachableError, ServerBusyError or a RequestError (``superopt.client.errors``)
    after as many attempts as ``retries`` allows. Retries never submit an optimization twice.
    """

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        url, headers = calls.checked_url(server), calls.headers_of(key)
        http = httpx.Client(base_url=url, headers=headers, transport=transport, limits=calls.LIMITS)
        self._operations = _Blocking(url, retries, http)

    submit = _blocking(_Blocking.submit)
    get = _blocking(_Blocking.get)
    cancel = _blocking(_Blocking.cancel)
    wait = _blocking(_Blocking.wait)
    report = _blocking(_Blocking.report)
    download_model = _blocking(_Blocking.download_model)
    save_model = _blocking(_Blocking.save_model)
    download_report = _blocking(_Blocking.download_report)
    prove = _blocking(_Blocking.prove)
    close = _blocking(_Blocking.close)

    def list(self, *, state: str | None = None) -> Iterator[Optimization]:
        """All optimizations, or those in a state, newest first; read page by page."""
        return _iterated(self._operations.list(state=state))

    def events(self, identity: str, *, after: int = 0) -> Iterator[Event]:
        """What happened to an optimization behind the event ``after``, and happens, until it has ended."""
        return _iterated(self._operations.events(identity, after=after))

    def substitutions(
        self, *, status: str | None = None, operator: str | None = None, text: str | None = None
    ) -> Iterator[Substitution]:
        """The service's rules, smallest first; read page by page."""
        return _iterated(self._operations.substitutions(status=status, operator=operator, text=text))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
