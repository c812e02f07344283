"""The ONNX graph of a network as calls that another framework evaluates, node by node.

Integer constants are numpy arrays, since frameworks need shapes, axes and positions as numbers; other
constants and weights are the framework's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from superopt.errors import UnsupportedError

Array: TypeAlias = "npt.NDArray[Any]"
Tensor: TypeAlias = Any
"""A tensor of the framework, or a numpy array of integers."""
Attributes: TypeAlias = "Mapping[str, Any]"
Function: TypeAlias = "Callable[..., Any]"
"""(attributes, operands) -> output, or a tuple of outputs; a missing operand is None."""


@dataclass(frozen=True, slots=True)
class Call:
    """A node."""

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Network:
    """A graph: its calls in order, its constants and weights by name, and its first output."""

    calls: tuple[Call, ...]
    constants: Mapping[str, Array]
    output: str

    @staticmethod
    def read(path: Path) -> Network:
        """The graph of an ONNX file."""
        graph = onnx.load(path).graph
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        calls: list[Call] = []
        for node in graph.node:
            attributes = {own.name: helper.get_attribute_value(own) for own in node.attribute}
            if node.op_type == "Constant":
                constants[node.output[0]] = numpy_helper.to_array(attributes["value"])
            else:
                calls.append(Call(node.op_type, tuple(node.input), tuple(node.output), attributes))
        return Network(tuple(calls), constants, graph.output[0].name)

    def tensors(self, convert: Callable[[Array], Tensor]) -> dict[str, Tensor]:
        """The constants, all but integers converted."""
        return {
            name: array if array.dtype.kind == "i" else convert(array)
            for name, array in self.constants.items()
        }

    def evaluated(self, functions: Mapping[str, Function], values: Mapping[str, Tensor]) -> Tensor:
        """The first output, for the values of inputs and constants."""
        known: dict[str, Tensor] = {**values, "": None}
        for call in self.calls:
            found = functions[call.op_type](call.attributes, *(known[name] for name in call.inputs))
            outputs = found if isinstance(found, tuple) else (found,)
            known.update(zip(call.outputs, outputs, strict=False))
        return known[self.output]

    def require(self, functions: Mapping[str, Function]) -> None:
        """Raises UnsupportedError for a node without a function."""
        missing = sorted({call.op_type for call in self.calls if call.op_type not in functions})
        if missing:
            raise UnsupportedError(f"no equivalent of the nodes {', '.join(missing)}")


def integers(numbers: Any) -> tuple[int, ...]:
    """An attribute or an integer operand as a tuple."""
    return tuple(int(number) for number in np.asarray(numbers).reshape(-1))


def axes_of(attributes: Attributes, operand: Array | None) -> tuple[int, ...]:
    """The axes, an attribute before opset 13 and an operand since."""
    return integers(attributes["axes"] if operand is None else operand)


def reshaped_to(shape: Sequence[int], wanted: Array) -> tuple[int, ...]:
    """The shape that Reshape is asked for: 0 keeps a size."""
    return tuple(shape[axis] if size == 0 else size for axis, size in enumerate(integers(wanted)))


def slices(
    rank: int, starts: Array, ends: Array, axes: Array | None, steps: Array | None
) -> tuple[slice, ...]:
    """What Slice cuts, by axis."""
    found = [slice(None)] * rank
    places = range(len(starts)) if axes is None else integers(axes)
    strides = (1,) * len(starts) if steps is None else integers(steps)
    for axis, start, end, step in zip(places, integers(starts), integers(ends), strides, strict=True):
        found[axis] = slice(start, end, step)
    return tuple(found)


def sliced(
    attributes: Attributes,
    x: Tensor,
    starts: Array,
    ends: Array,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Tensor:
    """The part of a tensor that Slice cuts."""
    del attributes
    return x[slices(x.ndim, starts, ends, axes, steps)]


def part_sizes(length: int, count: int, sizes: Array | None) -> tuple[int, ...]:
    """The sizes into which Split divides an axis."""
    return integers(sizes) if sizes is not None else (length // count,) * count


__all__ = [
    "Array",
    "Attributes",
    "Call",
    "Function",
    "Network",
    "Tensor",
    "axes_of",
    "integers",
    "part_sizes",
    "reshaped_to",
    "sliced",
    "slices",
]
