"""What terms are worth over the reals: numpy arrays in which an undefined element is NaN.

The operators are those of ``tests.verifier.brute``, which share no code with the verifier. A quotient by
zero, a root or a power that is not whole of a negative number is undefined, and so is every element that
depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from superopt.ir.terms import Application, Term, Variable, subterms
from tests.verifier.brute.basics import Attributes, IllTyped, Real, ValueOf
from tests.verifier.brute.divided import Shards, applied
from tests.verifier.brute.meaning import VALUES

NEARLY_ZERO = 1e-9
DIVIDING = frozenset(("partition", "combine", "replicate", "reduce", "pipeline", "batch"))


class Uncertain(Exception):  # noqa: N818 (not an error: nothing can be said)
    """Rounding decides whether an element is defined, or a number leaves the range of floats."""


def evaluated(
    terms: Sequence[Term], attributes: Mapping[Term, Attributes], arrays: Mapping[str, Real]
) -> dict[Term, Real]:
    """The values of all subterms; raises Uncertain."""
    values: dict[Term, Real] = {}
    with np.errstate(all="ignore", over="raise"):
        for term in subterms(*terms):
            if isinstance(term, Variable):
                values[term] = arrays[term.name]
                continue
            inputs = [values[child] for child in term.inputs]
            values[term] = _defined(term, attributes[term], inputs)
    return values


def evaluated_in_shards(
    terms: Sequence[Term], attributes: Mapping[Term, Attributes], shards: Mapping[str, Shards]
) -> dict[Term, Shards]:
    """The same of divided tensors; raises Uncertain, or IllTyped where a task does not find what it needs."""
    values: dict[Term, Shards] = {}
    with np.errstate(all="ignore", over="raise"):
        for term in subterms(*terms):
            if isinstance(term, Variable):
                values[term] = shards[term.name]
                continue
            inputs = [values[child] for child in term.inputs]
            for piece in inputs[-1].parts.values() if inputs else ():
                _require_certain(term, attributes[term], (piece, piece))
            try:
                values[term] = _without_infinities(applied(term.operator, attributes[term], *inputs))
            except FloatingPointError as error:
                raise Uncertain from error
            except (IndexError, ValueError, KeyError) as error:
                raise IllTyped from error
    return values


def _without_infinities(shards: Shards) -> Shards:
    parts = {place: _finite(part) for place, part in shards.parts.items()}
    return Shards(parts, shards.replicas, shards.degrees, shards.turns)


def _finite(value: Real) -> Real:
    return np.where(np.isinf(value), np.nan, value) if np.isinf(value).any() else value


def _defined(term: Application, attributes: Attributes, inputs: Sequence[Real]) -> Real:
    _require_certain(term, attributes, inputs)
    try:
        value = np.asarray(_MEANING[term.operator](attributes, *inputs), np.float64)
    except FloatingPointError as error:
        raise Uncertain from error
    if term.operator in _POSITIVE and np.any(value == 0):
        raise Uncertain  # too small a number
    return _finite(value)


_POSITIVE = ("exp", "sigmoid", "softmax", "softplus")
"""Operators whose results are positive over the reals."""


def _power(attributes: Attributes, x: Real) -> Real:
    """Undefined for negative numbers unless the exponent is whole, and for 0 where that is negative."""
    exponent = Fraction(attributes["exponent"])
    least = x > 0 if exponent < 0 else x >= 0
    return (
        np.where(least, x, np.nan) ** float(exponent) if exponent.denominator != 1 else x ** float(exponent)
    )


def _interpolated(attributes: Attributes, x: Real) -> Real:
    """A product with matrices of weights: every pixel takes part in every new one of its channel."""
    whole = np.isfinite(x).all(axis=(2, 3), keepdims=True)
    return np.where(whole, VALUES["upsample_linear"](attributes, np.where(whole, x, 0.0)), np.nan)


def _response_normalized(attributes: Attributes, x: Real) -> Real:
    """x times a power of what neighbouring channels sum to; every channel takes part in every other one."""
    size, channels = attributes["size"], x.shape[1]
    offsets = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    near = ((offsets >= -((size - 1) // 2)) & (offsets <= size // 2)).astype(np.float64)
    sums = np.einsum("ij,njhw->nihw", near, x * x)
    alpha, beta = (Fraction(attributes.get(name, default)) for name, default in _OF_LRN)
    base = float(attributes.get("bias", 1)) + float(alpha / size) * sums
    _far_from_zero(base)
    return x * _power({"exponent": -beta}, base)


_OF_LRN = (("alpha", Fraction(1, 10000)), ("beta", Fraction(3, 4)))
_MEANING: Mapping[str, ValueOf] = {
    **VALUES,
    "power": _power,
    "upsample_linear": _interpolated,
    "lrn": _response_normalized,
}


def _require_certain(term: Application, attributes: Attributes, inputs: Sequence[Real]) -> None:
    """Raises Uncertain where the argument of a partial operator is nearly at the border of its domain."""
    match term.operator:
        case "div":
            _far_from_zero(inputs[1])
        case "sqrt":
            _far_from_zero(inputs[0])
        case "power":
            exponent = Fraction(attributes["exponent"])
            if exponent < 0 or exponent.denominator != 1:
                _far_from_zero(inputs[0])
        case "batchnorm_scale":
            _far_from_zero(inputs[1] + float(attributes.get("epsilon", 1e-5)))
        case _:
            pass


def _far_from_zero(array: Real) -> None:
    magnitude = np.abs(array)
    if np.any((magnitude < NEARLY_ZERO) & (magnitude > 0)):
        raise Uncertain
