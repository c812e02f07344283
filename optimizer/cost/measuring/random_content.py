"""Random tensor contents for measuring kernels."""

from __future__ import annotations

from functools import cache

import numpy as np

from superopt.ir.types import ElementType, TensorType
from superopt.optimizer.cost.runtime.session import Array

DTYPES = {
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
"""Element types for which content can be generated."""

_DISTINCT = 10_007

_DISTINCT_SIGNS = 1_000_003
"""So many that a processor does not learn which sign comes next, as it would on the input of no model."""


def array_of(type_: TensorType) -> Array:
    """Return positive numbers of order one, for which operators give neither denormal nor infinite
    results."""
    shape = shape_of(type_)
    dtype = DTYPES[type_.element]
    if not type_.element.is_float:
        return np.ones(shape, dtype)
    return np.resize(_some().astype(dtype), shape)


def signed_array_of(type_: TensorType) -> Array:
    """Return numbers of order one and both signs, for kernels whose speed depends on comparisons."""
    return np.resize(_of_both_signs().astype(DTYPES[type_.element]), shape_of(type_))


@cache
def _some() -> Array:
    return np.random.default_rng(0).uniform(0.05, 1.0, _DISTINCT)


@cache
def _of_both_signs() -> Array:
    generator = np.random.default_rng(0)
    return generator.uniform(0.05, 1.0, _DISTINCT_SIGNS) * generator.choice((-1, 1), _DISTINCT_SIGNS)


def shape_of(type_: TensorType) -> tuple[int, ...]:
    """Return the concrete shape, with 1 for symbolic dimensions."""
    return tuple(size if isinstance(size, int) else 1 for size in type_.shape)


__all__ = ["DTYPES", "array_of", "shape_of", "signed_array_of"]
