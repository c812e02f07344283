"""Where results are written: files appear whole or not at all, streams are written into, nothing is replaced
that is no file.

A path that is a symlink stays one: the file that it leads to is replaced. A FIFO, a terminal and
``/dev/null`` are written into; so is an open descriptor (``/dev/stdout``, ``/dev/fd/3``), from where it
stands.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from superopt.errors import InvalidOptionError

STANDARD_OUTPUT = Path("/dev/stdout")
"""What ``-`` means on the command line."""

STANDARD_INPUT = Path("/dev/stdin")
"""What ``-`` means in the place of a model."""

PART = ".part"
"""Suffix of temporary files that are renamed when complete."""

DATA_NAME = "superopt"
"""Name of external data that is not complete: it is named after its content."""

_STANDARD = {STANDARD_INPUT: 0, STANDARD_OUTPUT: 1}
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
_LAST_STANDARD = 2
_NULL = os.makedev(1, 3)
_UNWRITABLE = {stat.S_IFDIR: "a directory", stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket"}
_STREAMS = (stat.S_IFIFO, stat.S_IFCHR)
_MOST_LINKS = 40
_REPORT_SUFFIXES = (".json", ".html")


def require_writable(path: Path) -> None:
    """Raises InvalidOptionError unless the path can be written: a file in a directory that exists, or a
    stream."""
    try:
        wrong = _why_not(path)
    except OSError as error:
        wrong = f"cannot write there: {error.strerror}"
    if wrong:
        raise InvalidOptionError(f"{path}: {wrong}")


def require_report_path(path: Path) -> None:
    """Raises InvalidOptionError unless a report can be written there, and the path says of which kind."""
    if path.suffix.lower() not in _REPORT_SUFFIXES:
        raise InvalidOptionError(f"report: expected a file ending in .json or .html, got {path}")
    require_writable(path)


def require_destinations(
    output: Path | None, reports: Sequence[Path], read: Mapping[str, Path | str | None]
) -> None:
    """Raises InvalidOptionError unless model and reports can be written there, each into its own file, none
    of which is ``read`` as something else than the model."""
    for path in reports:
        require_report_path(path)
        require_not_read({"report": path}, read)
    if output is not None:
        require_output(output, read)
    files: dict[Path, Path] = {}
    for path in (output, *reports):
        if path is None or is_stream(path):
            continue
        file = written_file(path).resolve()
        if file in files:
            raise InvalidOptionError(
                f"{path}: expected a file of its own for each result, and {files[file]} is the same one"
            )
        files[file] = path


def require_output(path: Path, read: Mapping[str, Path | str | None]) -> None:
    """Raises InvalidOptionError unless the file can be written and is none of those that are read."""
    require_writable(path)
    require_not_read({"output": path}, read)


def require_not_read(written: Mapping[str, Path | None], read: Mapping[str, Path | str | None]) -> None:
    """Raises InvalidOptionError where a file that is written is also one that is read; both by what they are
    for. What is read may also be the name of something that is no file."""
    paths = {what: Path(path) for what, path in read.items() if path is not None}
    files = {path.resolve(): what for what, path in paths.items() if not is_stream(path)}
    for what, path in written.items():
        if path is not None and not is_stream(path) and path.resolve() in files:
            read_as = files[path.resolve()]
            raise InvalidOptionError(f"{what}: expected a file of its own, and {path} is the {read_as}")


def _why_not(path: Path) -> str:
    descriptor = _descriptor(path)
    if descriptor is not None:  # raises OSError for one that is not open
        is_open_for_writing = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        return "" if is_open_for_writing else "expected a descriptor that is open for writing"
    kind = _kind(path)
    if kind in _UNWRITABLE:
        return f"expected a file to write, got {_UNWRITABLE[kind]}"
    if kind in _STREAMS:
        return "" if os.access(path, os.W_OK) else "cannot write there: Permission denied"
    return (
        "" if written_file(path).parent.is_dir() else "expected the path of a file in a directory that exists"
    )


def is_stream(path: Path) -> bool:
    """Whether what is written goes somewhere at once, and cannot be replaced: a FIFO, a character device, an
    open descriptor."""
    return _descriptor(path) is not None or _kind(path) in _STREAMS


def can_be_read_once(path: Path) -> bool:
    """Whether what is read there is gone, or is not there for other processes: a pipe, an open descriptor."""
    return _kind(path) == stat.S_IFIFO or (_descriptor(path) is not None and _kind(path) != stat.S_IFCHR)


def descriptors_in(paths: Sequence[Path]) -> list[int]:
    """The open descriptors among the paths, except the standard streams."""
    named = {int(path.name) for path in paths if str(path.parent) in _DESCRIPTORS and path.name.isdigit()}
    return sorted(number for number in named if number > _LAST_STANDARD)


def sha256_of(path: Path) -> str:
    """The SHA-256 hash of a file, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_standard_output(path: Path) -> bool:
    """Whether it is where commands print."""
    return _descriptor(path) == 1


def is_discarded(path: Path) -> bool:
    """Whether what is written there is gone: ``/dev/null``."""
    return _kind(path) == stat.S_IFCHR and path.stat().st_rdev == _NULL


def written_file(path: Path) -> Path:
    """The file that is replaced: at the end of all symlinks.

    Raises InvalidOptionError where they lead in a circle.
    """
    file = path.absolute()
    for _ in range(_MOST_LINKS):
        if not file.is_symlink():
            return file
        file = file.parent / file.readlink()
    raise InvalidOptionError(f"{path}: expected a file to write, got symlinks that lead in a circle")


@contextmanager
def atomic_path(path: Path) -> Generator[Path]:
    """A temporary path beside ``path``, renamed to it at the end; removed if the block raises. If this
    process is killed, ``remove_unfinished`` can remove it.

    For a stream it lies elsewhere, and what it holds is written into the stream at the end. Raises
    InvalidOptionError where the directory is missing or cannot be written, or as ``require_writable`` does.
    """
    require_writable(path)
    if is_stream(path):
        with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
            part = Path(directory) / "part"
            part.touch()
            yield part
            with part.open("rb") as content, _opened(path) as stream:
                shutil.copyfileobj(content, stream, 1 << 20)
        return
    file = written_file(path)
    try:
        handle, name = tempfile.mkstemp(prefix=part_prefix(file.name), suffix=PART, dir=file.parent)
    except OSError as error:
        raise InvalidOptionError(f"{path}: cannot write there: {error.strerror}") from None
    os.close(handle)
    part = Path(name)
    try:
        part.chmod(0o666 & ~_umask())
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def part_prefix(name: str, process: int | None = None) -> str:
    """How the names of temporary files begin that a process, by default this one, writes for a file."""
    return f".{name}.{os.getpid() if process is None else process}-"


def remove_unfinished(path: Path, process: int) -> None:
    """Removes the temporary files that a process left beside ``path`` when it was killed."""
    if is_stream(path):
        return
    file = written_file(path)
    prefixes = part_prefix(file.name, process), part_prefix(DATA_NAME, process)
    with suppress(OSError):
        for left in file.parent.iterdir():
            if left.suffix == PART and left.name.startswith(prefixes):
                left.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Writes the file whole or not at all; raises InvalidOptionError where it cannot, and BrokenPipeError
    where the reader of a pipe has ended."""
    with refusing_what_fails(path):
        require_writable(path)
        if is_stream(path):
            with _opened(path) as stream:
                stream.write(content)
            return
        with atomic_path(path) as part:
            part.write_bytes(content)


@contextmanager
def refusing_what_fails(path: Path) -> Generator[None]:
    """Turns an error of the system in the block, which writes to the path, into an InvalidOptionError; a
    BrokenPipeError stays one."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidOptionError(f"{path}: cannot be written: {error.strerror or error}") from error


def _descriptor(path: Path) -> int | None:
    """The open descriptor of this process that the path names; None for any other path."""
    place = path.absolute()
    for _ in range(_MOST_LINKS):
        if place in _STANDARD:
            return _STANDARD[place]
        if place.name.isdigit() and os.path.realpath(place.parent) == os.path.realpath("/dev/fd"):
            return int(place.name)
        if not place.is_symlink():
            return None
        place = place.parent / place.readlink()
    return None


def _kind(path: Path) -> int:
    """The type bits of what lies at the end of the path's symlinks; 0 where nothing does."""
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except ValueError:  # a path with a NUL character
        return 0
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return 0
        raise


def _opened(path: Path) -> BinaryIO:
    descriptor = _descriptor(path)
    if descriptor is None:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_NOCTTY), "wb")
    if descriptor == 1:
        sys.stdout.flush()
    return os.fdopen(os.dup(descriptor), "wb")


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
