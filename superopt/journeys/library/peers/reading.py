"""Data model of peers' rule files: rules as operator graphs, and the outcomes of reading them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from superopt.errors import InvalidFileError
from superopt.ir.terms import Equation


class AxisOrder(enum.StrEnum):
    """The end from which a format counts dimensions."""

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
    """The rule is malformed, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Inexpressible:
    """The rule may be valid but cannot be expressed as an equation, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A rule as an equation: ``written`` keeps the file's ranks, kernels and groups; ``general`` omits them,
    so that it is more general or false.
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
    """The reason why the rule is not an equation; empty if it is one."""
    return "" if isinstance(rule.reading, Claim) else rule.reading.reason


def content_of(path: Path, most_bytes: int) -> bytes:
    """The content of a peer's file. Raises InvalidFileError if it is too large or cannot be read."""
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise InvalidFileError(f"{path}: expected at most {most_bytes} bytes, got {size}")
        return path.read_bytes()
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot be read: {error.strerror}") from error
