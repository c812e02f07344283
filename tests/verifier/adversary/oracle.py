"""The oracle: an equation is false where an instance of it shows that, by evaluation in plain numpy.

Directed instances come first (ranks at which axes meet, sizes of ones, primes and squares, values at which
something is undefined), random ones after. A rule is a refinement: an element that is defined on the left
is defined and equal on the right; where a rule goes both ways, so is it read from right to left.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from superopt.equations import format_term
from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Direction,
    Equation,
    Term,
    Variable,
)
from tests.verifier.adversary.meaning import DIVIDING, Uncertain, evaluated, evaluated_in_shards
from tests.verifier.adversary.typings import Typed, Typings
from tests.verifier.brute.basics import IllTyped, Real
from tests.verifier.brute.divided import Shards, sharded

TOLERANCE = 1e-6
ATTEMPTS_PER_INSTANCE = 8
PATIENCE = 1200
UNDIVIDED = 1


@dataclass(frozen=True)
class Judgement:
    """Where an equation was seen to fail, empty if nowhere, and on how many instances it was compared."""

    false: str
    compared: int


def judge(equation: Equation, instances: int, seed: int = 0) -> Judgement:
    """Compares both sides on up to ``instances`` instances; stops at the first that fails."""
    chooser = random.Random(f"{seed} {instances}")
    numbers = np.random.default_rng(chooser.randrange(2**32))
    typings = Typings(equation, chooser)
    divides = any(t.operator in DIVIDING for t in equation.applications)
    draws = [*VALUES, *_around_constants(equation)]
    compared = 0
    for attempt in range(max(PATIENCE + 1, instances * ATTEMPTS_PER_INSTANCE)):
        if compared >= instances or (attempt >= PATIENCE and compared * 100 < attempt):
            break
        typed = typings.next()
        if typed is None:
            continue
        if typed.mismatch and divides and not _is_typed_in_shards(equation, typed, numbers):
            continue
        if typed.mismatch:
            return Judgement(f"{typed}: {typed.mismatch}", compared + 1)
        difference = None
        for draw in range(2):
            values = draws[(attempt + draw * 3) % len(draws)]
            try:
                compare = _difference_in_shards if divides else _difference
                difference = compare(equation, typed, lambda shape, v=values: v(numbers, shape))
            except (Uncertain, IllTyped, TypeError):
                continue
            compared += draw == 0
            if difference:
                return Judgement(f"{typed}: {difference}", compared)
    return Judgement("", compared)


Draw = Callable[[tuple[int, ...]], Real]


def _difference(equation: Equation, typed: Typed, draw: Draw) -> str:
    arrays = {t.name: draw(shape) for t, shape in typed.shapes.items() if isinstance(t, Variable)}
    sides = equation.terms
    values = evaluated(sides, typed.attributes, arrays)
    largest = max(_magnitude(value) for value in values.values())
    for one, other in zip(equation.left, equation.right, strict=True):
        said = _compared(equation, values[one], values[other], largest)
        if said:
            return said
    return ""


def _is_typed_in_shards(equation: Equation, typed: Typed, numbers: np.random.Generator) -> bool:
    """Whether a side that claims something can be divided so: shapes do not say which parts are summands."""
    try:
        shards = _shards(equation, typed, lambda shape: _signed(numbers, shape))
    except IllTyped:
        return False
    forward = equation.direction is Direction.FORWARD
    for side in (equation.left,) if forward else (equation.left, equation.right):
        try:
            evaluated_in_shards(side, typed.attributes, shards)
        except (IllTyped, TypeError):
            continue
        return True
    return False


def _shards(equation: Equation, typed: Typed, draw: Draw) -> dict[str, Shards]:
    return {t.name: _divided(t, typed, equation, draw) for t in typed.shapes if isinstance(t, Variable)}


def _difference_in_shards(equation: Equation, typed: Typed, draw: Draw) -> str:
    sides = equation.terms
    shards = _shards(equation, typed, draw)
    values = evaluated_in_shards(sides, typed.attributes, shards)
    largest = max(_magnitude(part) for value in values.values() for part in value.parts.values())
    for one, other in zip(equation.left, equation.right, strict=True):
        left, right = values[one], values[other]
        if left.layout != right.layout:
            return f"{format_term(one)} is divided as {left.layout}, {format_term(other)} as {right.layout}"
        for place, part in left.parts.items():
            said = _compared(equation, part, right.parts[place], largest)
            if said:
                return f"at {place}: {said}"
    return ""


def _divided(variable: Variable, typed: Typed, equation: Equation, draw: Draw) -> Shards:
    """The variable, divided as what it is combined, reduced or batched by asks for."""
    shape = typed.shapes[variable]
    degrees, turns, replicas = [1] * len(shape), [1] * len(shape), 1
    for term in _demanding(variable, equation, typed):
        attributes = typed.attributes[term]
        degree = attributes["degree"]
        if term.operator == "reduce":
            replicas = max(replicas, degree)
        else:
            counts = degrees if term.operator == "combine" else turns
            counts[attributes["axis"]] = max(counts[attributes["axis"]], degree)
    if any(size % (d * t) for size, d, t in zip(shape, degrees, turns, strict=True)):
        raise IllTyped
    return sharded([draw(shape) for _ in range(replicas)], tuple(degrees), tuple(turns))


def _demanding(variable: Variable, equation: Equation, typed: Typed) -> list[Application]:
    """The operators that put the variable together: itself, or, where none does, in every other instance
    after others that divide."""
    every = [
        term
        for term in equation.applications
        if term.operator in ("combine", "reduce", "batch") and _divided_variable(term) == variable
    ]
    direct = [term for term in every if term.inputs[0] == variable]
    if direct or typed.number % 2:
        return direct
    return [term for term in every if term.operator != "reduce"]


def _divided_variable(term: Term) -> Term:
    while isinstance(term, Application) and term.operator in DIVIDING:
        (term,) = term.inputs
    return term


def _compared(equation: Equation, left: Real, right: Real, largest: float) -> str:
    if left.shape != right.shape:
        return f"shapes {left.shape} and {right.shape}"
    defined, also = np.isfinite(left), np.isfinite(right)
    wrong = defined & ~also
    if equation.direction is not Direction.FORWARD:
        wrong |= also & ~defined
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        return f"at {list(place)}: left is {_said(left[place])}, right is {_said(right[place])}"
    both = defined & also
    apart = np.abs(np.where(both, left, 0) - np.where(both, right, 0))
    if apart.max(initial=0) <= TOLERANCE * (1 + largest):
        return ""
    place = tuple(map(int, np.argwhere(apart == apart.max())[0]))
    return f"at {list(place)}: left is {left[place]:.6g}, right is {right[place]:.6g}"


def _said(number: float) -> str:
    return f"{number:.6g}" if np.isfinite(number) else "undefined"


def _magnitude(value: Real) -> float:
    return float(np.max(np.abs(value), initial=0, where=np.isfinite(value)))


def _small_integers(numbers: np.random.Generator, shape: tuple[int, ...]) -> Real:
    return numbers.integers(-2, 3, shape).astype(np.float64)


def _signed(numbers: np.random.Generator, shape: tuple[int, ...]) -> Real:
    return np.asarray(numbers.normal(size=shape) * 1.5)


def _positive(numbers: np.random.Generator, shape: tuple[int, ...]) -> Real:
    return np.asarray(numbers.integers(1, 9, shape) / 2)


def _one_out(numbers: np.random.Generator, shape: tuple[int, ...]) -> Real:
    """Positive numbers but for one, which is 0 or negative."""
    found = _positive(numbers, shape)
    if found.size and numbers.random() < 0.7:
        found.flat[numbers.integers(found.size)] = numbers.choice((0.0, -1.0, -2.0))
    return found


def _mostly_zero(numbers: np.random.Generator, shape: tuple[int, ...]) -> Real:
    return np.where(numbers.random(shape) < 0.5, 0.0, _small_integers(numbers, shape))


def _around_constants(equation: Equation) -> list[Callable[[np.random.Generator, tuple[int, ...]], Real]]:
    """Draws of the constants of the equation, their roots and what is beyond them, where any is large."""
    terms = equation.applications
    found = {
        float(value)
        for term in terms
        for name, value in term.attributes
        if name == "value" and isinstance(value, int | Fraction) and abs(value) > 2
    }
    if not found:
        return []
    sizes = sorted({abs(number) for number in found} | {math.sqrt(abs(number)) for number in found})
    pool = np.array([sign * size for size in (*sizes, 2 * sizes[-1]) for sign in (1.0, -1.0)])
    return [lambda numbers, shape: np.asarray(numbers.choice(pool, shape))]


VALUES = (_signed, _one_out, _small_integers, _signed, _positive, _mostly_zero)


def open_attributes(equation: Equation) -> Mapping[str, str]:
    """The attribute variables with the name of an attribute that each stands for."""
    return {
        value.name: key
        for term in equation.applications
        for key, value in term.attributes
        if isinstance(value, AttributeVariable)
    }


__all__ = ["Judgement", "Term", "judge", "open_attributes"]
