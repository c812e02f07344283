"""Kernels as models that can be run: weights and inputs made up, constants and opaque nodes as they were."""

from __future__ import annotations

from functools import cache

import numpy as np

from optimizer.cost.kernel import Kernel
from optimizer.cost.machine import bytes_of
from optimizer.cost.runtime import Array
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io import build_model

_OPSET = 17
_MAX_BYTES = 96 * 2**20
_DISTINCT = 10_007

_DTYPES = {
    ElementType.FLOAT: np.float32,
    ElementType.DOUBLE: np.float64,
    ElementType.FLOAT16: np.float16,
    ElementType.INT8: np.int8,
    ElementType.INT16: np.int16,
    ElementType.INT32: np.int32,
    ElementType.INT64: np.int64,
    ElementType.UINT8: np.uint8,
    ElementType.BOOL: np.bool_,
}


def can_be_built(kernel: Kernel) -> bool:
    """Whether the kernel can be built as a model of reasonable size with numbers in it."""
    if kernel.opaque and kernel.origin is None:
        return False
    types = [*(source.type for source in kernel.sources), *kernel.output_types]
    return all(t.element in _DTYPES for t in types) and sum(map(bytes_of, types)) <= _MAX_BYTES


def kernel_model(kernel: Kernel) -> bytes:
    """The kernel as a model, of the oldest usual operator set that has all of its operators. Inputs are
    called ``x`` and weights ``w`` with the place of the source."""
    graph = kernel.to_graph()
    weights = {
        f"w{index}": array_of(source.type)
        if source.content is None
        else _constant(source.type, source.content)
        for index, source in enumerate(kernel.sources)
        if source.is_weight
    }
    if kernel.origin is not None:
        return kernel.origin.model(graph, weights.__getitem__)
    forms = (step.operator.onnx for step in kernel.steps)
    return build_model(graph, weights, max((_OPSET, *(form.since for form in forms if form is not None))))


def array_of(type_: TensorType) -> Array:
    """Positive numbers of order one: neither denormal nor infinite after any operator."""
    shape = _shape(type_)
    dtype = _DTYPES[type_.element]
    if not type_.element.is_float:
        return np.ones(shape, dtype)
    return np.resize(_some().astype(dtype), shape)


@cache
def _some() -> Array:
    return np.random.default_rng(0).uniform(0.05, 1.0, _DISTINCT)


def _constant(type_: TensorType, content: bytes) -> Array:
    return np.frombuffer(content, _DTYPES[type_.element]).reshape(_shape(type_))


def _shape(type_: TensorType) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else 1 for size in type_.shape)


__all__ = ["array_of", "can_be_built", "kernel_model"]
