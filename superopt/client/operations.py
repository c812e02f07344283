"""The methods of both clients, as coroutines over a connection that suspends or blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

import httpx

from superopt.client import calls
from superopt.client.archives import temporary_beside, unpack
from superopt.client.calls import Call, Page, Retries
from superopt.client.documents import Event, JsonObject, Judgement, Optimization, Substitution
from superopt.client.downloads import Download
from superopt.files import atomic_path

T = TypeVar("T")
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)


class Operations(ABC, Generic[Http]):
    """The calls of a superopt service; a subclass sends requests, waits and closes."""

    def __init__(self, server: str, retries: Retries | None, http: Http) -> None:
        self._server = server
        self._retries = retries or Retries()
        self._http = http

    async def submit(
        self,
        model: str | Path,
        *,
        cluster: str | Path | bytes | None = None,
        options: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
    ) -> Optimization:
        """Submits a model with its external data; ``options`` as in ``OptimizationOptions`` of the service.

        ``cluster`` is a file that describes the devices to plan for, or such a description in bytes.
        The same ``idempotency_key`` within a day gives the same optimization; by default each call has its
        own.
        """
        return await self._do(calls.submitting(model, cluster, options, idempotency_key))

    async def get(self, identity: str) -> Optimization:
        """Reads an optimization."""
        return await self._do(calls.getting(identity))

    def list(self, *, state: str | None = None) -> AsyncGenerator[Optimization]:
        """All optimizations, or those in a state, newest first; read page by page."""
        return self._pages(calls.listing(state))

    async def cancel(self, identity: str) -> Optimization:
        """Cancels an optimization; nothing happens to one that has ended."""
        return await self._do(calls.cancelling(identity))

    async def events(self, identity: str, *, after: int = 0) -> AsyncGenerator[Event]:
        """What happened to an optimization behind the event ``after``, and happens, until it has ended."""
        url, failures = calls.path_of(identity, "events"), 0
        while True:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
            try:
                async with self._got(url, headers) as response, aclosing(calls.events_of(response)) as events:
                    async for event in events:
                        failures, after = 0, event.id
                        yield event
                        if event.final:
                            return
                if (await self.get(identity)).ended:
                    return
            except calls.BREAKS as error:
                failures += 1
                await self._wait_or_raise(failures, error)

    async def wait(
        self, identity: str, *, on_event: Callable[[Event], None] = lambda _: None
    ) -> Optimization:
        """Follows an optimization until it has ended, however; connections that break are made again."""
        async for event in self.events(identity):
            on_event(event)
        return await self.get(identity)

    async def report(self, identity: str) -> JsonObject:
        """The report of an optimization that succeeded."""
        return await self._do(calls.reporting(identity))

    async def download_model(self, identity: str, path: str | Path) -> int:
        """Writes the optimised model (an archive, when it has external data); returns its bytes.

        The file appears whole or not at all; broken connections are continued where they broke.
        """
        return await self._download(calls.path_of(identity, "model"), Path(path))

    async def save_model(self, identity: str, path: str | Path) -> tuple[Path, ...]:
        """Writes the optimised model to ``path``, its external data (if any) beside it; returns the files."""
        target = Path(path)
        result = (await self.get(identity)).file("result")
        if result is None or not result.name.endswith(".zip"):
            await self.download_model(identity, target)
            return (target,)
        with temporary_beside(target) as archive:
            await self.download_model(identity, archive)
            return unpack(archive, target)

    async def download_report(self, identity: str, path: str | Path) -> int:
        """Writes the report, as ``download_model`` does."""
        return await self._download(calls.path_of(identity, "report"), Path(path))

    def substitutions(
        self, *, status: str | None = None, operator: str | None = None, text: str | None = None
    ) -> AsyncGenerator[Substitution]:
        """The service's rules, smallest first; read page by page."""
        return self._pages(calls.browsing(status, operator, text))

    async def prove(self, equation: str) -> Judgement:
        """Has the service judge an equation."""
        return await self._do(calls.proving(equation))

    @abstractmethod
    async def close(self) -> None:
        """Closes all connections."""

    @abstractmethod
    async def _send(self, request: httpx.Request) -> httpx.Response:
        """The response with its body unread."""

    @abstractmethod
    async def _sleep(self, seconds: float) -> None: ...

    async def _do(self, call: Call[T]) -> T:
        attempt = 0
        while True:
            attempt += 1
            try:
                with ExitStack() as files:
                    response = await self._send(call.request(self._http, files))
                    async with aclosing(response):
                        await response.aread()
            except httpx.TransportError as error:
                await self._wait_or_raise(attempt, error)
                continue
            if calls.is_in_flight(response):
                attempt = min(attempt, self._retries.attempts - 1)
            pause = self._retries.pause(attempt, response.headers.get("Retry-After"))
            if not calls.is_temporary(response) or pause is None:
                return calls.answer(call, response)
            await self._sleep(pause)

    async def _pages(self, call: Call[Page[T]]) -> AsyncGenerator[T]:
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self._do(following)
            for item in page.items:
                yield item
            following = page.next

    async def _download(self, url: str, path: Path) -> int:
        with atomic_path(path) as part, part.open("r+b") as file:
            download, failures = Download(file), 0
            while True:
                before = download.bytes
                try:
                    async with self._got(url, download.headers) as response:
                        download.begin(response)
                        async for chunk in response.aiter_bytes():
                            download.write(chunk)
                    break
                except calls.BREAKS as error:
                    failures = 1 if download.bytes > before else failures + 1
                    await self._wait_or_raise(failures, error)
            download.finish()
            return download.bytes

    @asynccontextmanager
    async def _got(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[httpx.Response]:
        """A successful response whose body is still to be read; raises the error that another one is."""
        request = self._http.build_request("GET", url, headers=dict(headers), timeout=calls.TIMEOUT)
        async with aclosing(await self._send(request)) as response:
            if not response.is_success:
                await response.aread()
                calls.raise_problem(response)
            yield response

    async def _wait_or_raise(self, attempt: int, error: Exception) -> None:
        pause = self._retries.pause(attempt)
        if pause is None:
            calls.give_up(self._server, error)
        await self._sleep(pause)
