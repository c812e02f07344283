"""A limit of processor time around one question to the verifier."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = 0.01
"""Seconds until the end is tried again where it cannot be told."""

_IF_LOST = 0.5
"""Seconds until it is told again, in case it was told to what loses exceptions, such as a destructor."""


class TooLong(BaseException):
    """The question took more processor time than it may; not an Exception, so that nothing catches it."""


@contextmanager
def processor_seconds(most: float) -> Iterator[None]:
    """Raises TooLong in the main thread once that much processor time is spent in the block."""

    def end(_number: int, frame: FrameType | None) -> None:
        if _is_collecting(frame):
            signal.setitimer(signal.ITIMER_PROF, _AGAIN)
        else:
            signal.setitimer(signal.ITIMER_PROF, _IF_LOST)
            raise TooLong

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _is_collecting(frame: FrameType | None) -> bool:
    """Whether a callback of the garbage collector runs, as JAX has one: what it raises is lost."""
    callbacks = [getattr(callback, "__code__", None) for callback in gc.callbacks]
    while frame is not None:
        if frame.f_code in callbacks:
            return True
        frame = frame.f_back
    return False
