"""Checkpoints on disk: results of finished tasks, stored atomically under the key of their run.

A file has a digest of its run, task and content: partial, damaged or foreign files are recomputed. Results
are pickled, so the directory is accessible only to its owner.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import shutil
import struct
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from superopt.errors import InvalidOptionError
from superopt.files import atomic_path

_MAGIC = b"superopt task\n"
_COUNT = struct.Struct("<Q")
_ELSEWHERE = "give --work DIRECTORY, or set XDG_CACHE_HOME"
_LOCK = "lock"
_SUFFIX = ".result"
_FORGOTTEN_AFTER_SECONDS = 30 * 24 * 3600


class Checkpoint:
    """The directory of one run, locked against other processes.

    Raises InvalidOptionError if it cannot be written or is in use.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = _locked(directory)

    def load(self, name: str) -> object | None:
        """The result of a task; None without a valid one."""
        content = self._content(name)
        if content is None:
            return None
        (count,) = _COUNT.unpack_from(content)
        start = _COUNT.size * (1 + count)
        views: list[memoryview] = []
        for number in range(count):
            (size,) = _COUNT.unpack_from(content, _COUNT.size * (1 + number))
            views.append(content[start : start + size])
            start += size
        return pickle.loads(views[0], buffers=views[1:])

    def has(self, name: str) -> bool:
        """Whether a valid result of a task is stored."""
        return self._content(name) is not None

    def store(self, name: str, result: object) -> None:
        """Stores the result of a task durably.

        Raises InvalidOptionError if the disk is full.
        """
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
        views = [memoryview(pickled), *(buffer.raw() for buffer in buffers)]
        sizes = b"".join(_COUNT.pack(number) for number in (len(views), *(view.nbytes for view in views)))
        content = [memoryview(sizes), *views]
        head = _MAGIC + self._digest(name, content)
        try:
            with atomic_path(self._path(name)) as path, path.open("wb") as file:
                file.writelines((head, *content))
        except OSError as error:
            raise _unkept(self.directory, error) from None

    def drop(self, *names: str) -> None:
        """Removes the results of tasks."""
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Removes all results."""
        for path in self.directory.iterdir():
            if path.name != _LOCK:
                path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the directory and closes the checkpoint."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Unlocks the directory and keeps it."""
        self._lock.close()

    def _path(self, name: str) -> Path:
        return self.directory / (name.replace(" ", "-") + _SUFFIX)

    def _digest(self, name: str, content: Iterable[memoryview]) -> bytes:
        digest = hashlib.sha256(f"{self.directory.name}\0{name}\0".encode())
        for part in content:
            digest.update(part)
        return digest.digest()

    def _content(self, name: str) -> memoryview | None:
        """The content after the digest; None if the digest does not match."""
        try:
            with self._path(name).open("rb") as file:
                written = memoryview(bytearray(os.fstat(file.fileno()).st_size))
                file.readinto(written)
        except OSError:
            return None
        start = len(_MAGIC) + hashlib.sha256().digest_size
        content = written[start:]
        head = _MAGIC + self._digest(name, [content])
        return content if bytes(written[:start]) == head else None


@contextmanager
def fresh_work(root: Path) -> Generator[Callable[[str], Checkpoint]]:
    """Opens checkpoints of runs by their keys, empty, under ``root``.

    They are removed together at the end of the block, and kept if it ends with an exception. Those unused for
    a month are removed. Opening raises InvalidOptionError as ``Checkpoint`` does.
    """
    with resumed_work(root) as opened:

        def emptied(key: str) -> Checkpoint:
            checkpoint = opened(key)
            checkpoint.clear()
            return checkpoint

        yield emptied


@contextmanager
def resumed_work(root: Path) -> Generator[Callable[[str], Checkpoint]]:
    """As ``fresh_work``, but with the results of an interrupted run."""
    _forget_old_work(root)
    checkpoints: list[Checkpoint] = []

    def opened(key: str) -> Checkpoint:
        checkpoints.append(Checkpoint(root / key))
        return checkpoints[-1]

    try:
        yield opened
    except BaseException:
        for checkpoint in checkpoints:
            checkpoint.close()
        raise
    for checkpoint in checkpoints:
        checkpoint.remove()


def _forget_old_work(root: Path) -> None:
    for lock in root.glob(f"*/{_LOCK}"):
        with suppress(OSError, InvalidOptionError):
            if time.time() - lock.stat().st_mtime > _FORGOTTEN_AFTER_SECONDS:
                Checkpoint(lock.parent).remove()


def _locked(directory: Path) -> BinaryIO:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (directory / _LOCK).open("wb")
    except OSError as error:
        raise _unkept(directory, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise InvalidOptionError(f"{directory}: another process uses this run") from None
    os.utime(directory / _LOCK)
    return lock


def _unkept(directory: Path, error: OSError) -> InvalidOptionError:
    return InvalidOptionError(f"{directory}: cannot store checkpoints: {error.strerror}; {_ELSEWHERE}")
