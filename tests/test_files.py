"""Files appear whole or not at all; nothing is replaced that is no file; what cannot be written is one clear
error."""

from __future__ import annotations

import os
import resource
import socket
import stat
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from superopt.errors import InvalidOptionError
from superopt.files import atomic_path, is_discarded, require_writable, write_atomically


@contextmanager
def room_for(size: int) -> Generator[None]:
    """No file may grow beyond ``size`` bytes meanwhile, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_without_room_nothing_is_left_behind_and_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_atomically(path, b"old")
    with (
        room_for(1 << 12),
        pytest.raises(InvalidOptionError, match=r"report\.json: cannot be written: File too"),
    ):
        write_atomically(path, bytes(1 << 14))
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("report.json", b"old")]


def test_a_symlink_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    target, link = tmp_path / "store" / "real.json", tmp_path / "link.json"
    link.symlink_to(Path("store") / "real.json")
    for content in (b"through a link to nothing", b"again"):
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert [file.name for file in target.parent.iterdir()] == ["real.json"]


def test_symlinks_in_a_circle_are_refused(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / name).symlink_to(other)
    with pytest.raises(InvalidOptionError, match="symlinks that lead in a circle"):
        require_writable(tmp_path / "a")


@pytest.mark.parametrize("write", ["whole", "in pieces"])
def test_a_fifo_is_written_into(tmp_path: Path, write: str) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    content = bytes(range(256)) * 1000
    with ThreadPoolExecutor() as pool:
        read = pool.submit(fifo.read_bytes)
        if write == "whole":
            write_atomically(fifo, content)
        else:
            with atomic_path(fifo) as part:
                part.write_bytes(content)
        assert read.result() == content
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]
    assert fifo.is_fifo()


@pytest.mark.parametrize("open_directly", [True, False])
def test_an_open_descriptor_is_written_into_from_where_it_stands(
    tmp_path: Path, *, open_directly: bool
) -> None:
    written, link = tmp_path / "written", tmp_path / "link"
    with written.open("wb", buffering=0) as file:
        file.write(b"before ")
        path = Path(f"/dev/fd/{file.fileno()}")
        link.symlink_to(path)
        write_atomically(path if open_directly else link, b"content")
        file.write(b" after")
    assert written.read_bytes() == b"before content after"


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "input").touch()
    with socket.socket(socket.AF_UNIX) as listening, (tmp_path / "input").open("rb") as readable:
        listening.bind(str(tmp_path / "socket"))
        for path, why in (
            (tmp_path, "got a directory"),
            (tmp_path / "socket", "got a socket"),
            (tmp_path / "none" / "file", "in a directory that exists"),
            (tmp_path / "input" / "file", "in a directory that exists"),
            (tmp_path / ("x" * 300), "File name too long"),
            (Path(f"/dev/fd/{readable.fileno()}"), "open for writing"),
            (Path("/dev/fd/999"), "Bad file descriptor"),
        ):
            with pytest.raises(InvalidOptionError, match=why):
                require_writable(path)
            with pytest.raises(InvalidOptionError, match=why):
                write_atomically(path, b"content")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["input", "socket"]


@pytest.fixture
def device(tmp_path: Path) -> Callable[[int, int], Path]:
    """Makes a device of a kind and a number: a test never writes to one of the machine."""

    def made(kind: int, number: int) -> Path:
        path = tmp_path / "device"
        try:
            os.mknod(path, kind | 0o600, number)
            with path.open("rb"):
                return path
        except OSError as error:
            pytest.skip(f"devices cannot be made here ({error.strerror}): run as root, outside a container")

    return made


def test_a_null_device_discards_and_stays(device: Callable[[int, int], Path]) -> None:
    path = device(stat.S_IFCHR, os.makedev(1, 3))
    write_atomically(path, b"content")
    with atomic_path(path) as part:
        part.write_bytes(b"content")
    assert is_discarded(path)
    assert path.is_char_device()
    assert [file.name for file in path.parent.iterdir()] == ["device"]


def test_a_full_device_is_one_clear_error(device: Callable[[int, int], Path]) -> None:
    path = device(stat.S_IFCHR, os.makedev(1, 7))
    with pytest.raises(InvalidOptionError, match="device: cannot be written: No space left"):
        write_atomically(path, b"content")
    assert path.is_char_device()


def test_a_block_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(259, 4095))
    except OSError as error:
        pytest.skip(f"devices cannot be made here ({error.strerror}): run as root, outside a container")
    with pytest.raises(InvalidOptionError, match="got a block device"):
        write_atomically(path, b"content")
    assert path.is_block_device()
