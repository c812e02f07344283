"""Refinement test: wherever one side of an equation is defined, the other is defined and equal.

Both sides are evaluated on partial real numbers (``superopt.domains.partial``), at inputs on which partial
operators are undefined on some elements and defined on others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from superopt.domains import Array, PartialArray, PartialDomain
from superopt.domains.partial import Flags
from superopt.ir.terms import Direction, Equation
from superopt.ir.types import TensorType
from superopt.rewriting.evaluation import evaluate_terms
from superopt.rewriting.typing import Typing

TOLERANCE = 1e-9
"""Relative tolerance, in addition to the error bounds, because library functions come without bounds."""


@dataclass(frozen=True)
class Difference:
    """An element at which the sides differ, or at which one side should be defined but is not."""

    output: int
    place: tuple[int, ...]
    left: str
    right: str

    def __str__(self) -> str:
        at = f"[{', '.join(str(i) for i in self.place)}]"
        return f"left{at} = {self.left}, right{at} = {self.right}"


def difference_between(
    equation: Equation, typing: Typing, inputs: Mapping[str, PartialArray]
) -> Difference | None:
    """Return the first element at which the equation fails in a claimed direction, or None."""
    values = evaluate_terms(equation.terms, typing, PartialDomain(), inputs)
    half = len(equation.left)
    for output, (left, right) in enumerate(zip(values[:half], values[half:], strict=True)):
        found = first_difference(equation.direction, left, right, output)
        if found is not None:
            return found
    return None


def first_difference(
    direction: Direction, left: PartialArray, right: PartialArray, output: int = 0
) -> Difference | None:
    """Return the first element at which one output fails in a claimed direction, or None."""
    left, right = _alike(left, right)
    wrong = not_refined(left, right)
    if direction is not Direction.FORWARD:
        wrong = wrong | not_refined(right, left)
    found = np.argwhere(wrong)
    if not len(found):
        return None
    place = tuple(int(i) for i in found[0])
    return Difference(output, place[1:], *_written(left, right, place))


def not_refined(source: PartialArray, target: PartialArray) -> Flags:
    """Return where the source is defined, and the target is undefined or different.

    Elements that rounding or overflow leave undecided are never reported.
    """
    with np.errstate(invalid="ignore"):
        slack = source.error + target.error + TOLERANCE * (np.abs(source.value) + np.abs(target.value))
        differs = target.defined & (np.abs(source.value - target.value) > slack)
    return source.defined & (target.undefined | differs)


def awkward_inputs(
    generator: np.random.Generator, stack: int, types: Mapping[str, TensorType]
) -> dict[str, PartialArray]:
    """Return random real inputs: ``stack`` arrays of numbers of both signs, the last with zeros and ones;
    then small integers, positive numbers, and positive numbers with some zeros or negative numbers."""
    domain = PartialDomain()
    (further,) = generator.spawn(1)
    inputs: dict[str, PartialArray] = {}
    for name, type_ in types.items():
        shape = cast("tuple[int, ...]", type_.array_shape)
        values = [_special_values(generator, stack, shape), _further_values(further, shape)]
        inputs[name] = domain.exactly(np.concatenate(values))
    return inputs


def _special_values(generator: np.random.Generator, stack: int, shape: tuple[int, ...]) -> Array:
    """Return small numbers of both signs; the last array of the stack also has zeros and ones."""
    values = np.round(generator.normal(size=(stack, *shape)) * 2, 3)
    chosen = generator.random(shape)
    values[-1] = np.where(chosen < 0.2, 0.0, np.where(chosen > 0.9, 1.0, values[-1]))
    return values


def _further_values(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return small integers, positive numbers, and positive numbers with a few zeros or negative numbers."""
    integers = generator.integers(-2, 3, shape).astype(np.float64)
    positive, mostly = (generator.integers(1, 33, shape).astype(np.float64) / 8 for _ in range(2))
    chosen = generator.random(shape)
    mostly = np.where(chosen < 0.08, 0.0, np.where(chosen > 0.92, -mostly, mostly))
    return np.stack([integers, positive, mostly])


def _alike(left: PartialArray, right: PartialArray) -> tuple[PartialArray, PartialArray]:
    """Broadcast both arrays to one stack length."""
    (a, b), (d, e) = (
        np.broadcast_arrays(left.value, right.value),
        np.broadcast_arrays(left.error, right.error),
    )
    return PartialArray(a, d), PartialArray(b, e)


def _written(left: PartialArray, right: PartialArray, place: tuple[int, ...]) -> tuple[str, str]:
    """Return both elements as text, with enough digits to distinguish them."""
    short, long = (tuple(_element(array, place, digits) for array in (left, right)) for digits in (6, 17))
    return (short[0], short[1]) if short[0] != short[1] else (long[0], long[1])


def _element(array: PartialArray, place: tuple[int, ...], digits: int) -> str:
    return "undefined" if array.undefined[place] else f"{array.value[place]:.{digits}g}"


__all__ = ["Difference", "awkward_inputs", "difference_between", "first_difference", "not_refined"]
