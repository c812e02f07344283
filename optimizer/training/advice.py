"""What to try where a gradient does not exist."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.errors import UnsupportedError
from superopt.ir.graph import Value
from superopt.onnx_io import SourceModel
from superopt.onnx_io.changes.freezing import open_axes
from superopt.optimizer.training.gradients.reverse import NoGradientError

_NAMED = 3
"""Number of parameters that are named; of more, the number is said."""


def advice(error: UnsupportedError, source: SourceModel, parameters: Mapping[str, Value]) -> str:
    """A sentence about the sizes that can be fixed and the parameters that can be kept as they are.

    ``parameters`` are those that are trained, with their values in the differentiated graph.
    """
    sized = not isinstance(error, NoGradientError) or error.for_its_sizes
    names = list(dict.fromkeys(axis.name for axis in open_axes(source))) if sized else []
    fixed = [f"fix open sizes ({', '.join(names)}) with --freeze NAME=SIZE"] if names else []
    sources = error.sources if isinstance(error, NoGradientError) else ()
    before = [name for name, value in parameters.items() if value in sources]
    if before and len(before) == len(parameters):
        nothing = "every parameter that is trained lies before it, so that keeping them leaves none to train"
        return "; ".join([*fixed, nothing])
    return ", or ".join([*fixed, f"keep {_named(before)}"])


def _named(before: list[str]) -> str:
    if len(before) > _NAMED:
        return f"the {len(before)} parameters before it, {before[0]!r} to {before[-1]!r}, with --frozen NAME"
    options = " ".join(f"--frozen {name!r}" for name in before)
    return f"the parameters before it with {options or '--frozen NAME'}"


__all__ = ["advice"]
