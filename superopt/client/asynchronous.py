"""Asynchronous client: the methods of ``Client`` as coroutines and asynchronous iterators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import anyio
import httpx

from superopt.client import calls
from superopt.client.archives import temporary_beside, unpack
from superopt.client.calls import Call, EventReader, Page, Retries
from superopt.client.documents import Event, JsonObject, Judgement, Optimization, Substitution
from superopt.client.downloads import Download
from superopt.files import atomic_path

T = TypeVar("T")


class AsyncClient:
    """An asynchronous client of a service; see ``Client``. Close it, or use it in ``async with``."""

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._server = calls.checked_url(server)
        self._retries = retries or Retries()
        headers = calls.headers_of(key)
        self._http = httpx.AsyncClient(
            base_url=self._server, headers=headers, transport=transport, limits=calls.LIMITS
        )

    async def submit(
        self,
        model: str | Path,
        *,
        cluster: str | Path | bytes | None = None,
        options: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
    ) -> Optimization:
        """Submits a model with its external data; ``options`` as in ``OptimizationOptions`` of the service.

        ``cluster`` is a cluster description, as a path or bytes. Calls with the same ``idempotency_key``
        within a day return the same optimization; by default each call has its own key.
        """
        return await self._do(calls.submitting(model, cluster, options, idempotency_key))

    async def get(self, identity: str) -> Optimization:
        """Reads an optimization."""
        return await self._do(calls.getting(identity))

    def list(self, *, state: str | None = None) -> AsyncIterator[Optimization]:
        """Optimizations, optionally in one state, newest first; fetched page by page."""
        return self._pages(calls.listing(state))

    async def cancel(self, identity: str) -> Optimization:
        """Cancels an optimization; no effect on one that has ended."""
        return await self._do(calls.cancelling(identity))

    async def events(self, identity: str, *, after: int = 0) -> AsyncIterator[Event]:
        """The events of an optimization after the event ``after``, until it ends."""
        reader, failures = EventReader(after), 0
        while True:
            try:
                async for event in self._stream(identity, reader):
                    failures = 0
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
        """Waits until an optimization has ended, in any state; reconnects broken connections."""
        async for event in self.events(identity):
            on_event(event)
        return await self.get(identity)

    async def report(self, identity: str) -> JsonObject:
        """The report of a succeeded optimization."""
        return await self._do(calls.reporting(identity))

    async def download_model(self, identity: str, path: str | Path) -> int:
        """Writes the optimised model (an archive if it has external data); returns its size in bytes.

        The file appears atomically; interrupted downloads are resumed.
        """
        return await self._download(f"/v1/optimizations/{identity}/model", Path(path))

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
        return await self._download(f"/v1/optimizations/{identity}/report", Path(path))

    def substitutions(
        self, *, status: str | None = None, operator: str | None = None, text: str | None = None
    ) -> AsyncIterator[Substitution]:
        """The service's rules, smallest first; fetched page by page."""
        return self._pages(calls.browsing(status, operator, text))

    async def prove(self, equation: str) -> Judgement:
        """The service's verdict on an equation."""
        return await self._do(calls.proving(equation))

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _do(self, call: Call[T]) -> T:
        return calls.answer(call, await self._sent(call))

    async def _sent(self, call: Call[T]) -> httpx.Response:
        attempt = 0
        while True:
            attempt += 1
            try:
                with ExitStack() as files:
                    response = await self._http.send(call.request(self._http, files))
            except httpx.TransportError as error:
                await self._wait_or_raise(attempt, error)
                continue
            if calls.is_in_flight(response):
                attempt = min(attempt, self._retries.attempts - 1)
            pause = self._retries.pause(attempt, response.headers.get("Retry-After"))
            if not calls.is_temporary(response) or pause is None:
                return response
            await anyio.sleep(pause)

    async def _pages(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self._do(following)
            for item in page.items:
                yield item
            following = page.next

    async def _stream(self, identity: str, reader: EventReader) -> AsyncIterator[Event]:
        url = f"/v1/optimizations/{identity}/events"
        async with self._http.stream("GET", url, headers=reader.headers, timeout=calls.TIMEOUT) as response:
            if not response.is_success:
                await response.aread()
                calls.raise_problem(response)
            async for line in response.aiter_lines():
                event = reader.read(line)
                if event is not None:
                    yield event

    async def _download(self, url: str, path: Path) -> int:
        with atomic_path(path) as part, part.open("r+b") as file:
            download, failures = Download(file), 0
            while True:
                before = download.bytes
                try:
                    await self._fetch(url, download)
                    break
                except calls.BREAKS as error:
                    failures = 1 if download.bytes > before else failures + 1
                    await self._wait_or_raise(failures, error)
            download.finish()
            return download.bytes

    async def _fetch(self, url: str, download: Download) -> None:
        async with self._http.stream("GET", url, headers=download.headers, timeout=calls.TIMEOUT) as response:
            if not response.is_success:
                await response.aread()
                calls.raise_problem(response)
            download.begin(response)
            async for chunk in response.aiter_bytes():
                download.write(chunk)

    async def _wait_or_raise(self, attempt: int, error: Exception) -> None:
        pause = self._retries.pause(attempt)
        if pause is None:
            calls.give_up(self._server, error)
        await anyio.sleep(pause)
