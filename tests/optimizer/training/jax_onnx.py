"""ONNX operators of a few networks in plain JAX, written from ONNX's definitions, and their training.

Nothing of the project is used: neither its graphs, nor its operators, nor its optimisers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import onnx
from jax import lax
from onnx import helper, numpy_helper

Array: TypeAlias = "npt.NDArray[Any]"
Tensors: TypeAlias = "dict[str, Any]"
Attributes: TypeAlias = "Mapping[str, Any]"
Rule: TypeAlias = "Callable[..., Any]"


def _conv(a: Attributes, x: Any, w: Any, b: Any = None) -> Any:
    pads = a.get("pads", [0] * 4)
    y = lax.conv_general_dilated(
        x, w, a.get("strides", [1, 1]), [(pads[0], pads[2]), (pads[1], pads[3])],
        rhs_dilation=a.get("dilations", [1, 1]), feature_group_count=a.get("group", 1),
    )  # fmt: skip
    return y if b is None else y + b[:, None, None]


def _batch_norm(a: Attributes, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    """With the statistics of the batch."""
    del mean, variance
    own, spread = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    normal = (x - own) / jnp.sqrt(spread + a.get("epsilon", 1e-5))
    return normal * scale[:, None, None] + bias[:, None, None]


def _max_pool(a: Attributes, x: Any) -> Any:
    pads = a.get("pads", [0] * 4)
    margins = ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]))
    return lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 1, *a["kernel_shape"]), (1, 1, *a["strides"]), margins
    )  # fmt: skip


def _layer_norm(a: Attributes, x: Any, scale: Any, bias: Any) -> Any:
    own, spread = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - own) / jnp.sqrt(spread + a.get("epsilon", 1e-5)) * scale + bias


def _gemm(a: Attributes, x: Any, w: Any, b: Any = 0.0) -> Any:
    x, w = (x.T if a.get("transA") else x), (w.T if a.get("transB") else w)
    return a.get("alpha", 1.0) * (x @ w) + a.get("beta", 1.0) * b


def _reshape(a: Attributes, x: Any, shape: Any) -> Any:
    del a
    return x.reshape([x.shape[i] if n == 0 else int(n) for i, n in enumerate(np.asarray(shape))])


def _unsqueeze(a: Attributes, x: Any, axes: Any) -> Any:
    del a
    return jnp.expand_dims(x, tuple(np.asarray(axes).tolist()))


def _cast(a: Attributes, x: Any) -> Any:
    return x.astype(helper.tensor_dtype_to_np_dtype(a["to"]))


def _plain(function: Callable[..., Any]) -> Rule:
    return lambda _, *operands: function(*operands)


RULES: Mapping[str, Rule] = {
    "Add": _plain(jnp.add),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Concat": lambda a, *parts: jnp.concatenate(parts, a["axis"]),
    "Conv": _conv,
    "Cos": _plain(jnp.cos),
    "Div": _plain(jnp.divide),
    "Erf": _plain(jax.scipy.special.erf),
    "Flatten": lambda a, x: x.reshape(math.prod(x.shape[: a.get("axis", 1)]), -1),
    "Gather": lambda a, x, at: jnp.take(x, at, axis=a.get("axis", 0), mode="wrap"),
    "Gemm": _gemm,
    "GlobalAveragePool": _plain(lambda x: x.mean((2, 3), keepdims=True)),
    "LayerNormalization": _layer_norm,
    "MatMul": _plain(jnp.matmul),
    "MaxPool": _max_pool,
    "Mul": _plain(jnp.multiply),
    "Relu": _plain(jax.nn.relu),
    "Reshape": _reshape,
    "Sigmoid": _plain(jax.nn.sigmoid),
    "Sin": _plain(jnp.sin),
    "Softmax": lambda a, x: jax.nn.softmax(x, a.get("axis", -1)),
    "Sub": _plain(jnp.subtract),
    "Tanh": _plain(jnp.tanh),
    "Transpose": lambda a, x: x.transpose(a["perm"]),
    "Unsqueeze": _unsqueeze,
}


def output_of(model: onnx.ModelProto, name: str, tensors: Tensors) -> Any:
    """An output; ``tensors`` has inputs, parameters and other initialisers. Sizes stay numpy arrays."""
    values = dict(tensors)
    for node in model.graph.node:
        attributes = {given.name: helper.get_attribute_value(given) for given in node.attribute}
        if node.op_type == "Constant":
            values[node.output[0]] = numpy_helper.to_array(attributes["value"])
        else:
            operands = [values[operand] for operand in node.input]
            values[node.output[0]] = RULES[node.op_type](attributes, *operands)
    return values[name]


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean over all positions, with the classes along the last axis."""
    logarithms = logits - jax.scipy.special.logsumexp(logits, axis=-1, keepdims=True)
    return -jnp.take_along_axis(logarithms, labels[..., None], axis=-1).mean()


@dataclass(frozen=True)
class Moments:
    """What an optimiser keeps of a parameter: 0 at first."""

    first: Any = 0.0
    second: Any = 0.0


@dataclass(frozen=True)
class Slope:
    """The gradient at update number ``t``, from 1."""

    g: Any
    t: int


Change: TypeAlias = "Callable[[Any, Slope, Moments, float], tuple[Any, Moments]]"
"""(parameter, gradient, moments, rate) -> (new parameter, new moments)."""


def _sgd(p: Any, slope: Slope, old: Moments, rate: float) -> tuple[Any, Moments]:
    return p - rate * slope.g, old


def _momentum(p: Any, slope: Slope, old: Moments, rate: float) -> tuple[Any, Moments]:
    m = 0.9 * old.first + slope.g
    return p - rate * m, Moments(m)


def _nesterov(p: Any, slope: Slope, old: Moments, rate: float) -> tuple[Any, Moments]:
    m = 0.9 * old.first + slope.g
    return p - rate * (slope.g + 0.9 * m), Moments(m)


def _adam(p: Any, slope: Slope, old: Moments, rate: float) -> tuple[Any, Moments]:
    m, v = 0.9 * old.first + 0.1 * slope.g, 0.999 * old.second + 0.001 * slope.g * slope.g
    mean, square = m / (1 - 0.9**slope.t), v / (1 - 0.999**slope.t)
    return p - rate * mean / (jnp.sqrt(square) + 1e-8), Moments(m, v)


def _adamw(p: Any, slope: Slope, old: Moments, rate: float) -> tuple[Any, Moments]:
    return _adam(p - rate * 0.01 * p, slope, old, rate)


def _adagrad(p: Any, slope: Slope, old: Moments, rate: float) -> tuple[Any, Moments]:
    v = old.second + slope.g * slope.g
    return p - rate * slope.g / (jnp.sqrt(v) + 1e-10), Moments(0.0, v)


def _rmsprop(p: Any, slope: Slope, old: Moments, rate: float) -> tuple[Any, Moments]:
    v = 0.99 * old.second + 0.01 * slope.g * slope.g
    return p - rate * slope.g / (jnp.sqrt(v) + 1e-8), Moments(0.0, v)


CHANGES: Mapping[str, Change] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "nesterov": _nesterov,
    "adam": _adam,
    "adamw": _adamw,
    "adagrad": _adagrad,
    "rmsprop": _rmsprop,
}


@dataclass(frozen=True)
class State:
    """Parameters and their moments before update number ``t``, from 1."""

    parameters: Mapping[str, Any]
    moments: Mapping[str, Moments]
    t: int = 1


class JaxTraining:
    """The training of a model's cross-entropy in float32; the gradient is compiled once for all updates."""

    def __init__(self, model: onnx.ModelProto, output: str, trained: Iterable[str]) -> None:
        stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self.initial: Tensors = {name: jnp.asarray(stored.pop(name)) for name in trained}

        def loss(parameters: Tensors, batch: Tensors) -> Any:
            prediction = output_of(model, output, {**stored, **batch, **parameters})
            return cross_entropy(prediction, batch["labels"])

        options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
        self._slopes = jax.jit(jax.value_and_grad(loss), compiler_options=options)

    def loss(self, parameters: Mapping[str, Any], batch: Mapping[str, Array]) -> float:
        """The loss of a batch."""
        return float(self._sloped(parameters, batch)[0])

    def updated(self, before: State, batch: Mapping[str, Array], change: Change, rate: float) -> State:
        """The state after an update."""
        _, slopes = self._sloped(before.parameters, batch)
        parameters: Tensors = {}
        moments: dict[str, Moments] = {}
        for name, p in before.parameters.items():
            slope = Slope(slopes[name], before.t)
            parameters[name], moments[name] = change(p, slope, before.moments.get(name, Moments()), rate)
        return State(parameters, moments, before.t + 1)

    def _sloped(self, parameters: Mapping[str, Any], batch: Mapping[str, Array]) -> tuple[Any, Tensors]:
        with jax.default_matmul_precision("highest"):
            given = {name: jnp.asarray(array) for name, array in parameters.items()}
            return self._slopes(given, {name: jnp.asarray(array) for name, array in batch.items()})
