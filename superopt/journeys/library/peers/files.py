"""Reading of rule files by format."""

from __future__ import annotations

import enum
from pathlib import Path

from superopt.journeys.library.peers.flexflow import read_flexflow
from superopt.journeys.library.peers.own import read_own_json, read_own_text
from superopt.journeys.library.peers.reading import PeerRule
from superopt.journeys.library.peers.taso import read_taso


class PeerFormat(enum.StrEnum):
    """Formats of rule files: our own two, and those of other optimizers."""

    JSONL = "jsonl"
    TEXT = "text"
    TASO = "taso"
    FLEXFLOW = "flexflow"


_ENDINGS = {
    ".jsonl": PeerFormat.JSONL,
    ".json": PeerFormat.FLEXFLOW,
    ".pb": PeerFormat.TASO,
}


def format_of(path: Path) -> PeerFormat:
    """The format that the file's name suggests; text when it suggests none."""
    return _ENDINGS.get(path.suffix.lower(), PeerFormat.TEXT)


def read_rules(path: Path, file_format: PeerFormat) -> tuple[PeerRule, ...]:
    """The rules of a file. Raises InvalidFileError if it is not of the format."""
    match file_format:
        case PeerFormat.TASO:
            return read_taso(path)
        case PeerFormat.FLEXFLOW:
            return read_flexflow(path)
        case PeerFormat.JSONL:
            return read_own_json(path)
        case PeerFormat.TEXT:
            return read_own_text(path)
