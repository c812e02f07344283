"""Asynchronous client: the methods of ``Client`` as coroutines and asynchronous iterators."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio
import httpx

from superopt.client import calls
from superopt.client.calls import Retries
from superopt.client.operations import Operations


class AsyncClient(Operations[httpx.AsyncClient]):
    """A superopt service at an address; see ``Client``. Close it, or use it in ``async with``."""

    def __init__(
        self,
        server: str,
        *,
        key: str | None = None,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        url, headers = calls.checked_url(server), calls.headers_of(key)
        http = httpx.AsyncClient(base_url=url, headers=headers, transport=transport, limits=calls.LIMITS)
        super().__init__(url, retries, http)

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        return await self._http.send(request, stream=True)

    async def _sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
