"""User-supplied inputs and dimension sizes: reading and validation against the model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast
from zipfile import BadZipFile, is_zipfile

import numpy as np

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.onnx_io import LiftedModel
from superopt.onnx_io.changes.freezing import unknown_dimension
from superopt.onnx_io.files.source import SourceModel
from superopt.optimizer.check.inputs import open_names
from superopt.optimizer.cost.runtime.ports import Port
from superopt.optimizer.cost.runtime.session import Array

_SHOWN = 12
"""Number of names listed in a message; dimensions of inputs come first."""


def load_inputs(path: Path, ports: Sequence[Port]) -> dict[str, Array]:
    """Loads the inputs in a numpy archive; raises InvalidFileError when they do not fit the model."""
    require_archive(path)
    try:
        arrays = dict(_arrays(path))
    except (OSError, ValueError, BadZipFile) as error:
        raise InvalidFileError(f"{path}: expected a numpy archive (.npz) of inputs: {error}") from error
    return check_inputs(arrays, ports, str(path))


def _arrays(path: Path) -> Iterator[tuple[str, Array]]:
    """The arrays of an archive; raises ValueError for an entry that is not an array."""
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            array: object = archive[name]
            if not isinstance(array, np.ndarray):
                raise ValueError(f"{name}: not an array")
            yield name, cast("Array", array)


def require_archive(path: Path) -> None:
    """Raises InvalidFileError unless the path is an archive; its arrays are not read."""
    if not is_zipfile(path):
        why = "not an archive, or a truncated one"
        if not path.is_file():
            why = "is a directory" if path.is_dir() else "no such file"
        raise InvalidFileError(f"{path}: expected a numpy archive (.npz) of inputs: {why}")


def check_inputs(arrays: Mapping[str, Array], ports: Sequence[Port], where: str) -> dict[str, Array]:
    """Validates the arrays of the model's inputs; raises InvalidFileError for a missing or unknown name, a
    wrong type or shape."""
    others = [repr(name) for name in arrays if name not in {port.name for port in ports}]
    missing = [repr(port.name) for port in ports if port.name not in arrays]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        held = _listed(list(arrays)) or "none"
        raise InvalidFileError(f"{where}: {_several(missing)} {are} missing; it has {held}")
    if others:
        inputs = _listed([port.name for port in ports]) or "none"
        raise InvalidFileError(f"{where}: the model has no {_several(others)}; its inputs are {inputs}")
    chosen: dict[str, Array] = {}
    for port in ports:
        array = arrays[port.name]
        if port.dtype == "object" and array.dtype.kind in "US":
            array = array.astype(object)
        if port.dtype is not None and array.dtype != np.dtype(port.dtype):
            raise InvalidFileError(f"{where}: input {port.name!r}: expected {port.dtype}, got {array.dtype}")
        if port.has_shape and not _fits(array.shape, port):
            raise InvalidFileError(
                f"{where}: input {port.name!r}: expected shape {list(port.shape)}, got {list(array.shape)}"
            )
        chosen[port.name] = array
    return chosen


def check_dims(dims: Mapping[str, int], lifted: LiftedModel) -> None:
    """Raises InvalidOptionError for a size below 1 or a name that is no open dimension of the model."""
    known = open_names(lifted) if dims else ()
    for name, size in dims.items():
        if size < 1:
            raise InvalidOptionError(f"dimension {name}: expected a size of at least 1, got {size}")
        if name not in known:
            raise InvalidOptionError(f"dim: {unknown_dimension(name, known, lifted.source)}")


def check_agreement(dims: Mapping[str, int], sizes: Mapping[str, int], where: str) -> None:
    """Raises InvalidOptionError where a requested size differs from that of the given inputs."""
    for name, size in dims.items():
        own = sizes.get(name, size)
        if own != size:
            raise InvalidOptionError(
                f"dimension {name}: expected one size, got {size} as an option and {own} in {where}"
            )


def names_apart(source: SourceModel, dims: Collection[str], inputs: Path | None) -> frozenset[str]:
    """Return names of dimensions that several input axes share although their sizes may differ: sizes are
    requested for each axis (``x.2``), or differ in the given inputs."""
    places: dict[str, list[tuple[str, int]]] = {}
    for value in source.proto.graph.input:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if dimension.dim_param:
                places.setdefault(dimension.dim_param, []).append((value.name, axis))
    shapes = {} if inputs is None else input_shapes(inputs)
    found: list[str] = []
    for name, axes in places.items():
        sizes = {shapes[port][axis] for port, axis in axes if axis < len(shapes.get(port, ()))}
        asked = {f"{port}.{axis}" for port, axis in axes} - {name, *places}
        if len(sizes) > 1 or not asked.isdisjoint(dims):
            found.append(name)
    return frozenset(found)


def input_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays in an archive; empty if it cannot be read."""
    try:
        return {name: array.shape for name, array in _arrays(path)}
    except (OSError, ValueError, BadZipFile):
        return {}


def _several(names: Sequence[str]) -> str:
    return f"input {names[0]}" if len(names) == 1 else f"inputs {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])])


def _fits(shape: Sequence[int], port: Port) -> bool:
    return len(shape) == len(port.shape) and all(
        not isinstance(size, int) or size < 0 or size == own
        for size, own in zip(port.shape, shape, strict=True)
    )
