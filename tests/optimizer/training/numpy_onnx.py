"""ONNX operators in numpy's float64, written from ONNX's definitions: an oracle that shares nothing with the
project's own operators.

A model is evaluated node by node. Truth values and integers keep their types; all floating-point numbers are
float64, so that derivatives can be taken by differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.optimizer.training.numpy_movement import MOVEMENT
from tests.optimizer.training.numpy_windows import WINDOWS
from tests.optimizer.training.onnx_call import Array, Arrays, Call, Real, Rule, as_real


def evaluate(model: onnx.ModelProto, arrays: Arrays) -> dict[str, Array]:
    """All tensors of a model; ``arrays`` has its inputs, and overrides its initialisers."""
    values: dict[str, Array] = {
        tensor.name: as_real(numpy_helper.to_array(tensor)) for tensor in model.graph.initializer
    }
    values.update({name: as_real(array) for name, array in arrays.items()})
    opset = model.opset_import[0].version
    for node in model.graph.node:
        values.update(results(node, values, opset))
    return values


def results(node: onnx.NodeProto, values: Mapping[str, Array], opset: int) -> dict[str, Array]:
    """The outputs of a node by name."""
    call = Call(node, tuple(values[name] if name else None for name in node.input), opset)
    found = RULES[node.op_type](call)
    outputs = found if isinstance(found, list) else [found]
    return {name: np.asarray(array) for name, array in zip(node.output, outputs, strict=False) if name}


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _of_one(function: Callable[[Real], Array]) -> Rule:
    return lambda call: function(call[0])


def _of_two(function: Callable[[Real, Real], Array]) -> Rule:
    return lambda call: function(call[0], call[1])


def _of_many(function: Callable[[Real, Real], Array]) -> Rule:
    return lambda call: reduce(function, [call[slot] for slot in range(len(call.operands))])


def _sigmoid(x: Real) -> Real:
    return 1 / (1 + np.exp(-x))


def _hard_sigmoid(x: Real, alpha: float, beta: float) -> Real:
    return np.clip(alpha * x + beta, 0, 1)


def _gelu(call: Call) -> Real:
    x = call[0]
    if call.attribute("approximate", "none") == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _clip(call: Call) -> Real:
    if call.opset < 11:
        return np.clip(call[0], call.number("min", -np.inf), call.number("max", np.inf))
    low = call[1] if call.has(1) else -np.inf
    return np.minimum(np.maximum(call[0], low), call[2] if call.has(2) else np.inf)


def _softmax(call: Call) -> Real:
    x, axis = call[0], call.integer("axis", -1 if call.opset >= 13 else 1)
    if call.opset < 13:
        rows = x.reshape(math.prod(x.shape[: axis % x.ndim]), -1)
        return _normal(rows, 1).reshape(x.shape)
    return _normal(x, axis)


def _normal(x: Real, axis: int) -> Real:
    odds = np.exp(x - x.max(axis=axis, keepdims=True))
    return odds / odds.sum(axis=axis, keepdims=True)


def _gemm(call: Call) -> Real:
    a = call[0].T if call.integer("transA", 0) else call[0]
    b = call[1].T if call.integer("transB", 0) else call[1]
    product = call.number("alpha", 1.0) * (a @ b)
    return product + call.number("beta", 1.0) * call[2] if call.has(2) else product


def _einsum(call: Call) -> Real:
    return np.einsum(str(call.attribute("equation")), *(call[slot] for slot in range(len(call.operands))))


def _spatial(x: Real) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _channels(array: Real, rank: int) -> Real:
    return array.reshape(-1, *(1,) * (rank - 2))


def _standardised(x: Real, axes: tuple[int, ...], epsilon: float) -> Real:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _batch_normalization(call: Call) -> Real:
    """With the statistics of the batch, as in training."""
    x = call[0]
    normal = _standardised(x, (0, *_spatial(x)), call.number("epsilon", 1e-5))
    return normal * _channels(call[1], x.ndim) + _channels(call[2], x.ndim)


def _instance_normalization(call: Call) -> Real:
    x = call[0]
    normal = _standardised(x, _spatial(x), call.number("epsilon", 1e-5))
    return normal * _channels(call[1], x.ndim) + _channels(call[2], x.ndim)


def _group_normalization(call: Call) -> Real:
    x, groups = call[0], call.integer("num_groups", 1)
    grouped = x.reshape(x.shape[0], groups, -1)
    normal = _standardised(grouped, (2,), call.number("epsilon", 1e-5)).reshape(x.shape)
    scale, bias = call[1], call[2]
    if call.opset < 21:
        scale, bias = (np.repeat(array, x.shape[1] // groups) for array in (scale, bias))
    return normal * _channels(scale, x.ndim) + _channels(bias, x.ndim)


def _layer_normalization(call: Call) -> Real:
    x = call[0]
    axes = tuple(range(call.integer("axis", -1) % x.ndim, x.ndim))
    normal = _standardised(x, axes, call.number("epsilon", 1e-5)) * call[1]
    return normal + call[2] if call.has(2) else normal


def _rms_normalization(call: Call) -> Real:
    x = call[0]
    axes = tuple(range(call.integer("axis", -1) % x.ndim, x.ndim))
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + call.number("epsilon", 1e-5)) * call[1]


def _lrn(call: Call) -> Real:
    x, size = call[0], call.integer("size", 1)
    squares = np.pad(x * x, [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)])
    total = sum(squares[:, start : start + x.shape[1]] for start in range(size))
    alpha, beta, bias = call.number("alpha", 1e-4), call.number("beta", 0.75), call.number("bias", 1.0)
    return x / (bias + alpha / size * total) ** beta


def _reduction(function: Callable[..., Array]) -> Rule:
    def rule(call: Call) -> Array:
        axes = tuple(call.axes(1)) or None
        if axes is None and call.integer("noop_with_empty_axes", 0):
            return call[0]
        return function(call[0], axis=axes, keepdims=bool(call.integer("keepdims", 1)))

    return rule


def _norm(x: Real, axis: tuple[int, ...] | None, *, keepdims: bool) -> Real:
    return np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))


def _log_sum_exp(x: Real, axis: tuple[int, ...] | None, *, keepdims: bool) -> Real:
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


def _square_sum(x: Real, axis: tuple[int, ...] | None, *, keepdims: bool) -> Real:
    return (x * x).sum(axis=axis, keepdims=keepdims)


def _absolute_sum(x: Real, axis: tuple[int, ...] | None, *, keepdims: bool) -> Real:
    return np.abs(x).sum(axis=axis, keepdims=keepdims)


def _where(call: Call) -> Array:
    return np.where(call[0], call[1], call[2])


def _cast(call: Call) -> Array:
    to = call.integer("to", 0)
    dtype = helper.tensor_dtype_to_np_dtype(to)
    return as_real(call[0].astype(dtype)) if to != TensorProto.FLOAT else call[0].astype(np.float64)


def _prelu(call: Call) -> Real:
    return np.where(call[0] > 0, call[0], call[0] * call[1])


def _constant(call: Call) -> Array:
    tensor = call.attribute("value")
    assert isinstance(tensor, TensorProto)
    return as_real(numpy_helper.to_array(tensor))


def _shape(call: Call) -> Array:
    return np.array(call[0].shape, np.int64)


RULES: Mapping[str, Rule] = {
    **MOVEMENT,
    **WINDOWS,
    "Abs": _of_one(np.abs),
    "Add": _of_two(np.add),
    "And": _of_two(np.logical_and),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "Constant": _constant,
    "Cos": _of_one(np.cos),
    "Div": _of_two(np.divide),
    "Dropout": lambda call: call[0],
    "Einsum": _einsum,
    "Elu": lambda call: np.where(call[0] > 0, call[0], call.number("alpha", 1.0) * np.expm1(call[0])),
    "Equal": _of_two(np.equal),
    "Erf": _of_one(_erf),
    "Exp": _of_one(np.exp),
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda call: call[0].mean(_spatial(call[0]), keepdims=True),
    "GlobalMaxPool": lambda call: call[0].max(_spatial(call[0]), keepdims=True),
    "Greater": _of_two(np.greater),
    "GreaterOrEqual": _of_two(np.greater_equal),
    "GroupNormalization": _group_normalization,
    "HardSigmoid": lambda call: _hard_sigmoid(call[0], call.number("alpha", 0.2), call.number("beta", 0.5)),
    "HardSwish": lambda call: call[0] * _hard_sigmoid(call[0], 1 / 6, 0.5),
    "Identity": lambda call: call[0],
    "InstanceNormalization": _instance_normalization,
    "LRN": _lrn,
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": lambda call: np.where(call[0] > 0, call[0], call.number("alpha", 0.01) * call[0]),
    "Less": _of_two(np.less),
    "LessOrEqual": _of_two(np.less_equal),
    "Log": _of_one(np.log),
    "LogSoftmax": lambda call: np.log(_softmax(call)),
    "MatMul": _of_two(np.matmul),
    "Max": _of_many(np.maximum),
    "Mean": lambda call: sum(np.broadcast_arrays(*call.operands)) / len(call.operands),
    "Min": _of_many(np.minimum),
    "Mul": _of_two(np.multiply),
    "Neg": _of_one(np.negative),
    "Not": _of_one(np.logical_not),
    "Or": _of_two(np.logical_or),
    "PRelu": _prelu,
    "Pow": lambda call: np.power(call[0], call[1].astype(np.float64)),
    "RMSNormalization": _rms_normalization,
    "Reciprocal": _of_one(np.reciprocal),
    "ReduceL1": _reduction(_absolute_sum),
    "ReduceL2": _reduction(_norm),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceMax": _reduction(np.max),
    "ReduceMean": _reduction(np.mean),
    "ReduceMin": _reduction(np.min),
    "ReduceSum": _reduction(np.sum),
    "ReduceSumSquare": _reduction(_square_sum),
    "Relu": lambda call: np.maximum(call[0], 0),
    "Shape": _shape,
    "Sigmoid": _of_one(_sigmoid),
    "Sin": _of_one(np.sin),
    "Softmax": _softmax,
    "Softplus": lambda call: np.log1p(np.exp(call[0])),
    "Sqrt": _of_one(np.sqrt),
    "Sub": _of_two(np.subtract),
    "Sum": _of_many(np.add),
    "Tanh": _of_one(np.tanh),
    "Where": _where,
}

__all__ = ["evaluate", "results"]
