"""What Ctrl-C does to a command that can end early with a result."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def first_interrupt() -> Generator[threading.Event]:
    """During the block the first interrupt sets the event, and the next one raises KeyboardInterrupt.

    Interrupts are left alone where they are ignored (as in jobs that a shell runs in the background), and
    outside the main thread.
    """
    event = threading.Event()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield event
        return

    def interrupted(number: int, frame: object) -> None:
        del number, frame
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
