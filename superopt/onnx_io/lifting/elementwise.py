"""Lift elementwise arithmetic: broadcasting becomes explicit nodes, per-channel weights become vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.lifting.site import NotLiftedError, Site, finite_fraction
from superopt.ops.base import Operator
from superopt.ops.elementwise.activation import Elu, HardSigmoid, Relu, Softplus, Tanh
from superopt.ops.elementwise.affine import BiasAdd, ChannelScale
from superopt.ops.elementwise.arithmetic import Add, Divide, Identity, Multiply, Power, Scale, Subtract
from superopt.ops.elementwise.order import Clip, LeakyRelu, Maximum, Minimum, PRelu
from superopt.ops.filled import Full, Ones
from superopt.ops.shape import Broadcast, Reshape

ROOTS: Mapping[Fraction | int, tuple[str, ...]] = {
    -1: ("Reciprocal",),
    Fraction(1, 2): ("Sqrt",),
    Fraction(-1, 2): ("Sqrt", "Reciprocal"),
    Fraction(1, 4): ("Sqrt", "Sqrt"),
    Fraction(-1, 4): ("Sqrt", "Sqrt", "Reciprocal"),
}
"""Powers as ONNX operators one after another, which ONNX Runtime runs faster than Pow."""

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
    return value if site.moved_type(value).shape == shape else site.add(Broadcast(shape), value)


def pointwise(site: Site, operator: Operator, *operands: Value) -> Value:
    """An elementwise operator of operands that broadcast to one shape."""
    shape: tuple[Dimension, ...] = ()
    for operand in operands:
        shape = broadcast_shape(shape, site.moved_type(operand).shape)
    return site.add(operator, *(_broadcast(site, operand, shape) for operand in operands))


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
    if not all(isinstance(size, int) for size in site.type(weight).shape):
        return None
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
    return (biased if biased is not None else pointwise(site, Add(), site.value(0), site.value(1)),)


def _multiply(site: Site) -> tuple[Value, ...]:
    slots = _data_and_weight(site)
    if slots is not None and _is_one_number(site.type(slots[1]), site.type(slots[0])):
        data, factor = slots
        number = _number_of(site, factor, (Fraction(1, 2), 2))
        if number is None:
            return (site.add(Scale(), site.value(data), _scalar(site, site.value(factor))),)
        return (site.add(Scale(), site.value(data), site.add(Full(number, ()))),)
    scaled = _per_channel(site, ChannelScale)
    return (scaled if scaled is not None else pointwise(site, Multiply(), site.value(0), site.value(1)),)


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
    return (pointwise(site, Subtract(), site.value(0), site.value(1)),)


def _divide(site: Site) -> tuple[Value, ...]:
    if _data_and_weight(site) == (0, 1) and _is_one_number(site.type(1), site.type(0)):
        content = site.constant(1)
        divisor = 0.0 if content is None else float(content.reshape(()))
        mantissa, exponent = math.frexp(divisor)
        if abs(mantissa) == 0.5 and -14 < exponent < 15:
            factor = site.number(1 / Fraction(divisor), site.type(0).element)
            return (site.add(Scale(), site.value(0), factor),)
    return (pointwise(site, Divide(), site.value(0), site.value(1)),)


def _chained(site: Site, operator: Operator) -> tuple[Value, ...]:
    """A binary operator applied to all operands, one after another."""
    result = site.value(0)
    if len(site.node.input) == 1:
        site.moved(0)
        return (site.add(Identity(), result),)
    for slot in range(1, len(site.node.input)):
        result = pointwise(site, operator, result, site.value(slot))
    return (result,)


def _or_of_integers(lifter: Lifter, operator: Operator) -> Lifter:
    """The lifter for floating point operands; integers, about which there are no rules, as they are."""

    def lifted(site: Site) -> tuple[Value | None, ...]:
        return lifter(site) if site.moved(0).element.is_float else _chained(site, operator)

    return lifted


def _sum(site: Site) -> tuple[Value, ...]:
    return _chained(site, Add())


def _power(site: Site) -> tuple[Value, ...]:
    data, content = site.type(0), site.constant(1)
    if content is None or content.size != 1:
        raise NotLiftedError("the exponent is no constant number")
    if content.ndim > data.rank:
        raise NotLiftedError("the exponent has more axes than the base")
    exponent = single_number(float(content.reshape(())), "the exponent")
    if exponent in ROOTS:
        site.respell()
    return (site.add(Power(exponent), site.value(0)),)


def _identity(site: Site) -> tuple[Value, ...]:
    site.moved(0)
    return (site.add(Identity(), site.value(0)),)


def _dropout(site: Site) -> tuple[Value | None, ...]:
    site.require_unused(1)
    site.type(0)
    if site.has(2):
        training = site.constant(2)
        if training is None or training.any():
            raise NotLiftedError("it may be in training mode")
    return (site.add(Identity(), site.value(0)), None)


def single_number(value: float, what: str) -> Fraction | int:
    """The number; raises NotLiftedError for one of double precision, which an attribute would round."""
    if np.isfinite(value) and float(np.float32(value)) != value:
        raise NotLiftedError(f"{what} is {value}, which is no number of single precision")
    return finite_fraction(value, what)


def _bound(site: Site, slot: int, attribute: str, absent: float) -> Fraction | int | None:
    """A bound of a Clip as a number; None where it bounds nothing, like ``absent``."""
    if site.opset < 11:
        value = site.decimal(attribute, absent)
    elif site.has(slot):
        content = site.constant(slot)
        if content is None:
            raise NotLiftedError("a bound is computed at run time")
        value = float(content.reshape(()))
    else:
        value = absent
    if value * absent > 0 and abs(value) >= _LARGEST:
        return None
    return single_number(value, "a bound")


def _clip(site: Site) -> tuple[Value, ...]:
    """A Clip between 0 and a bound is a scaled hard sigmoid, so that rules about these apply; one with a
    single bound is a relu, a maximum or a minimum."""
    own, data = site.type(0), site.value(0)
    low, high = _bound(site, 1, "min", -math.inf), _bound(site, 2, "max", math.inf)
    match low, high:
        case None, None:
            return (site.add(Identity(), data),)
        case 0, None:
            return (site.add(Relu(), data),)
        case 0, _ if high is not None and high > 0:
            share = site.add(HardSigmoid(1 / Fraction(high), 0), data)
            return (site.add(Scale(), share, site.number(high, own.element)),)
        case _, None:
            return (pointwise(site, Maximum(), data, site.number(low, own.element)),)
        case None, _:
            return (pointwise(site, Minimum(), data, site.number(high, own.element)),)
        case _:
            return (site.add(Clip(low, high), data),)


def _prelu(site: Site) -> tuple[Value, ...]:
    """With one known slope it is a leaky relu; slopes that differ do so along one axis."""
    data, content = site.type(0), site.constant(1)
    if content is not None and content.size == 1 and content.ndim <= data.rank:
        site.respell()
        return (site.add(LeakyRelu(single_number(float(content.reshape(())), "the slope")), site.value(0)),)
    slopes = site.type(1)
    if data.rank and _is_one_number(slopes, data):
        vector = site.add(Broadcast(data.shape[-1:]), _scalar(site, site.value(1)))
        return (site.add(PRelu(-1), site.value(0), vector),)
    axis = channel_axis(data, slopes)
    if axis is None or not isinstance(data.shape[axis], int):
        raise NotLiftedError("its slopes do not vary along one axis of known size")
    return (site.add(PRelu(axis), site.value(0), _vector(site, site.value(1))),)


def _mish(site: Site) -> tuple[Value, ...]:
    data = site.value(0)
    gate = site.add(Tanh(), site.add(Softplus(), data))
    return (site.add(Multiply(), data, gate),)


def _selu(site: Site) -> tuple[Value, ...]:
    alpha = single_number(site.decimal("alpha", 1.67326319217681884765625), "alpha")
    gamma = single_number(site.decimal("gamma", 1.05070102214813232421875), "gamma")
    own = site.type(0)
    return (site.add(Scale(), site.add(Elu(alpha), site.value(0)), site.number(gamma, own.element)),)


def _extremum(operator: Operator) -> Lifter:
    """Max and Min of any number of operands."""

    def lifter(site: Site) -> tuple[Value, ...]:
        for slot in range(len(site.node.input)):
            content = site.constant(slot)
            if content is not None and not np.isfinite(content).all():
                raise NotLiftedError("an operand is not finite")
        return _chained(site, operator)

    return lifter


_LARGEST = 3.4e38
"""The largest float32, used by exporters to express that there is no bound."""


ELEMENTWISE: Mapping[str, Lifter] = {
    "Add": _or_of_integers(_add, Add()),
    "Clip": _clip,
    "Div": _divide,
    "Dropout": _dropout,
    "Identity": _identity,
    "Max": _extremum(Maximum()),
    "Min": _extremum(Minimum()),
    "Mish": _mish,
    "Mul": _or_of_integers(_multiply, Multiply()),
    "PRelu": _prelu,
    "Pow": _power,
    "Selu": _selu,
    "Sub": _or_of_integers(_subtract, Subtract()),
    "Sum": _sum,
}
