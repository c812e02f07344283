"""Number domain of JAX floating-point arrays, to evaluate operators on JAX devices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from superopt.domains import Domain
from superopt.domains.arrays import aligned
from superopt.domains.base import Rearrangement
from superopt.domains.floats import quotients
from superopt.errors import UnsupportedError


class JaxDomain(Domain[Any]):
    """Single-precision JAX arrays; ``jax`` is the module."""

    def __init__(self, jax: Any) -> None:
        self._jax = jax
        self._numpy = jax.numpy

    def shape(self, array: Any) -> tuple[int, ...]:
        """The shape without the stack axis."""
        return tuple(array.shape[1:])

    def rearrange(self, function: Rearrangement, array: Any) -> Any:
        """Applies the function."""
        return function(array)

    def concatenate(self, arrays: Sequence[Any], axis: int) -> Any:
        """Concatenates along an axis; broadcasts stacks of length 1."""
        stack = max(array.shape[0] for array in arrays)
        full = [self._numpy.broadcast_to(array, (stack, *array.shape[1:])) for array in arrays]
        return self._numpy.concatenate(full, axis=axis + 1)

    def constant(self, numerators: npt.NDArray[np.int64], denominators: npt.NDArray[np.int64]) -> Any:
        """The quotients, rounded to float32."""
        return self._numpy.asarray(quotients(numerators, denominators).astype(np.float32)[np.newaxis])

    def add(self, left: Any, right: Any) -> Any:
        """Sum."""
        return self._numpy.add(*aligned(left, right))

    def negate(self, array: Any) -> Any:
        """Negation."""
        return -array

    def multiply(self, left: Any, right: Any) -> Any:
        """Product."""
        return self._numpy.multiply(*aligned(left, right))

    def matmul(self, left: Any, right: Any) -> Any:
        """Matrix product."""
        return self._numpy.matmul(*aligned(left, right))

    def sum(self, array: Any, axis: int) -> Any:
        """Sum along an axis."""
        return self._numpy.sum(array, axis=axis + 1)

    def reciprocal(self, array: Any) -> Any:
        """1/x, infinite at 0."""
        return self._numpy.reciprocal(array)

    def maximum(self, left: Any, right: Any) -> Any:
        """Elementwise maximum."""
        return self._numpy.maximum(*aligned(left, right))

    def select(self, condition: Any, left: Any, right: Any) -> Any:
        """The chosen one."""
        left, right = aligned(left, right)
        (condition, left), (_, right) = aligned(condition, left), aligned(condition, right)
        return self._numpy.where(condition > 0, left, right)

    def exp(self, array: Any) -> Any:
        """Exponential."""
        return self._numpy.exp(array)

    def sqrt(self, array: Any) -> Any:
        """Square root; NaN below 0."""
        return self._numpy.sqrt(array)

    def apply(self, function: str, array: Any, parameters: tuple[Fraction, ...] = ()) -> Any:
        """``cos``, ``erf``, ``log``, ``power`` and ``sin``."""
        if function == "power":
            return self._numpy.power(array, float(parameters[0]))
        if function == "log":
            return self._numpy.log(array)
        if function == "sin":
            return self._numpy.sin(array)
        if function == "cos":
            return self._numpy.cos(array)
        if function == "erf":
            return self._jax.lax.erf(array)
        raise UnsupportedError(f"no implementation of {function} in JAX")
