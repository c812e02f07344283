"""Background thread for a ``with`` block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def beside(function: Callable[[threading.Event], None]) -> Generator[None]:
    """Runs a function in a thread; at the end of the block sets its stop event and joins the thread."""
    ended = threading.Event()
    thread = threading.Thread(target=function, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
