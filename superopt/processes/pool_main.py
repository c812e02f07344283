"""Main module of the processes of ``processes.pool``: reads a function and answers items until it is killed.

All messages are pickled: from the pool ``(begin, function, megabytes)``, then items; from the process first
an empty message when it is ready, then for each item a byte, which is 1 if it has kept half of the memory
allowed and should be replaced, and ``(answer, None)`` or ``(None, exception)``.
"""

from __future__ import annotations

import pickle  # nosec B403: messages of the process that started this one
import socket
import traceback
from collections.abc import Callable
from typing import NoReturn

from superopt.processes.channel import Channel
from superopt.processes.child_main import Parent
from superopt.processes.confinement import Confinement, private_bytes
from superopt.processes.garbage import not_collecting

_MEGABYTE = 1 << 20


class TaskError(Exception):
    """An item of a pool has no answer; the message is the whole reason."""


def main(descriptor: int) -> NoReturn:
    """Answers the items received over the socket from the pool."""
    parent = Parent(Channel(socket.socket(fileno=descriptor)))
    with not_collecting():
        begin, function, megabytes = pickle.loads(parent.messages.get())  # nosec B301
    if begin is not None:
        begin()
    roomy = None
    if megabytes is not None:
        roomy = private_bytes() + megabytes * _MEGABYTE // 2
        Confinement(bytes=roomy + megabytes * _MEGABYTE // 2).enter()
    parent.send(b"")
    while True:
        answer = _answered(function, parent.messages.get())
        is_full = roomy is not None and private_bytes() > roomy
        parent.send(bytes([is_full]) + answer)


def _answered(function: Callable[[object], object], item: bytearray) -> bytes:
    try:
        return pickle.dumps((function(pickle.loads(item)), None))  # nosec B301
    except Exception as error:  # noqa: BLE001 - raised by the pool
        return _failed(error)


def _failed(error: Exception) -> bytes:
    try:
        error.add_note(traceback.format_exc())
        message = pickle.dumps((None, error))
        pickle.loads(message)  # nosec B301
    except Exception:  # noqa: BLE001 - an exception that cannot be sent is told in words
        message = pickle.dumps((None, TaskError(f"{type(error).__name__}: {error}")))
    return message
