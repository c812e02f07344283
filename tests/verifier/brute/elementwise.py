"""Functions of one number or two, and steps with one number per channel, written anew in plain numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from tests.verifier.brute.basics import Attributes, Real, Shape, ShapeOf, ValueOf, axis_of, need


def _same(_: Attributes, *shapes: Shape) -> Shape:
    need(all(shape == shapes[0] for shape in shapes))
    return shapes[0]


def _scaled(_: Attributes, tensor: Shape, factor: Shape) -> Shape:
    need(factor == ())
    return tensor


def power(attributes: Attributes, x: Real) -> Real:
    exponent = Fraction(attributes["exponent"])
    base = x if exponent.denominator == 1 else np.where(x >= 0, x, np.nan)
    return quotient(np.ones_like(x), base ** float(-exponent)) if exponent < 0 else base ** float(exponent)


def quotient(x: Real, y: Real) -> Real:
    """Undefined by zero, whatever is divided."""
    return np.where(y == 0, np.nan, x / y)


def sigmoid(x: Real) -> Real:
    return 1 / (1 + np.exp(-x))


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(attributes: Attributes, x: Real) -> Real:
    if attributes.get("approximate", "none") == "tanh":
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + _erf(x / math.sqrt(2)))


def _softmax(attributes: Attributes, x: Real) -> Real:
    powers = np.exp(x)
    return powers / powers.sum(axis=axis_of(attributes, x.shape), keepdims=True)


def _log_softmax(attributes: Attributes, x: Real) -> Real:
    largest = x.max(axis=axis_of(attributes, x.shape), keepdims=True)
    total = np.exp(x - largest).sum(axis=axis_of(attributes, x.shape), keepdims=True)
    return x - largest - np.log(total)


def _softmax_shape(attributes: Attributes, shape: Shape) -> Shape:
    axis_of(attributes, shape)
    return shape


def _row_shape(_: Attributes, rows: Shape, *vectors: Shape) -> Shape:
    need(len(rows) > 0)
    need(all(vector == rows[-1:] for vector in vectors))
    return rows


def _rms(attributes: Attributes, x: Real, scale: Real) -> Real:
    square = (x**2).mean(axis=-1, keepdims=True)
    return quotient(x, np.sqrt(square + float(attributes.get("epsilon", 1e-5)))) * scale


def _layer_normalization(attributes: Attributes, x: Real, scale: Real, bias: Real) -> Real:
    variance = x.var(axis=-1, keepdims=True)
    deviation = np.sqrt(variance + float(attributes.get("epsilon", 1e-5)))
    return quotient(x - x.mean(axis=-1, keepdims=True), deviation) * scale + bias


def _reduced_shape(attributes: Attributes, shape: Shape) -> Shape:
    axis = axis_of(attributes, shape)
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _hard_sigmoid(attributes: Attributes, x: Real) -> Real:
    alpha, beta = attributes.get("alpha", Fraction(1, 5)), attributes.get("beta", Fraction(1, 2))
    return np.clip(float(alpha) * x + float(beta), 0, 1)


def _channelwise(attributes: Attributes, tensor: Shape, *vectors: Shape) -> Shape:
    axis = axis_of(attributes, tensor)
    need(all(vector == (tensor[axis],) for vector in vectors))
    return tensor


def _along(attributes: Attributes, x: Real, vector: Real) -> Real:
    shape = [1] * x.ndim
    shape[axis_of(attributes, x.shape)] = len(vector)
    return vector.reshape(shape)


def _truth(*operands: Real, of: Real) -> Real:
    """1 and 0; undefined where an operand is."""
    return np.where(np.isnan(sum(operands, np.zeros(()))), np.nan, of.astype(np.float64))


def _selected(_: Attributes, condition: Real, x: Real, y: Real) -> Real:
    return np.where(np.isnan(condition), np.nan, np.where(condition > 0, x, y))


def _vectors(_: Attributes, *shapes: Shape) -> Shape:
    need(all(len(shape) == 1 and shape == shapes[0] for shape in shapes))
    return shapes[0]


SHAPES: Mapping[str, ShapeOf] = {
    **dict.fromkeys(
        ("add", "sum", "sub", "mul", "div", "identity", "sqrt", "power", "relu", "sigmoid"), _same
    ),
    **dict.fromkeys(
        ("tanh", "hard_sigmoid", "hard_swish", "silu", "erf", "gelu", "exp", "log", "softplus", "elu"), _same
    ),
    **dict.fromkeys(("sin", "cos"), _same),
    **dict.fromkeys(("maximum", "minimum", "absolute", "clip", "leaky_relu"), _same),
    **dict.fromkeys(
        ("cast", "select", "greater", "equal", "logical_and", "logical_or", "logical_not"), _same
    ),
    **dict.fromkeys(("affine", "channel_scale", "bias_add", "prelu"), _channelwise),
    **dict.fromkeys(("batchnorm_scale", "batchnorm_shift"), _vectors),
    **dict.fromkeys(("reduce_sum", "reduce_mean", "reduce_max", "reduce_min"), _reduced_shape),
    **dict.fromkeys(("rms_normalization", "layer_normalization"), _row_shape),
    "scale": _scaled,
    **dict.fromkeys(("softmax", "log_softmax"), _softmax_shape),
}

VALUES: Mapping[str, ValueOf] = {
    "add": lambda _, x, y: x + y,
    "sum": lambda _, x, y: x + y,
    "softplus": lambda _, x: np.logaddexp(0, x),
    "elu": lambda attributes, x: np.where(
        x > 0, x, float(attributes.get("alpha", 1)) * np.expm1(np.minimum(x, 0))
    ),
    "sub": lambda _, x, y: x - y,
    "mul": lambda _, x, y: x * y,
    "div": lambda _, x, y: quotient(x, y),
    "scale": lambda _, x, s: x * s,
    "identity": lambda _, x: x,
    "sqrt": lambda _, x: np.sqrt(x),
    "power": power,
    "relu": lambda _, x: np.maximum(x, 0),
    "sigmoid": lambda _, x: sigmoid(x),
    "sin": lambda _, x: np.sin(x),
    "cos": lambda _, x: np.cos(x),
    "tanh": lambda _, x: np.tanh(x),
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda _, x: x * np.clip(x / 6 + 0.5, 0, 1),
    "silu": lambda a, x: x * sigmoid(float(a.get("alpha", 1)) * x),
    "erf": lambda _, x: _erf(x),
    "gelu": _gelu,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "exp": lambda _, x: np.exp(x),
    "log": lambda _, x: np.log(np.where(x > 0, x, np.nan)),
    "maximum": lambda _, x, y: np.where(x > y, x, y) + 0 * (x + y),
    "minimum": lambda _, x, y: np.where(x > y, y, x) + 0 * (x + y),
    "absolute": lambda _, x: np.abs(x),
    "clip": lambda a, x: np.minimum(np.maximum(x, float(a["low"])), float(a["high"])),
    "leaky_relu": lambda a, x: np.where(x < 0, float(a.get("alpha", 0.01)) * x, x),
    "cast": lambda _, x: x,
    "select": _selected,
    "greater": lambda _, x, y: _truth(x, y, of=x > y),
    "equal": lambda _, x, y: _truth(x, y, of=x == y),
    "logical_and": lambda _, x, y: _truth(x, y, of=(x > 0) & (y > 0)),
    "logical_or": lambda _, x, y: _truth(x, y, of=(x > 0) | (y > 0)),
    "logical_not": lambda _, x: _truth(x, of=x <= 0),
    "reduce_sum": lambda a, x: x.sum(axis=axis_of(a, x.shape), keepdims=True),
    "reduce_mean": lambda a, x: x.mean(axis=axis_of(a, x.shape), keepdims=True),
    "reduce_max": lambda a, x: x.max(axis=axis_of(a, x.shape), keepdims=True),
    "reduce_min": lambda a, x: x.min(axis=axis_of(a, x.shape), keepdims=True),
    "rms_normalization": _rms,
    "layer_normalization": _layer_normalization,
    "affine": lambda a, x, s, t: x * _along(a, x, s) + _along(a, x, t),
    "prelu": lambda a, x, s: np.where(x < 0, x * _along(a, x, s), x),
    "channel_scale": lambda a, x, s: x * _along(a, x, s),
    "bias_add": lambda a, x, t: x + _along(a, x, t),
    "batchnorm_scale": lambda a, g, v: quotient(g, np.sqrt(v + float(a.get("epsilon", 1e-5)))),
    "batchnorm_shift": lambda _, s, b, m: b - m * s,
}
