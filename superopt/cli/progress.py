"""Progress on standard error: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from rich.progress import BarColumn, Progress, TextColumn

from superopt.cli.output import progress_console

LINE_SECONDS = "SUPEROPT_PROGRESS_SECONDS"
"""Environment variable: seconds between two lines where there is no terminal; 0 prints none."""

_USUAL_LINE_SECONDS = 5.0

_FRAME_SECONDS = 0.2
_BAR_WIDTH = 24
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class Status:
    """What a command is doing: the activity, how much is done of how much (0: unknown), and a text."""

    activity: str
    done: float = 0.0
    total: float = 0.0
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.activity}: {self.detail}" if self.detail else self.activity


Show: TypeAlias = Callable[[Status], None]


@contextmanager
def followed(current: Callable[[], Status]) -> Generator[None]:
    """Shows what is going on during the block, as ``current`` says, which any thread may call."""
    with _display() as (show, seconds):
        is_over = threading.Event()

        def repeat() -> None:
            while not is_over.wait(seconds):
                show(current())

        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


@contextmanager
def counted(description: str) -> Generator[Callable[[int, int], None]]:
    """A callback ``(done, total)``: what was done during the block is shown as a count."""
    began = time.monotonic()
    status = Status(description)

    def move(done: int, total: int) -> None:
        nonlocal status
        status = Status(description, done, total, f"{done} of {total}")

    def current() -> Status:
        spent = clock(time.monotonic() - began)
        detail = ", ".join(part for part in (status.detail, spent) if part)
        return Status(description, status.done, status.total, detail)

    with followed(current):
        yield move


@contextmanager
def estimated(description: str) -> Generator[Callable[[int, int], None]]:
    """Like ``counted`` for items of uneven cost: shows a percentage and the remaining time."""
    began = time.monotonic()
    shares = (0, 0)

    def move(done: int, total: int) -> None:
        nonlocal shares
        shares = done, total

    def current() -> Status:
        done, total = shares
        spent = time.monotonic() - began
        left = f", {clock(spent * (total - done) / done)} left" if done else ""
        share = f"{100 * done / total:.0f} %, " if total else ""
        return Status(description, done, total, f"{share}{clock(spent)}{left}")

    with followed(current):
        yield move


@contextmanager
def described(activity: str) -> Generator[Callable[[str], None]]:
    """A callback that says in one line how far the activity is."""
    detail = ""

    def tell(text: str) -> None:
        nonlocal detail
        detail = text

    with followed(lambda: Status(activity, detail=detail)):
        yield tell


def clock(seconds: float) -> str:
    """Seconds for display: ``43 s``, ``2:05``, ``1:02:05``."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    hours, rest = divmod(whole, _HOUR)
    minutes, rest = divmod(rest, _MINUTE)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def _display() -> Generator[tuple[Show, float | None]]:
    """What shows a status, and how often in seconds; None: never."""
    console = progress_console()
    if not console.is_terminal or console.is_dumb_terminal:
        yield _print_line, _line_seconds()
        return
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(_BAR_WIDTH), TextColumn("{task.fields[detail]}", markup=False))
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False
    ) as bar:
        task = bar.add_task("", total=None, detail="")

        def draw(status: Status) -> None:
            total = status.total or None
            bar.update(
                task,
                description=status.activity,
                completed=min(status.done, status.total),
                total=total,
                detail=status.detail,
                refresh=True,
            )

        yield draw, _FRAME_SECONDS


def _line_seconds() -> float | None:
    try:
        seconds = float(os.environ.get(LINE_SECONDS, _USUAL_LINE_SECONDS))
    except ValueError:
        return _USUAL_LINE_SECONDS
    return seconds if seconds > 0 else None


def _print_line(status: Status) -> None:
    sys.stderr.write(f"superopt: {status}\n")
    sys.stderr.flush()
