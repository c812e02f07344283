"""Requests, responses and retries of the API, independent of the transport."""

from __future__ import annotations

import json
import random
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Generic, NoReturn, TypeVar, cast
from urllib.parse import quote

import httpx
from httpx_sse import EventSource

from superopt.client.documents import Event, JsonObject, Judgement, Optimization, Problem, Substitution
from superopt.client.errors import ServerBusyError, ServerUnreachableError, error_of
from superopt.errors import InvalidOptionError
from superopt.onnx_io import external_locations

T = TypeVar("T")
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
_PROOF_SECONDS = 180.0
_UPLOAD_SECONDS = 600.0
TIMEOUT = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS)
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""No limit on connections, because each event stream holds one."""

BREAKS = (httpx.TransportError, ServerBusyError)
"""Exceptions after which a stream can be resumed."""

_AGAIN = frozenset((429, 502, 503, 504))
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_IN_FLIGHT = "/problems/idempotency-key-in-flight"


@dataclass(frozen=True, slots=True)
class Retries:
    """Retry policy: number of attempts and delays between them.

    The delay doubles from ``first_seconds`` up to ``most_seconds``, with jitter; ``Retry-After`` takes
    precedence if it is at most ``patience_seconds``.
    """

    attempts: int = 6
    first_seconds: float = 0.25
    most_seconds: float = 8.0
    patience_seconds: float = 60.0

    def pause(self, attempt: int, retry_after: str | None = None) -> float | None:
        """Seconds to wait after an attempt (counted from 1); None to give up."""
        if attempt >= self.attempts:
            return None
        if retry_after is not None and retry_after.isdigit():
            return float(retry_after) if float(retry_after) <= self.patience_seconds else None
        longest = min(self.most_seconds, self.first_seconds * 2 ** (attempt - 1))
        return longest * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Submission:
    """The files of an upload, reopened for each attempt."""

    model: Path
    cluster: Path | bytes | None
    options: JsonObject

    def parts(self, files: ExitStack) -> list[tuple[str, tuple[str, BinaryIO | bytes]]]:
        """The multipart files of the request, external data by location; closed with ``files``.

        Raises InvalidModelError for a model with missing external data.
        """
        parts: list[tuple[str, tuple[str, BinaryIO | bytes]]] = []
        for name, shown, path in self._files():
            parts.append((name, (shown, files.enter_context(_opened(path)))))
        if isinstance(self.cluster, bytes):
            parts.append(("cluster", ("cluster.yaml", self.cluster)))
        parts.append(("options", ("", json.dumps(dict(self.options)).encode())))
        return parts

    def _files(self) -> list[tuple[str, str, Path]]:
        data = [("data", place, self.model.parent / place) for place in external_locations(self.model)]
        cluster = [("cluster", self.cluster.name, self.cluster)] if isinstance(self.cluster, Path) else []
        return [("model", self.model.name, self.model), *data, *cluster]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request and the parser of its response."""

    method: str
    path: str
    read: Callable[[JsonObject], T]
    parameters: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    json: JsonObject | None = None
    upload: Submission | None = None
    seconds: float = _ANSWER_SECONDS

    def request(self, client: httpx.Client | httpx.AsyncClient, files: ExitStack) -> httpx.Request:
        """The request; its open files are closed with ``files``."""
        return client.build_request(
            self.method,
            self.path,
            params=dict(self.parameters),
            headers=dict(self.headers),
            json=None if self.json is None else dict(self.json),
            files=None if self.upload is None else self.upload.parts(files),
            timeout=httpx.Timeout(self.seconds, connect=_CONNECT_SECONDS),
        )


def headers_of(key: str | None) -> dict[str, str]:
    """Headers of every request with that API key. Raises InvalidOptionError for one that no header has."""
    if key is None:
        return {}
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InvalidOptionError("key: expected printable ASCII characters without blanks, got others")
    return {"Authorization": f"Bearer {key}"}


def submitting(
    model: str | Path,
    cluster: str | Path | bytes | None,
    options: Mapping[str, object] | None,
    idempotency_key: str | None,
) -> Call[Optimization]:
    """Submits a model; generates an idempotency key unless one is given. Raises InvalidOptionError."""
    if not isinstance(cast("object", model), str | Path):
        raise InvalidOptionError(f"model: expected a path, got {type(model).__name__}")
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise InvalidOptionError(
            f"idempotency_key: expected 1 to 255 visible ASCII characters, got {idempotency_key!r}"
        )
    devices = Path(cluster) if isinstance(cluster, str) else cluster
    upload = Submission(Path(model), devices, options or {})
    headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    seconds = _UPLOAD_SECONDS
    return Call("POST", "/v1/optimizations", Optimization.of, headers=headers, upload=upload, seconds=seconds)


def path_of(identity: str, part: str = "") -> str:
    """The path of an optimization, or of a part of it. Raises InvalidOptionError for an id that none has."""
    if not identity or set(identity) == {"."}:
        raise InvalidOptionError(f"identity: expected the id of an optimization, got {identity!r}")
    path = f"/v1/optimizations/{quote(identity, safe='')}"
    return f"{path}/{part}" if part else path


def getting(identity: str) -> Call[Optimization]:
    """Reads an optimization."""
    return Call("GET", path_of(identity), Optimization.of)


def cancelling(identity: str) -> Call[Optimization]:
    """Cancels an optimization."""
    return Call("DELETE", path_of(identity), Optimization.of)


def reporting(identity: str) -> Call[JsonObject]:
    """Reads a report."""
    return Call("GET", path_of(identity, "report"), lambda report: report)


def proving(equation: str) -> Call[Judgement]:
    """Proves an equation."""
    body = {"equation": equation}
    return Call("POST", "/v1/substitutions/prove", Judgement.of, json=body, seconds=_PROOF_SECONDS)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list, and the call for the next page if there is one."""

    items: tuple[T, ...]
    next: Call[Page[T]] | None


def listing(state: str | None) -> Call[Page[Optimization]]:
    """Lists optimizations, newest first."""
    return _pages("/v1/optimizations", {"state": state}, Optimization.of)


def browsing(status: str | None, operator: str | None, text: str | None) -> Call[Page[Substitution]]:
    """Lists rules, smallest first."""
    chosen = {"status": status, "operator": operator, "q": text}
    return _pages("/v1/substitutions", chosen, Substitution.of)


def _pages(path: str, chosen: Mapping[str, str | None], read: Callable[[JsonObject], T]) -> Call[Page[T]]:
    given: dict[str, str | int] = {name: value for name, value in chosen.items() if value is not None}

    def page(content: JsonObject) -> Page[T]:
        items = tuple(map(read, cast("list[JsonObject]", content["items"])))
        cursor = content["next"]
        more = None if cursor is None else Call("GET", path, page, {**given, "cursor": str(cursor)})
        return Page(items, more)

    return Call("GET", path, page, {**given, "limit": 100})


def is_temporary(response: httpx.Response) -> bool:
    """Whether a retry of the same request may succeed soon."""
    return response.status_code in _AGAIN or is_in_flight(response)


def is_in_flight(response: httpx.Response) -> bool:
    """Whether the service still processes an earlier attempt of the same request."""
    if response.status_code != HTTPStatus.CONFLICT:
        return False
    return Problem.of_response(response.status_code, response.content).type == _IN_FLIGHT


def answer(call: Call[T], response: httpx.Response) -> T:
    """The result of a complete response; raises the error that it reports."""
    raise_problem(response)
    try:
        return call.read(cast("JsonObject", response.json()))
    except (ValueError, KeyError, TypeError) as error:
        raise ServerUnreachableError(
            f"{response.request.url} is not a superopt service: unexpected response to {call.method}"
        ) from error


def raise_problem(response: httpx.Response) -> None:
    """Raises the error that a complete response reports, if any."""
    if not response.is_success:
        raise error_of(Problem.of_response(response.status_code, response.content))


def give_up(url: str, error: Exception) -> NoReturn:
    """Raises the error of the last attempt."""
    if isinstance(error, ServerBusyError):
        raise error
    raise ServerUnreachableError(f"{url} cannot be reached: {error or type(error).__name__}") from error


def checked_url(url: str) -> str:
    """The URL of a service. Raises InvalidOptionError."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidOptionError(f"server: {url!r} is not a valid URL: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidOptionError(f"server: expected a URL such as http://HOST:PORT, got {url!r}")
    return url.rstrip("/")


async def events_of(response: httpx.Response) -> AsyncGenerator[Event]:
    """The events of a stream; none for a response without content."""
    if response.status_code == HTTPStatus.NO_CONTENT:
        return
    async with aclosing(EventSource(response).aiter_sse()) as stream:
        async for sent in stream:
            if sent.id and sent.data:
                yield Event(int(sent.id), sent.event, cast("JsonObject", sent.json()))


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidOptionError(f"{path}: cannot be read: {error.strerror}") from None
