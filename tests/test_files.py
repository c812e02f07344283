"""Files appear whole or not at all; what cannot be written is one clear error."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from superopt.errors import InvalidOptionError
from superopt.files import write_atomically


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
