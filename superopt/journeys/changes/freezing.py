"""The model of a request for fixed sizes: which sizes are meant, and the model frozen at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.onnx_io.changes.freezing import freeze, open_axes, sizes_at
from superopt.onnx_io.files.source import SourceModel
from superopt.optimizer.check import input_shapes
from superopt.optimizer.pipeline.reporting.report import section_of
from superopt.options import Options


def as_requested(source: SourceModel, options: Options) -> SourceModel:
    """The model frozen as the options say; the same model where they do not. Raises InvalidOptionError."""
    sizes = _sizes_of_inputs(source, options) if options.freeze == "all" else options.freeze
    if not sizes:
        return source
    twice = [name for name in options.dims if name in sizes]
    if twice:
        raise InvalidOptionError(f"dimension {twice[0]}: expected --dim or --freeze, got both")
    return freeze(source, sizes)


def as_recorded(source: SourceModel, report: Mapping[str, object]) -> SourceModel:
    """The model frozen as it was for a report. Raises InvalidFileError where the report does not fit it."""
    sizes = section_of(section_of(report, "model"), "frozen")
    wrong = {name: size for name, size in sizes.items() if not isinstance(size, int) or size < 1}
    if wrong:
        raise InvalidFileError(f"report: expected sizes of at least 1 as model.frozen, got {wrong}")
    try:
        return freeze(source, cast("Mapping[str, int]", sizes)) if sizes else source
    except InvalidOptionError as error:
        raise InvalidFileError(f"report: {error}") from None


def _sizes_of_inputs(source: SourceModel, options: Options) -> dict[str, int]:
    """The size of every open axis in the given inputs."""
    if options.inputs is None:
        raise InvalidOptionError("freeze: all takes the sizes of given inputs: give --inputs, or NAME=SIZE")
    shapes = input_shapes(options.inputs)
    for axis in open_axes(source):
        if axis.axis >= len(shapes.get(axis.port, ())):
            raise InvalidOptionError(f"freeze: {options.inputs} does not say the size of {axis.place}")
    return sizes_at(source, shapes)


__all__ = ["as_recorded", "as_requested"]
