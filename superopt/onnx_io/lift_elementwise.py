"""Lift elementwise arithmetic: broadcasting becomes explicit nodes, per-channel weights become vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.protos import ONNX_ELEMENTS
from superopt.onnx_io.site import NotLiftedError, Site, finite_fraction
from superopt.ops.activation import HardSigmoid, Relu
from superopt.ops.affine import BiasAdd, ChannelScale
from superopt.ops.base import Operator
from superopt.ops.elementwise import Add, Divide, Identity, Multiply, Power, Scale, Subtract
from superopt.ops.filled import Full, Ones
from superopt.ops.shape import Broadcast, Reshape

Lifter = Callable[[Site], tuple[Value | None, ...]]


def broadcast_shape(left: tuple[Dimension, ...], right: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """The numpy broadcast of two shapes; raises NotLiftedError when it depends on the value of a symbol."""
    rank = max(len(left), len(right))
    shape: list[Dimension] = []
    for a, b in zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True):
        if a != b and a != 1 and b != 1:
            raise NotLiftedError(f"whether {a} and {b} broadcast is only known at run time")
        shape.append(b if a == 1 else a)
    return tuple(shape)


def channel_axis(data: TensorType, weight: TensorType) -> int | None:
    """The only axis of ``data`` along which a weight varies; None when it varies along none or several."""
    axes = [axis for axis, size in enumerate(weight.shape) if size != 1]
    if len(axes) != 1 or weight.rank > data.rank:
        return None
    axis = axes[0] + data.rank - weight.rank
    if data.shape[axis] != weight.shape[axes[0]]:
        return None
    return -1 if axis == data.rank - 1 else axis


def _broadcast(site: Site, value: Value, shape: tuple[Dimension, ...]) -> Value:
    return value if site.type_of(value).shape == shape else site.add(Broadcast(shape), value)


def _pointwise(site: Site, operator: Operator, left: Value, right: Value) -> Value:
    shape = broadcast_shape(site.type_of(left).shape, site.type_of(right).shape)
    return site.add(operator, _broadcast(site, left, shape), _broadcast(site, right, shape))


def _vector(site: Site, value: Value) -> Value:
    type_ = site.type_of(value)
    return value if type_.rank == 1 else site.add(Reshape((math.prod(map(int_of, type_.shape)),)), value)


def int_of(dimension: Dimension) -> int:
    """A dimension of a weight, which is always known."""
    assert isinstance(dimension, int)
    return dimension


def _data_and_weight(site: Site) -> tuple[int, int] | None:
    """Which operand is data and which is a weight; None when both are the same."""
    for slot in (0, 1):
        site.type(slot)
    if site.is_weight(0) == site.is_weight(1):
        return None
    return (1, 0) if site.is_weight(0) else (0, 1)


def _is_one_number(weight: TensorType, data: TensorType) -> bool:
    return weight.elements == 1 and weight.rank <= data.rank


def _scalar(site: Site, value: Value) -> Value:
    return value if site.type_of(value).rank == 0 else site.add(Reshape(()), value)


def _per_channel(site: Site, operator: type[BiasAdd] | type[ChannelScale]) -> Value | None:
    slots = _data_and_weight(site)
    if slots is None:
        return None
    data, weight = slots
    axis = channel_axis(site.type(data), site.type(weight))
    if axis is None:
        return None
    return site.add(operator(axis=axis), site.value(data), _vector(site, site.value(weight)))


def _same_for_all_channels(site: Site, data: Value, number: Value) -> Value:
    """A number added to all elements, written as a bias so that a preceding layer can absorb it."""
    vector = site.add(Broadcast((site.type_of(data).shape[1],)), _scalar(site, number))
    return site.add(BiasAdd(axis=1), data, vector)


def is_image(type_: TensorType) -> bool:
    """Whether the tensor is [n, c, h, w] with several channels, of known number."""
    return type_.rank == 4 and isinstance(type_.shape[1], int) and type_.shape[1] > 1


def _number_of(site: Site, slot: int, numbers: tuple[Fraction | int, ...]) -> Fraction | int | None:
    """The number known to rules that a float32 constant equals; None if there is none."""
    content = site.constant(slot)
    if content is None or content.size != 1 or site.type(slot).element is not ElementType.FLOAT:
        return None
    value = float(content.reshape(()))
    return next((number for number in numbers if number == value), None)


def _add(site: Site) -> tuple[Value, ...]:
    slots = _data_and_weight(site)
    if slots is not None and _is_one_number(site.type(slots[1]), site.type(slots[0])):
        data, number = slots
        if _number_of(site, number, (1,)) is not None:
            return (site.add(Add(), site.value(data), site.add(Ones(site.type(data).shape))),)
        if is_image(site.type(data)):
            return (_same_for_all_channels(site, site.value(data), site.value(number)),)
    biased = _per_channel(site, BiasAdd)
    return (biased if biased is not None else _pointwise(site, Add(), site.value(0), site.value(1)),)


def _multiply(site: Site) -> tuple[Value, ...]:
    slots = _data_and_weight(site)
    if slots is not None and _is_one_number(site.type(slots[1]), site.type(slots[0])):
        data, factor = slots
        number = _number_of(site, factor, (Fraction(1, 2), 2))
        if number is None:
            return (site.add(Scale(), site.value(data), _scalar(site, site.value(factor))),)
        return (site.add(Scale(), site.value(data), site.add(Full(number, ()))),)
    scaled = _per_channel(site, ChannelScale)
    return (scaled if scaled is not None else _pointwise(site, Multiply(), site.value(0), site.value(1)),)


def _subtract(site: Site) -> tuple[Value, ...]:
    if _data_and_weight(site) == (0, 1):
        data, weight = site.type(0), site.type(1)
        content = site.constant(1)
        if content is not None and _is_one_number(weight, data) and is_image(data):
            negated = site.number(-float(content.reshape(())), weight.element)
            return (_same_for_all_channels(site, site.value(0), negated),)
        axis = channel_axis(data, weight)
        if axis is not None:
            negated = site.add(Scale(), site.value(1), site.number(-1, weight.element))
            return (site.add(BiasAdd(axis=axis), site.value(0), _vector(site, negated)),)
    return (_pointwise(site, Subtract(), site.value(0), site.value(1)),)


def _divide(site: Site) -> tuple[Value, ...]:
    if _data_and_weight(site) == (0, 1) and _is_one_number(site.type(1), site.type(0)):
        content = site.constant(1)
        divisor = 0.0 if content is None else float(content.reshape(()))
        mantissa, exponent = math.frexp(divisor)
        if abs(mantissa) == 0.5 and -14 < exponent < 15:
            factor = site.number(1 / Fraction(divisor), site.type(0).element)
            return (site.add(Scale(), site.value(0), factor),)
    return (_pointwise(site, Divide(), site.value(0), site.value(1)),)


def _sum(site: Site) -> tuple[Value, ...]:
    total = site.value(0)
    if len(site.node.input) == 1:
        site.type(0)
        return (site.add(Identity(), total),)
    for slot in range(1, len(site.node.input)):
        total = _pointwise(site, Add(), total, site.value(slot))
    return (total,)


def _power(site: Site) -> tuple[Value, ...]:
    data, content = site.type(0), site.constant(1)
    if content is None or content.size != 1:
        raise NotLiftedError("the exponent is no constant number")
    if content.ndim > data.rank:
        raise NotLiftedError("the exponent has more axes than the base")
    return (site.add(Power(finite_fraction(float(content.reshape(())), "the exponent")), site.value(0)),)


def _identity(site: Site) -> tuple[Value, ...]:
    site.type(0)
    return (site.add(Identity(), site.value(0)),)


def _dropout(site: Site) -> tuple[Value | None, ...]:
    site.require_unused(1)
    site.type(0)
    if site.has(2):
        training = site.constant(2)
        if training is None or training.any():
            raise NotLiftedError("it may be in training mode")
    return (site.add(Identity(), site.value(0)), None)


def _cast(site: Site) -> tuple[Value, ...]:
    own = site.type(0)
    if site.integer("to", 0) != ONNX_ELEMENTS.get(own.element):
        raise NotLiftedError("it changes the precision")
    return (site.add(Identity(), site.value(0)),)


def _bound(site: Site, slot: int, attribute: str) -> Fraction | int | None:
    """A bound of a Clip as a number; None if absent."""
    if site.opset < 11:
        return site.fraction(attribute, 0) if site.has_attribute(attribute) else None
    if not site.has(slot):
        return None
    content = site.constant(slot)
    if content is None:
        raise NotLiftedError("a bound is computed at run time")
    value = float(content.reshape(()))
    return None if abs(value) >= _LARGEST else finite_fraction(value, "a bound")


def _kept_range(low: Fraction | int | None, high: Fraction | int | None) -> str:
    match low, high:
        case None, None:
            return "it keeps everything"
        case _, None:
            return f"it keeps what is at least {low}"
        case None, _:
            return f"it keeps what is at most {high}"
        case _:
            return f"it keeps what lies between {low} and {high}"


def _clip(site: Site) -> tuple[Value, ...]:
    """A Clip between 0 and a bound is a scaled hard sigmoid; without the bound it is a relu."""
    site.type(0)
    low, high = _bound(site, 1, "min"), _bound(site, 2, "max")
    if low != 0 or (high is not None and high <= 0):
        raise NotLiftedError(_kept_range(low, high))
    if high is None:
        return (site.add(Relu(), site.value(0)),)
    share = site.add(HardSigmoid(1 / Fraction(high), 0), site.value(0))
    return (site.add(Scale(), share, site.number(high, site.type(0).element)),)


_LARGEST = 3.4e38
"""The largest float32, used by exporters to express that there is no bound."""


def _pad(site: Site) -> tuple[Value, ...]:
    """A pad of size 0, which exporters emit for a margin that turns out to be 0."""
    site.type(0)
    pads = site.integers("pads") if site.opset < 11 else site.constant_integers(1, "the padding")
    if pads is None or any(pads):
        raise NotLiftedError("no operator describes separate padding")
    return (site.add(Identity(), site.value(0)),)


ELEMENTWISE: Mapping[str, Lifter] = {
    "Add": _add,
    "Cast": _cast,
    "Clip": _clip,
    "Div": _divide,
    "Dropout": _dropout,
    "Identity": _identity,
    "Mul": _multiply,
    "Pad": _pad,
    "Pow": _power,
    "Sub": _subtract,
    "Sum": _sum,
}
