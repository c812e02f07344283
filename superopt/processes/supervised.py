"""Supervised child process: started with a channel to it, inspected, killed with all of its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from superopt.processes.channel import Channel

_START = (
    "import os, sys; sys.path[:] = dict.fromkeys([*sys.argv[1].split(os.pathsep), *sys.path]); "
    "import importlib; importlib.import_module(sys.argv[2]).main(int(sys.argv[3]))"
)
"""The child's import path is the parent's, without its current directory."""

_SEND_SECONDS = 60.0


class Supervised:
    """A new Python process that runs ``main(descriptor)`` of the module ``program`` at the other end of
    ``channel`` (as ``processes.child_main``); ``purpose`` is shown in lists of processes.

    A program must end when the channel is closed. ``child_main.Parent`` kills it at once then, and also when
    the thread that started it ends; what it has started with this class ends likewise.

    Its standard output goes to the descriptor ``stdout``, by default to standard error; that to ``stderr``,
    by default this process's. It inherits ``descriptors``. ``environment`` is added to that of the parent.
    ``most`` limits the bytes of a message from the process. Interrupts from the terminal do not reach it.
    Raises OSError if it cannot be started.
    """

    def __init__(
        self,
        program: str,
        purpose: str = "",
        *,
        stdout: int | None = None,
        stderr: int | None = None,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        most: int | None = None,
    ) -> None:
        self.started = time.monotonic()
        ours, theirs = socket.socketpair()
        ours.settimeout(_SEND_SECONDS)
        self.channel = Channel(ours, most)
        command = [sys.executable, "-P", "-c", _START, os.pathsep.join(sys.path), program]
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [*command, str(theirs.fileno()), purpose],
                    stdin=subprocess.DEVNULL,
                    stdout=(_printed() if stderr is None else stderr) if stdout is None else stdout,
                    stderr=stderr,
                    pass_fds=[theirs.fileno(), *descriptors],
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                )
        except OSError:
            ours.close()
            raise

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def kill(self) -> None:
        """Kills the process and its descendants; does not wait."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kills the process and its descendants, and closes the channel."""
        self.kill()
        self._process.wait()
        self.channel.close()

    def exit_code(self, seconds: float) -> int | None:
        """The exit code, negative for a signal; None if the process does not end within the time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def resident_bytes(self) -> int:
        """Resident memory of the process and its descendants in bytes."""
        import psutil  # only for limits of memory

        resident = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    resident += int(one.memory_info().rss)
        return resident


def _printed() -> int:
    """Standard error's descriptor, if it is a file."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return subprocess.DEVNULL
