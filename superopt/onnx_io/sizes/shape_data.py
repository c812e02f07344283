"""Evaluate small integer tensors before a model runs: shapes, axes and masks computed from sizes alone.

Exporters write sizes as chains of Shape, Gather, Concat and arithmetic. A node of such a chain is evaluated
once its operands are known. A tensor of run-time sizes is an array of symbolic dimensions, so that chains are
followed through it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import cast

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from superopt.domains import Array
from superopt.ir.dimensions import Dimension, SymbolicDimension
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.sizes.arithmetic import (
    Size,
    UnknownContentError,
    is_equal,
    is_greater,
    is_not_less,
    larger,
    quotient,
    real,
    smaller,
    whole,
)
from superopt.onnx_io.sizes.real_sizes import InexactError, RealSize

LARGEST = 4096
"""Maximum elements of a tensor that is evaluated."""

SIZE_READERS = ("Shape", "Size")
"""Operators that read sizes of their operand and nothing else of it."""

_SPLIT_HAS_SIZES = 13
"""The opset since which Split has sizes as an operand."""

Operands = Sequence[Array]


class _Node:
    """The attributes of a node, and its operator set."""

    def __init__(self, proto: onnx.NodeProto, opset: int) -> None:
        self.opset = opset
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    def integer(self, name: str, default: int) -> int:
        return self._attributes[name].i if name in self._attributes else default

    def integers(self, name: str) -> list[int] | None:
        return list(self._attributes[name].ints) if name in self._attributes else None

    def tensor(self, name: str) -> TensorProto | None:
        attribute: AttributeProto | None = self._attributes.get(name)
        return None if attribute is None else attribute.t

    def axes(self, operands: Operands, since: int) -> list[int] | None:
        """Axes as an attribute or, from an opset on, as the second operand."""
        if self.opset < since:
            return self.integers("axes")
        return _integers(operands[1]) if len(operands) > 1 else None


def shape_content(type_: ValueType | None, node: onnx.NodeProto) -> Array | None:
    """The output of a Shape or Size node for an operand of that type; None for unknown rank."""
    if not isinstance(type_, TensorType):
        return None
    if node.op_type == "Size":
        return settled(np.asarray(type_.elements, object))
    attributes = _Node(node, 0)
    return _vector(type_.shape[slice(attributes.integer("start", 0), attributes.integer("end", type_.rank))])


def evaluate(node: onnx.NodeProto, operands: Operands, opset: int) -> Sequence[Array]:
    """The outputs of a node of the standard domain; none where one is unknown or large. ``operands`` are the
    given ones; none may be missing in the middle."""
    if node.op_type not in EVALUATED or not all(node.input) or not all(node.output):
        return ()
    known = _Node(node, opset)
    try:
        with np.errstate(all="ignore"):
            if node.op_type == "Split":
                results = _split(known, operands, len(node.output))
            else:
                results = [np.asarray(RULES[node.op_type](known, operands))]
    except (UnknownContentError, InexactError, ValueError, TypeError, LookupError, ArithmeticError):
        return ()
    is_small = len(results) == len(node.output) and all(result.size <= LARGEST for result in results)
    return [settled(result) for result in results] if is_small else ()


def settled(content: Array) -> Array:
    """Convert dimensions to integers, unless symbols remain."""
    if content.dtype != object or any(
        isinstance(item, SymbolicDimension | RealSize) for item in content.flat
    ):
        return content
    return content.astype(np.int64)


def is_symbolic(content: Array) -> bool:
    """Whether some dimension in it is symbolic."""
    return content.dtype == object


def holds_sizes(content: Array) -> bool:
    """Whether it consists of integers, some of them perhaps symbolic."""
    return content.dtype.kind == "i" or (
        is_symbolic(content) and not any(isinstance(item, RealSize) for item in content.flat)
    )


def dimensions(content: Array) -> tuple[Dimension, ...]:
    """An integer tensor as dimensions, in row-major order."""
    return tuple(cast("Dimension", item if content.dtype == object else int(item)) for item in content.flat)


def _vector(sizes: Sequence[Dimension]) -> Array:
    content = np.empty(len(sizes), object)
    content[:] = sizes
    return settled(content) if len(sizes) else np.empty(0, np.int64)


def _integers(content: Array) -> list[int]:
    if content.dtype.kind != "i":
        raise UnknownContentError("a number that is not known")
    return [int(number) for number in content.reshape(-1)]


def _numbers(operands: Operands) -> Operands:
    if any(is_symbolic(operand) for operand in operands):
        raise UnknownContentError("a size that is not known")
    return operands


def _gather(node: _Node, operands: Operands) -> Array:
    data, indices = operands
    _integers(indices)
    return np.take(data, indices, axis=node.integer("axis", 0))


def _slice(node: _Node, operands: Operands) -> Array:
    data = operands[0]
    if node.opset >= 10:
        given = [_integers(operand) for operand in operands[1:]]
    else:
        given = [node.integers(name) or [] for name in ("starts", "ends", "axes")]
        given = given if given[2] else given[:2]
    starts, ends = given[:2]
    axes = given[2] if len(given) > 2 else list(range(len(starts)))
    steps = given[3] if len(given) > 3 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0 and end >= _LARGEST_INT32:
            raise UnknownContentError("backwards to what some take for the beginning and others for the end")
        data = np.take(data, list(chosen(data.shape[axis], start, end, step)), axis=axis)
    return data


_LARGEST_INT32 = 2**31 - 1


def chosen(size: int, start: int, end: int, step: int) -> range:
    """The indices that ONNX's Slice takes of an axis."""
    start, end = (number + size if number < 0 else number for number in (start, end))
    low, high = (0, size) if step > 0 else (-1, size - 1)
    return range(min(max(start, low if step > 0 else 0), high), min(max(end, low), high), step)


def _squeeze(node: _Node, operands: Operands) -> Array:
    axes = node.axes(operands, 13)
    if axes == []:
        raise UnknownContentError("no axes, which some take for all")
    return np.squeeze(operands[0], None if axes is None else tuple(axes))


def _unsqueeze(node: _Node, operands: Operands) -> Array:
    axes = node.axes(operands, 13)
    if axes is None:
        raise UnknownContentError("no axes")
    return np.expand_dims(operands[0], tuple(axes))


def _concat(node: _Node, operands: Operands) -> Array:
    if any(is_symbolic(operand) for operand in operands):
        operands = [operand.astype(object) for operand in operands]
    return np.concatenate(operands, axis=node.integer("axis", 0))


def _cast(node: _Node, operands: Operands) -> Array:
    to = node.integer("to", 0)
    if is_symbolic(operands[0]):
        if to not in (*_INTEGERS, *_REALS):
            raise UnknownContentError("a size in another type")
        return _each(whole if to in _INTEGERS else real, operands[0])
    dtype = helper.tensor_dtype_to_np_dtype(to)
    if dtype not in _CAST_TO or not np.isfinite(operands[0]).all():
        raise UnknownContentError("another type")
    return operands[0].astype(dtype)


def _each(function: Callable[[Size], object], content: Array) -> Array:
    """The function of each number of a symbolic tensor."""
    return np.asarray(np.frompyfunc(function, 1, 1)(content), object)


def _rounding(
    function: Callable[..., Array], of_size: Callable[[RealSize], Dimension]
) -> Callable[[_Node, Operands], Array]:
    """A function of numbers to whole ones, also of sizes as floating-point numbers."""

    def rule(_: _Node, operands: Operands) -> Array:
        if is_symbolic(operands[0]):
            return _each(lambda size: RealSize(of_size(real(size))), operands[0])
        return function(operands[0])

    return rule


_INTEGERS = (TensorProto.INT64, TensorProto.INT32)
_REALS = (TensorProto.FLOAT, TensorProto.DOUBLE)
_CAST_TO = tuple(map(np.dtype, (np.int32, np.int64, np.bool_, np.float32, np.float64)))


def _reshape(node: _Node, operands: Operands) -> Array:
    data, wanted = operands[0], _integers(operands[1])
    if not node.integer("allowzero", 0):
        wanted = [data.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    return data.reshape(wanted)


def _flatten(node: _Node, operands: Operands) -> Array:
    axis = node.integer("axis", 1)
    shape = operands[0].shape
    return operands[0].reshape(math.prod(shape[:axis]), math.prod(shape[axis:]))


def _constant_of_shape(node: _Node, operands: Operands) -> Array:
    shape, value = _integers(operands[0]), node.tensor("value")
    number = np.zeros(1, np.float32) if value is None else onnx.numpy_helper.to_array(value)
    if math.prod(shape) > LARGEST:
        raise UnknownContentError("a large tensor")
    return np.full(shape, number.reshape(()))


def _expand(_: _Node, operands: Operands) -> Array:
    shape = np.broadcast_shapes(operands[0].shape, tuple(_integers(operands[1])))
    if math.prod(shape) > LARGEST:
        raise UnknownContentError("a large tensor")
    return np.broadcast_to(operands[0], shape)


def _range(_: _Node, operands: Operands) -> Array:
    start, limit, step = (_integers(operand)[0] for operand in operands)
    if len(range(start, limit, step)) > LARGEST:
        raise UnknownContentError("a large tensor")
    return np.arange(start, limit, step, dtype=operands[0].dtype)


def _split(node: _Node, operands: Operands, count: int) -> list[Array]:
    """Return the parts of a vector, of the sizes that are given, else equal ones, of which the last may be
    smaller. The graph has an operator for a split of more axes."""
    (size,) = operands[0].shape
    sizes = node.integers("split") if node.opset < _SPLIT_HAS_SIZES else None
    if len(operands) > 1:
        sizes = _integers(operands[1])
    each = -(-size // count)
    parts = sizes or [min(each, max(size - each * number, 0)) for number in range(count)]
    if len(parts) != count or sum(parts) != size:
        raise UnknownContentError("a split into other sizes")
    return np.split(operands[0], np.cumsum(parts)[:-1].tolist())


def _divide(_: _Node, operands: Operands) -> Array:
    """Return integer quotients, rounded towards zero, which for sizes means downwards."""
    left, right = operands
    if left.dtype.kind == "f":
        return left / right
    result = settled(np.asarray(np.frompyfunc(quotient, 2, 1)(left, right), object))
    return result if is_symbolic(result) else result.astype(right.dtype if is_symbolic(left) else left.dtype)


def _remainder(node: _Node, operands: Operands) -> Array:
    """Return integer remainders: of the divisor's sign, with ``fmod`` of the dividend's."""
    left, right = operands
    if left.dtype.kind == "f" or (not is_symbolic(right) and not np.all(right)):
        raise UnknownContentError("a remainder of floating-point numbers, or by 0")
    if any(map(is_symbolic, operands)):
        return left - right * _divide(node, operands)
    return np.fmod(left, right) if node.integer("fmod", 0) else np.mod(left, right)


def _equal(_: _Node, operands: Operands) -> Array:
    return np.asarray(np.frompyfunc(is_equal, 2, 1)(*operands)).astype(np.bool_)


def _reduction(function: Callable[..., Array], axes_since: int) -> Callable[[_Node, Operands], Array]:
    def rule(node: _Node, operands: Operands) -> Array:
        axes = node.axes(operands, axes_since)
        if not axes and node.integer("noop_with_empty_axes", 0):
            raise UnknownContentError("no reduction")
        keep = bool(node.integer("keepdims", 1))
        axis = tuple(axes) if axes else None
        return np.asarray(function(operands[0], axis=axis, keepdims=keep), operands[0].dtype)

    return rule


def _by(function: Callable[..., Array]) -> Callable[[_Node, Operands], Array]:
    """Elementwise function of sizes, including symbolic ones."""
    return lambda _, operands: np.asarray(function(*operands))


def _by_numbers(function: Callable[..., Array]) -> Callable[[_Node, Operands], Array]:
    """Elementwise function of numbers only."""
    return lambda _, operands: np.asarray(function(*_numbers(operands)))


def _comparison(
    function: Callable[..., Array], of_sizes: Callable[[Dimension, Dimension], bool]
) -> Callable[[_Node, Operands], Array]:
    """A comparison of numbers, also of sizes where it has one result for all."""

    def rule(_: _Node, operands: Operands) -> Array:
        if any(map(is_symbolic, operands)):
            return np.asarray(np.frompyfunc(of_sizes, 2, 1)(*operands)).astype(np.bool_)
        return function(*operands)

    return rule


def _reversed(rule: Callable[[_Node, Operands], Array]) -> Callable[[_Node, Operands], Array]:
    return lambda node, operands: rule(node, operands[::-1])


def _extreme(
    function: Callable[[Array, Array], Array], of_sizes: Callable[[Dimension, Dimension], Dimension]
) -> Callable[[_Node, Operands], Array]:
    def rule(_: _Node, operands: Operands) -> Array:
        is_of_sizes = any(map(is_symbolic, operands))
        extreme = cast("Callable[[Array, Array], Array]", np.frompyfunc(of_sizes, 2, 1))
        return reduce(extreme if is_of_sizes else function, operands)

    return rule


_GREATER = _comparison(np.greater, is_greater)
_NOT_LESS = _comparison(np.greater_equal, is_not_less)

RULES: Mapping[str, Callable[[_Node, Operands], Array]] = {
    "Abs": _by_numbers(np.abs),
    "Add": _by(np.add),
    "And": _by_numbers(np.logical_and),
    "Cast": _cast,
    "Ceil": _rounding(np.ceil, RealSize.ceil),
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Equal": _equal,
    "Expand": _expand,
    "Flatten": _flatten,
    "Floor": _rounding(np.floor, RealSize.floor),
    "Gather": _gather,
    "Greater": _GREATER,
    "GreaterOrEqual": _NOT_LESS,
    "Identity": lambda _, operands: operands[0],
    "Less": _reversed(_GREATER),
    "LessOrEqual": _reversed(_NOT_LESS),
    "Max": _extreme(np.maximum, larger),
    "Min": _extreme(np.minimum, smaller),
    "Mod": _remainder,
    "Mul": _by(np.multiply),
    "Neg": _by_numbers(np.negative),
    "Not": _by_numbers(np.logical_not),
    "Or": _by_numbers(np.logical_or),
    "Range": _range,
    "ReduceProd": _reduction(np.prod, 18),
    "ReduceSum": _reduction(np.sum, 13),
    "Reshape": _reshape,
    "Slice": _slice,
    "Sqrt": _by_numbers(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _by(np.subtract),
    "Transpose": lambda node, operands: np.transpose(operands[0], node.integers("perm")),
    "Unsqueeze": _unsqueeze,
    "Where": _by(np.where),
}
"""Evaluation functions by operator. For floating point, only functions that all machines round alike."""

EVALUATED = frozenset((*RULES, "Split"))
"""All operators that ``evaluate`` knows, the one with several outputs, too."""
