"""A thread that does something for as long as a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def beside(function: Callable[[threading.Event], None]) -> Generator[None]:
    """Calls a function in a thread of its own; it is told when the block ends, and waited for."""
    ended = threading.Event()
    thread = threading.Thread(target=function, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
