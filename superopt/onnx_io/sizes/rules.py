"""Output shapes from symbolic shapes and contents of operands, where ONNX infers them from numbers only.

A rule returns one shape per output, with None for a size that it does not know, or None where it does not
know the rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

import onnx
from onnx import helper

from superopt.domains import Array
from superopt.ir.bounds import is_multiple, is_not_negative, is_positive
from superopt.ir.dimensions import Dimension, floor_divide, product, sum_of
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.sizes.shape_data import chosen, dimensions, holds_sizes
from superopt.onnx_io.sizes.sliding import slid

Shape: TypeAlias = "Sequence[Dimension | None]"
Shapes: TypeAlias = "Sequence[Shape | None]"

_UNBOUNDED = 10**9
"""Larger than any size: exporters use such an end, or a larger one, for a slice up to the end of an axis."""


class Call:
    """A node with what is known of its operands: their types, and the contents of those that hold sizes."""

    def __init__(
        self,
        node: onnx.NodeProto,
        opset: int,
        types: Sequence[ValueType | None],
        contents: Sequence[Array | None],
    ) -> None:
        self.node = node
        self.opset = opset
        self.types = types
        self._contents = contents
        self._attributes = {attribute.name: attribute for attribute in node.attribute}

    def shape(self, slot: int) -> tuple[Dimension, ...] | None:
        """The shape of an operand."""
        type_ = self.types[slot] if slot < len(self.types) else None
        return type_.shape if isinstance(type_, TensorType) else None

    def is_given(self, slot: int) -> bool:
        """Whether the operand is given."""
        return slot < len(self.node.input) and bool(self.node.input[slot])

    def content(self, slot: int) -> Array | None:
        """The content of an operand."""
        return self._contents[slot] if slot < len(self._contents) else None

    def sizes(self, slot: int) -> Shape | None:
        """A vector of sizes; None for those that are unknown, or where even their number is."""
        content = self.content(slot)
        if content is not None and holds_sizes(content):
            return dimensions(content)
        shape = self.shape(slot)
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int):
            return None
        return (None,) * shape[0]

    def attribute(self, name: str, default: object = None) -> object:
        """The value of an attribute."""
        found = self._attributes.get(name)
        return default if found is None else helper.get_attribute_value(found)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return self._attributes[name].i if name in self._attributes else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An integer list attribute, None if absent."""
        return tuple(self._attributes[name].ints) if name in self._attributes else None


def own_shapes(call: Call) -> Shapes | None:
    """The shapes of a node's outputs by its rule; None where there is none, or where it does not apply."""
    rule = RULES.get(call.node.op_type)
    try:
        return None if rule is None else rule(call)
    except (IndexError, ValueError, ZeroDivisionError, OverflowError):
        return None


def reshaped(own: tuple[Dimension, ...], wanted: Shape, *, copies_zero: bool) -> Shape:
    """The shape that ONNX's Reshape gives a tensor; at most one size is -1."""
    shape = [own[axis] if size == 0 and copies_zero else size for axis, size in enumerate(wanted)]
    if -1 not in shape:
        return shape
    known = _product([size for size in shape if size != -1])
    rest = None if known in (None, 0) else floor_divide(product(own), known)
    return [rest if size == -1 else size for size in shape]


def _product(sizes: Sequence[Dimension | None]) -> Dimension | None:
    known = [size for size in sizes if size is not None]
    return product(known) if len(known) == len(sizes) else None


def _reshape(call: Call) -> Shapes | None:
    own, wanted = call.shape(0), call.sizes(1)
    if wanted is None:
        return None
    if own is None:
        return [[size if isinstance(size, int) and size > 0 else None for size in wanted]]
    return [reshaped(own, wanted, copies_zero=not call.integer("allowzero", 0))]


def _flatten(call: Call) -> Shapes | None:
    own = call.shape(0)
    if own is None:
        return [[None, None]]
    axis = call.integer("axis", 1)
    axis = axis + len(own) if axis < 0 else axis
    return [[product(own[:axis]), product(own[axis:])]]


def _expand(call: Call) -> Shapes | None:
    own, wanted = call.shape(0), call.sizes(1)
    if own is None or wanted is None:
        return None
    rank = max(len(own), len(wanted))
    pairs = zip([1] * (rank - len(own)) + [*own], [1] * (rank - len(wanted)) + [*wanted], strict=True)
    return [[_common(old, new) for old, new in pairs]]


def _common(first: Dimension | None, second: Dimension | None) -> Dimension | None:
    """The size of two that broadcast, where it is sure."""
    if first == second or second == 1:
        return first
    if first == 1:
        return second
    return next((size for size in (first, second) if isinstance(size, int)), None)


def _constant_of_shape(call: Call) -> Shapes | None:
    wanted = call.sizes(0)
    return None if wanted is None else [wanted]


def _range(call: Call) -> Shapes | None:
    sizes = [call.sizes(slot) for slot in range(3)]
    if any(size is None or len(size) != 1 or size[0] is None for size in sizes):
        return [[None]]
    start, limit, step = (size[0] for size in sizes if size is not None)
    if start is None or limit is None or not isinstance(step, int) or step < 1:
        return [[None]]
    room = limit - start
    return [[floor_divide(room + (step - 1), step) if is_not_negative(room) else None]]


def _concat(call: Call) -> Shapes | None:
    parts = [call.shape(slot) for slot in range(len(call.node.input))]
    known = [part for part in parts if part is not None]
    if not known:
        return None
    axis = call.integer("axis", 0)
    axis = axis + len(known[0]) if axis < 0 else axis
    shape: list[Dimension | None] = [*map(_agreed, zip(*known, strict=True))]
    shape[axis] = sum_of(part[axis] for part in known) if len(known) == len(parts) else None
    return [shape]


def _agreed(sizes: Sequence[Dimension]) -> Dimension:
    """The size of all, which must be equal when the model runs: a number if one is known."""
    return next((size for size in sizes if isinstance(size, int)), sizes[0])


def _slice(call: Call) -> Shapes | None:
    own = call.shape(0)
    if own is None:
        return None
    shape: list[Dimension | None] = list(own)
    starts, ends, axes, steps = _bounds(call, len(own))
    if axes is None:
        return [[None] * len(own)]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        shape[axis] = _cut(own[axis], start, end, step)
    return [shape]


def _bounds(call: Call, rank: int) -> tuple[Shape, Shape, Sequence[int] | None, Shape]:
    if call.opset < 10:
        starts: Shape | None = call.integers("starts")
        ends: Shape | None = call.integers("ends")
        axes: Shape | None = call.integers("axes")
        steps: Shape | None = None
    else:
        starts, ends = call.sizes(1), call.sizes(2)
        axes, steps = (call.sizes(slot) if call.is_given(slot) else None for slot in (3, 4))
        if (axes is None and call.is_given(3)) or (steps is None and call.is_given(4)):
            return (), (), None, ()
    if starts is None or ends is None:
        return (), (), None, ()
    axes = range(len(starts)) if axes is None else axes
    known = [axis + rank if axis < 0 else axis for axis in axes if isinstance(axis, int)]
    steps = (1,) * len(starts) if steps is None else steps
    return starts, ends, known if len(known) == len(axes) else None, steps


def _cut(
    size: Dimension, start: Dimension | None, end: Dimension | None, step: Dimension | None
) -> Dimension | None:
    """The number of elements that a slice takes of an axis."""
    if start is None or end is None or not isinstance(step, int):
        return None
    if all(isinstance(number, int) for number in (size, start, end)):
        return len(chosen(_int(size), _int(start), _int(end), step))
    if step < 1:
        return None
    first, last = _place(size, start), _place(size, end)
    if first is None or last is None or not is_not_negative(last - first):
        return None
    return floor_divide(last - first + (step - 1), step)


def _place(size: Dimension, number: Dimension) -> Dimension | None:
    """A bound of a slice, counted from the beginning and not beyond the end, where it is sure."""
    if isinstance(number, int):
        if number >= _UNBOUNDED:
            return size
        if number < 0:
            return size + number if is_not_negative(size + number) else None
    elif not is_not_negative(number):
        return None
    return number if is_not_negative(size - number) else None


def _int(dimension: Dimension) -> int:
    assert isinstance(dimension, int)
    return dimension


def _split(call: Call) -> Shapes | None:
    own, count = call.shape(0), len(call.node.output)
    if own is None:
        return None
    axis = call.integer("axis", 0)
    axis = axis + len(own) if axis < 0 else axis
    if call.opset >= 13:
        sizes = call.sizes(1) if call.is_given(1) else None
        known = sizes if call.is_given(1) else _equal_parts(own[axis], count)
    else:
        known = call.integers("split") or _equal_parts(own[axis], count)
    if known is None or len(known) != count:
        known = (None,) * count
    return [(*own[:axis], size, *own[axis + 1 :]) for size in known]


def _equal_parts(size: Dimension, count: int) -> Shape | None:
    return (floor_divide(size, count),) * count if is_multiple(size, count) else None


def _tile(call: Call) -> Shapes | None:
    own, times = call.shape(0), call.sizes(1)
    if own is None or times is None:
        return None
    return [[None if n is None else size * n for size, n in zip(own, times, strict=True)]]


def _pad(call: Call) -> Shapes | None:
    own = call.shape(0)
    if own is None:
        return None
    margins = call.integers("pads") if call.opset < 11 else call.sizes(1)
    if margins is None or call.is_given(3) or len(margins) != 2 * len(own):
        return [[None] * len(own)]
    ends = zip(own, margins[: len(own)], margins[len(own) :], strict=True)
    return [[None if a is None or b is None else size + a + b for size, a, b in ends]]


def _resize(call: Call) -> Shapes | None:
    """Sizes where they are given, or scales that are small binary fractions, which no rounding affects."""
    own = call.shape(0)
    if own is None:
        return None
    policy = call.attribute("keep_aspect_ratio_policy", b"stretch")
    if call.integers("axes") is not None or policy != b"stretch":
        return [[None] * len(own)]
    if call.is_given(3):
        sizes = call.sizes(3)
        return [sizes if sizes is not None and len(sizes) == len(own) else [None] * len(own)]
    scales = call.content(2 if call.opset >= 11 else 1)
    if scales is None or scales.dtype.kind != "f" or scales.size != len(own):
        return [[None] * len(own)]
    return [[_scaled(size, float(scale)) for size, scale in zip(own, scales.reshape(-1), strict=True)]]


_FINEST = 64
"""Largest denominator of a scale whose products with sizes are exact in single precision."""


def _scaled(size: Dimension, scale: float) -> Dimension | None:
    factor = Fraction(scale)
    if scale <= 0 or not math.isfinite(scale) or factor.denominator > _FINEST:
        return None
    return floor_divide(size * factor.numerator, factor.denominator)


def _windows(call: Call) -> Shapes | None:
    own = slid(call.node, call.types)
    return None if own is None else [own.shape]


def _transposed_convolution(call: Call) -> Shapes | None:
    data, weight = call.shape(0), call.shape(1)
    if data is None:
        return None
    axes = len(data) - 2
    channels = (
        weight[1] * call.integer("group", 1) if weight is not None and len(weight) == len(data) else None
    )
    kernel: tuple[Dimension, ...] = call.integers("kernel_shape") or (() if weight is None else weight[2:])
    strides, dilations = call.integers("strides") or (1,) * axes, call.integers("dilations") or (1,) * axes
    pads, extra = call.integers("pads") or (0,) * 2 * axes, call.integers("output_padding") or (0,) * axes
    automatic = call.attribute("auto_pad", b"NOTSET")
    if len(kernel) != axes or automatic not in (b"NOTSET", b"VALID") or call.integers("output_shape"):
        return [[data[0], channels, *[None] * axes]]
    sizes = [
        strides[axis] * (data[axis + 2] - 1)
        + (kernel[axis] - 1) * dilations[axis]
        + (1 + extra[axis] - pads[axis] - pads[axis + axes])
        for axis in range(axes)
    ]
    return [[data[0], channels, *sizes]]


def _depth_to_space(call: Call) -> Shapes | None:
    own, block = call.shape(0), call.integer("blocksize", 0)
    if own is None or len(own) != 4 or not is_multiple(own[1], block * block):
        return None
    return [[own[0], floor_divide(own[1], block * block), own[2] * block, own[3] * block]]


def _squeeze(call: Call) -> Shapes | None:
    """Without axes, of what is surely 1 or surely more; with axes ONNX infers it."""
    own = call.shape(0)
    has_axes = call.is_given(1) if call.opset >= 13 else call.integers("axes") is not None
    if own is None or has_axes or any(size != 1 and not is_positive(size - 1) for size in own):
        return None
    return [[size for size in own if size != 1]]


RULES: Mapping[str, Callable[[Call], Shapes | None]] = {
    "AveragePool": _windows,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Conv": _windows,
    "ConvInteger": _windows,
    "ConvTranspose": _transposed_convolution,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "LpPool": _windows,
    "MaxPool": _windows,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Upsample": _resize,
}
"""Shape rules by operator, for what ``onnx.shape_inference`` leaves open with symbolic sizes."""


__all__ = ["Call", "Shape", "Shapes", "own_shapes", "reshaped"]
