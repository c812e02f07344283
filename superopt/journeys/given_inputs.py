"""Inputs that are given in Python: as the path of an archive, or as arrays by the names of the inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.errors import InvalidOptionError
from superopt.optimizer.check import require_archive
from superopt.optimizer.cost.runtime.archives import write_archive
from superopt.options import require_python

GivenInputs: TypeAlias = str | Path | Mapping[str, npt.NDArray[Any]]
"""The path of an .npz file, or arrays by the names of a model's inputs."""

_ARCHIVE = "inputs"


def as_archive(inputs: GivenInputs | None, directory: Path) -> str | Path | None:
    """The path of the archive; arrays are written into the directory. Raises InvalidOptionError for what is
    no array."""
    if not isinstance(inputs, Mapping):
        return inputs
    arrays = {_checked_name(name): _checked(name, value) for name, value in inputs.items()}
    path = directory / _ARCHIVE
    write_archive(path, arrays)
    return path


@contextmanager
def archive_of(inputs: GivenInputs | None) -> Generator[Path | None]:
    """The checked path of the archive, for as long as the context lasts. Raises InvalidOptionError and
    InvalidFileError."""
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        archive = as_archive(inputs, Path(directory))
        require_python({"inputs": archive})
        path = None if archive is None else Path(archive)
        if path is not None:
            require_archive(path)
        yield path


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidOptionError(f"inputs: expected names of inputs, got {name!r}")
    return name


def _checked(name: str, value: object) -> npt.NDArray[Any]:
    """The value as an array that an archive can hold: texts are stored as such, not as Python objects."""
    try:
        array = np.asarray(value)
        if array.dtype == object and all(isinstance(item, str) for item in array.flat):
            array = array.astype(str)
    except ValueError as error:
        raise InvalidOptionError(f"inputs: {name}: expected an array: {error}") from error
    if array.dtype == object:
        raise InvalidOptionError(f"inputs: {name}: expected an array of numbers or texts, got {value!r}")
    return array


__all__ = ["GivenInputs", "archive_of", "as_archive"]
