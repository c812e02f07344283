"""Log records of a command: warnings are shown in one line, what has a traceback is kept for a bug report."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from superopt.cli.output import brief


class _Warnings(logging.Handler):
    """Passes the text of warnings on; errors are reported by what raised them."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:
            self._show(record.getMessage())


@contextmanager
def recorded(show: Callable[[str], None], details: TextIO) -> Generator[None]:
    """During the block warnings are shown, and all records written to ``details`` in full."""
    handlers = _Warnings(show), logging.StreamHandler(details)
    root = logging.getLogger()
    for handler in handlers:
        root.addHandler(handler)
    try:
        yield
    finally:
        for handler in handlers:
            root.removeHandler(handler)


@contextmanager
def warned() -> Generator[None]:
    """During the block warnings are shown in one line each."""
    handler, root = _Warnings(warn), logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def warn(text: str) -> None:
    """Shows a warning on standard error."""
    sys.stderr.write(f"superopt: warning: {brief(text)}\n")
    sys.stderr.flush()


def kept(details: str) -> str:
    """Writes details of an internal error to a file, and says where; where there is no room, how to see
    them."""
    from platformdirs import user_log_path  # needed only here

    name = f"superopt-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"
    for directory in (user_log_path("superopt", appauthor=False), Path(tempfile.gettempdir())):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(details, encoding="utf-8")
        except OSError:
            continue
        return f"details: {directory / name}"
    return "no details could be written"
