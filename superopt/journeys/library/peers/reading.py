"""What is in a peer's file: rules as graphs of named operators, and what becomes of a rule that is read."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from superopt.errors import InvalidFileError
from superopt.ir.terms import Equation


class AxisOrder(enum.StrEnum):
    """From which end a format counts the dimensions of a tensor."""

    OUTERMOST_FIRST = "outermost first"
    INNERMOST_FIRST = "innermost first"


@dataclass(frozen=True, slots=True)
class PeerTensor:
    """Output ``port`` of an operator of the same side; a negative operator is an input of the rule."""

    operator: int
    port: int

    def __str__(self) -> str:
        return f"{self.operator}" if self.port == 0 else f"{self.operator}:{self.port}"


@dataclass(frozen=True, slots=True)
class PeerOperator:
    """An operator by its name in TASO's vocabulary, without ``OP_``; parameters by name, without ``PM_``."""

    kind: str
    inputs: tuple[PeerTensor, ...]
    parameters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PeerGraphs:
    """``source`` may be replaced by ``target``; ``outputs`` pairs outputs of the two."""

    source: tuple[PeerOperator, ...]
    target: tuple[PeerOperator, ...]
    outputs: tuple[tuple[PeerTensor, PeerTensor], ...]


@dataclass(frozen=True, slots=True)
class Malformed:
    """It is no rule, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Inexpressible:
    """It may be a rule, but not one that equations can say, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A rule as an equation: ``written`` says what the file says of ranks, kernels and groups; ``general``
    leaves that out, so that it holds for more or is false.
    """

    general: Equation
    written: Equation


Reading: TypeAlias = "Claim | Malformed | Inexpressible"


@dataclass(frozen=True, slots=True)
class PeerRule:
    """A rule of a file, ``index`` counting from 0."""

    index: int
    name: str
    reading: Reading


def why_none(rule: PeerRule) -> str:
    """Why the rule is no equation; empty when it is one."""
    return "" if isinstance(rule.reading, Claim) else rule.reading.reason


def content_of(path: Path, most_bytes: int) -> bytes:
    """The content of a peer's file. Raises InvalidFileError for one that is too large or cannot be read."""
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise InvalidFileError(f"{path}: expected at most {most_bytes} bytes, got {size}")
        return path.read_bytes()
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot be read: {error.strerror}") from error
