"""A limit of processor time around one question to the verifier."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooLong(BaseException):
    """The question took more processor time than it may; not an Exception, so that nothing catches it."""


@contextmanager
def processor_seconds(most: float) -> Iterator[None]:
    """Raises TooLong in the main thread once that much processor time is spent in the block."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
