"""Logging to standard error: short lines for people at a terminal, else JSON lines; with the ids of request
and job. Child processes (``processes.child_main``) log like their parents.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal, TypeAlias, cast

LogFormat: TypeAlias = Literal["auto", "json", "text"]
Palette: TypeAlias = Mapping[int, str]

_COLOURS: Palette = {logging.DEBUG: "2", logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}
"""ANSI colours by level; those of levels in between have none."""

_DIM = "2"
_SHORT_ID = 8

CONFIGURED, _JOB = "_SUPEROPT_CHILD_LOGS", "_SUPEROPT_CHILD_JOB"
"""Environment of child processes: arguments of ``configure`` as JSON, and the id of a job."""

_request: ContextVar[str] = ContextVar("request", default="")
_job: ContextVar[str] = ContextVar("job", default="")


def configure(format_: LogFormat, level: str, service: str) -> None:
    """Sends all logs of this process and of its children to standard error; ``service`` names the process
    (server, worker). ``auto`` is text on a terminal, else JSON.
    """
    os.environ[CONFIGURED] = json.dumps([format_, level, service])
    is_terminal = sys.stderr.isatty()
    stream = logging.StreamHandler(sys.stderr)
    logging.basicConfig(level=level.upper(), handlers=[stream], force=True)
    logging.getLogger("uvicorn").handlers.clear()
    if format_ == "json" or (format_ == "auto" and not is_terminal):
        stream.setFormatter(JsonLines(service))
        return
    stream.setFormatter(Text(service, _COLOURS if is_terminal and not os.environ.get("NO_COLOR") else {}))
    if level != "debug":
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # its start and end say nothing new


def inherit() -> None:
    """Logs as the parent of this child process does, if that has configured its logs."""
    configured = os.environ.get(CONFIGURED)
    if configured is not None:
        configure(*json.loads(configured))
        _job.set(os.environ.get(_JOB, ""))


def only_about(job: str) -> None:
    """Adds the job id to all that this child process and its children log."""
    os.environ[_JOB] = job
    _job.set(job)


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
    """Formats a record as a short line: time of day, service, message, duration, job. Warnings and errors
    name their level and the request. The palette gives the colours, none if it is empty.
    """

    def __init__(self, service: str, palette: Palette) -> None:
        super().__init__()
        self._service = service
        self._palette = palette

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the lines of an exception."""
        is_notable = record.levelno >= logging.WARNING
        level = f"{record.levelname.lower()}: " if is_notable else ""
        parts = [f"{level}{record.getMessage()}", *_notes(record, is_notable=is_notable)]
        clock = datetime.fromtimestamp(record.created).astimezone()
        head = self._coloured(_DIM if self._palette else "", f"{clock:%H:%M:%S} {self._service:<6}")
        line = f"{head} {self._coloured(self._palette.get(record.levelno, ''), '  '.join(parts))}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line

    @staticmethod
    def _coloured(colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def _notes(record: logging.LogRecord, *, is_notable: bool) -> list[str]:
    """The duration of a request, its job, and for what is notable its id."""
    known = {**_context(), **_fields(record)}
    seconds, job, request = known.get("seconds"), known.get("job_id"), known.get("request_id")
    return [
        *([f"{1000 * seconds:.0f} ms"] if isinstance(seconds, int | float) else []),
        *([f"job {str(job)[:_SHORT_ID]}"] if job else []),
        *([f"request {request}"] if request and is_notable else []),
    ]


def _context() -> dict[str, object]:
    known = {"request_id": _request.get(), "job_id": _job.get()}
    return {name: value for name, value in known.items() if value}


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: object = getattr(record, "fields", None)
    return cast("Mapping[str, object]", fields) if isinstance(fields, dict) else {}
