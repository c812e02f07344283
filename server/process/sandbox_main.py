"""Main module of the fork server of ``server.process.sandbox``; forks once per task, under limits."""

from __future__ import annotations

import gc
import os
import signal
import socket

from superopt.processes.channel import Channel
from superopt.processes.child_main import run_task
from superopt.server.worker import inspection

PREPARED = (inspection,)
"""Modules imported before the first fork."""


def main(descriptor: int) -> None:
    """Forks for each channel that arrives as a descriptor until the other end of the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks are reaped by the kernel
    gc.freeze()  # a garbage collection in a fork would touch, and so copy, all imported objects
    with socket.socket(fileno=descriptor) as tasks:
        while descriptors := socket.recv_fds(tasks, 1, 1)[1]:
            if os.fork() == 0:
                tasks.close()
                os.setsid()
                run_task(Channel(socket.socket(fileno=descriptors[0])))
            os.close(descriptors[0])
