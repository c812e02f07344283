"""Progress on standard error: a bar on a terminal, periodic lines if requested, else nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from superopt.cli.output import progress_console


@contextmanager
def counted(description: str) -> Generator[Callable[[int, int], None]]:
    """A callback ``(done, total)`` that updates a progress bar during the block."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=progress_console(), transient=True) as bar:
        task = bar.add_task(description, total=None)

        def move(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield move


@contextmanager
def estimated(description: str) -> Generator[Callable[[int, int], None]]:
    """Like ``counted`` for items of uneven cost: shows a percentage and the remaining time."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=progress_console(), transient=True) as bar:
        task = bar.add_task(description, total=None)

        def move(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield move


@contextmanager
def described() -> Generator[Callable[[str], None]]:
    """A callback that shows the current activity in one line during the block."""
    console = progress_console()
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    with console.status("") as status:
        yield status.update
