"""Logging to standard error, as JSON lines or text, with the ids of request and job."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal, TypeAlias, cast

LogFormat: TypeAlias = Literal["json", "text"]

_request: ContextVar[str] = ContextVar("request", default="")
_job: ContextVar[str] = ContextVar("job", default="")


def configure(format_: LogFormat, level: str, service: str) -> None:
    """Sends all logs of this process to standard error; ``service`` names the process (server, worker)."""
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonLines(service) if format_ == "json" else Text(service))
    logging.basicConfig(level=level.upper(), handlers=[stream], force=True)
    logging.getLogger("uvicorn").handlers.clear()


@contextmanager
def about_request(identity: str) -> Generator[None]:
    """Adds the request id to all records logged within the block."""
    token = _request.set(identity)
    try:
        yield
    finally:
        _request.reset(token)


@contextmanager
def about_job(identity: str) -> Generator[None]:
    """Adds the job id to all records logged within the block."""
    token = _job.set(identity)
    try:
        yield
    finally:
        _job.reset(token)


def request_id() -> str:
    """The id of the current request; empty outside of requests."""
    return _request.get()


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time (RFC 3339, UTC), level, logger, message, service; if known
    request_id, job_id, exception and the fields of ``extra={"fields": {...}}``.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        content: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "service": self._service,
            "pid": record.process,
            **_context(),
            **_fields(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False, default=str)


class Text(logging.Formatter):
    """Formats a record as text."""

    def __init__(self, service: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)s {service}: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the lines of an exception."""
        known = {**_context(), **_fields(record)}
        text = super().format(record)
        first, *rest = text.split("\n")
        return "\n".join((" ".join((first, *(f"{name}={value}" for name, value in known.items()))), *rest))


def _context() -> dict[str, object]:
    known = {"request_id": _request.get(), "job_id": _job.get()}
    return {name: value for name, value in known.items() if value}


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: object = getattr(record, "fields", None)
    return cast("Mapping[str, object]", fields) if isinstance(fields, dict) else {}
