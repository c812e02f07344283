"""A fresh database per test, of either kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from superopt.equations import parse_equation
from superopt.ir.terms import Equation
from superopt.substitution_db import Database, open_database
from tests.conftest import BACKENDS


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """All tests of the database run on both."""
    return str(request.param)


@pytest.fixture
def no_library(tmp_path: Path) -> Path:
    """A path where no shipped library is."""
    return tmp_path / "no-library.jsonl"


@pytest.fixture
def database(database_url: str, no_library: Path) -> Iterator[Database]:
    """An open database without rules."""
    with open_database(database_url, library=no_library) as opened:
        yield opened


EQUATIONS = (
    "relu(relu(x)) => relu(x)",
    "matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)",
    "concat[axis=-1](matmul(x, y), matmul(x, z)) <=> matmul(x, concat[axis=-1](y, z))",
    "add(x, y) <=> add(y, x)",
)


@pytest.fixture
def equations() -> tuple[Equation, ...]:
    """A few rules."""
    return tuple(map(parse_equation, EQUATIONS))
