"""Both sides of rules with calculated numbers, evaluated in plain numpy at random numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias, cast

import numpy as np

from superopt.ir.numbers import AttributeVariable, NumberCall, NumberExpression
from superopt.ir.terms import Condition, ConditionName, Equation, Term, Variable, variables

Real: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
Numbers: TypeAlias = "Mapping[str, float]"
ORDER: Mapping[str, Callable[[list[float]], float]] = {"min": min, "max": max}
POOL = (-3.0, -1.5, -1.0, -0.25, 0.0, 0.0, 0.5, 1.0, 2.0, 3.5)
SHAPE = (3, 3)


class DividesByZeroError(Exception):
    """A number has no value: the rule claims nothing."""


def number(value: object, given: Numbers) -> float:
    """An attribute value as a number; raises DividesByZeroError."""
    match value:
        case int() | Fraction():
            return float(value)
        case AttributeVariable(name) | ConditionName(name):
            return given[name]
        case NumberCall(function, arguments):
            own = [number(argument, given) for argument in arguments]
            return (
                1 / _nonzero(own[0])
                if function == "reciprocal"
                else min(own)
                if function == "min"
                else max(own)
            )
        case NumberExpression():
            total = 0.0
            for monomial, factor in value.terms:
                part = float(factor)
                for unknown, power in monomial:
                    base = number(unknown, given)
                    part *= (base if power > 0 else 1 / _nonzero(base)) ** abs(power)
                total += part
            return total
        case _:
            raise TypeError(f"{value} is no number")


def _nonzero(divisor: float) -> float:
    if divisor == 0:
        raise DividesByZeroError
    return divisor


def _hard_sigmoid(x: Real, alpha: float = 0.2, beta: float = 0.5) -> Real:
    return np.clip(alpha * x + beta, 0, 1)


def _silu(x: Real, alpha: float = 1) -> Real:
    return x / (1 + np.exp(-alpha * x))


FUNCTIONS: Mapping[str, Callable[..., Real]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "scale": lambda x, y: x * y,
    "div": lambda x, y: np.divide(x, y, out=np.full(SHAPE, np.nan), where=y != 0),
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": _silu,
    "hard_sigmoid": _hard_sigmoid,
    "full": lambda value: np.full(SHAPE, value),
    "ones": lambda: np.ones(SHAPE),
    "transpose": lambda x: x.T,
    "matmul": lambda x, y: x @ y,
    "reduce_sum": lambda x, axis: x.sum(axis=int(axis), keepdims=True) + np.zeros(SHAPE),
    "reduce_max": lambda x, axis: x.max(axis=int(axis), keepdims=True) + np.zeros(SHAPE),
}


def is_known(rule: Equation) -> bool:
    """Whether all operators can be evaluated here; constants with a written shape cannot."""
    values = [value for part in rule.applications for _, value in part.attributes]
    numeric = all(isinstance(v, int | Fraction | AttributeVariable | NumberExpression) for v in values)
    return numeric and all(part.operator in FUNCTIONS for part in rule.applications)


def evaluated(term: Term, tensors: Mapping[str, Real], given: Numbers) -> Real:
    """The value of a term; NaN where it is undefined."""
    if isinstance(term, Variable):
        return tensors[term.name]
    inputs = [evaluated(child, tensors, given) for child in term.inputs]
    attributes = {name: number(value, given) for name, value in term.attributes}
    return FUNCTIONS[term.operator](*inputs, **attributes)


def _fulfilled(condition: Condition, given: Numbers) -> bool:
    one, other = number(condition.left, given), number(condition.right, given)
    compare: Mapping[str, Callable[[float, float], bool]] = {
        "=": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }
    return compare[condition.relation](one, other)


def difference(rule: Equation, draws: int = 200, seed: int = 0) -> str | None:
    """Where an element that the left side defines is undefined or different on the right; None where none is
    found, and "" where no numbers fulfil the conditions."""
    draw = np.random.default_rng(seed)
    tried = False
    for _ in range(draws):
        given = {name: float(draw.choice(POOL)) for name in sorted(rule.attribute_variables)}
        given |= {name: 0.0 for name in given if name in ("i",)}
        tensors = {name: cast("Real", draw.normal(size=SHAPE) * 2) for name in variables(*rule.terms)}
        try:
            if not all(_fulfilled(condition, given) for condition in rule.conditions):
                continue
            pairs = [
                (evaluated(a, tensors, given), evaluated(b, tensors, given))
                for a, b in zip(rule.left, rule.right, strict=True)
            ]
        except DividesByZeroError:
            continue
        tried = True
        for left, right in pairs:
            known = ~np.isnan(left)
            if not np.allclose(left[known], right[known], rtol=1e-9, atol=1e-9):
                return f"{given}"
    return None if tried else ""
