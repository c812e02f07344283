"""Equations judged by brute force: every assignment of small shapes, both sides evaluated in plain numpy.

Nothing of the verifier takes part: neither its sampler, nor its typing, nor its number domains. Attributes
that types determine (cuts of halves, sizes of constants) are tried one after another. A search that ends
without a counterexample says how many instances it has compared and whether these were all.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from superopt.ir.numbers import NumberExpression
from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Direction,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
)
from tests.verifier.brute.basics import Attributes, IllTyped, Real, Shape
from tests.verifier.brute.conditions import declared_sizes_agree, holds
from tests.verifier.brute.meaning import IMPLICIT, SHAPES, VALUES
from tests.verifier.brute.order import (
    CutsAndSizes,
    cuts_of,
    has_free_cuts,
    in_order,
    only_shape,
    ranks_of,
    resolved,
)
from tests.verifier.number_oracle import DividesByZeroError, Numbers, number

SIZES = (1, 2, 3)
WIDER = (4, 2, 1, 6, 3, 5)
"""For searches that take a sample only."""

SAMPLE_PER_RANK = 40
NODES_PER_CHOICE = 400
"""At least so much is tried for each choice of attribute values; rather fewer choices."""

DRAWS = 2
TOLERANCE = 1e-7
NUMBERS = (1, 2, 3, 0.5, 0.25)
ATTRIBUTE_VALUES: Mapping[str, tuple[object, ...]] = {
    "stride": ((1, 1), (2, 2), (1, 2)),
    "dilation": ((1, 1), (2, 1)),
    "padding": ("valid", "same", "same_upper", "same_lower", (0, 1, 1, 0)),
    "kernel": ((1, 1), (3, 3), (2, 2), (1, 3)),
    "activation": ("none", "relu", "tanh", "sigmoid"),
    "axis": (0, 1, -1, -2, 2),
    "includes_padding": (0, 1),
    "approximate": ("none", "tanh"),
    "to": ("f16", "bf16", "f32", "f64"),
    "perm": ((), (1, 0), (0, 2, 1), (1, 2, 0), (1, 0, 2, 3), (0, 1, 3, 2)),
    "size": (1, 2, 3),
    "shape": ((2,), (2, 3), (3, 2), (6,), (1, 2, 3)),
}


@dataclass(frozen=True)
class Found:
    """An instance on which the sides differ, and in what, as text."""

    instance: str
    difference: str


@dataclass(frozen=True)
class Search:
    """A counterexample or none; on how many instances the sides were compared; whether these were all."""

    found: Found | None
    compared: int
    exhausted: bool


def search(
    equation: Equation, *, leaves: int, nodes: int, sizes: tuple[int, ...] = SIZES, seed: int = 0
) -> Search:
    """Compares both sides on up to ``leaves`` instances, in a random order that ``seed`` determines."""
    return _Search(equation, leaves, nodes, sizes, seed).run()


class _Stop(Exception):  # noqa: N818 (no error)
    """The budget is spent, or a counterexample is found."""


class _Search:
    def __init__(
        self, equation: Equation, leaves: int, nodes: int, sizes: tuple[int, ...], seed: int
    ) -> None:
        self._equation = equation
        self._sides = equation.terms
        self._steps = in_order(self._sides)
        self._random = random.Random(seed)
        self._numbers, self._integers = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        self._leaves, self._nodes, self._sizes = leaves, nodes, sizes
        self._ranks = ranks_of(self._steps)
        self._declared = dict(equation.types)
        self._compared = self._leaf_budget = self._node_budget = 0
        self._found: Found | None = None
        constants = (t.operator for t in applications(*self._sides) if t.operator not in ("split0", "split1"))
        self._has_free_sizes = any(operator in IMPLICIT for operator in constants)

    def run(self) -> Search:
        choices = list(self._attribute_choices())
        self._random.shuffle(choices)
        kept = choices[: max(1, self._nodes // NODES_PER_CHOICE)]
        exhausted = len(kept) == len(choices) and len(self._sizes) <= len(SIZES)
        for index, attributes in enumerate(kept):
            self._leaf_budget = max(1, (self._leaves - self._compared) // (len(kept) - index))
            self._node_budget = self._nodes // len(kept)
            try:
                self._descend(0, {}, {}, attributes)
            except _Stop:
                exhausted = False
            if self._found:
                break
        return Search(self._found, self._compared, exhausted)

    def _attribute_choices(self) -> Iterator[dict[str, object]]:
        kinds: dict[str, str] = {}
        for term in applications(*self._sides):
            for key, value in term.attributes:
                if isinstance(value, AttributeVariable):
                    kinds.setdefault(value.name, key)
        names = sorted(attribute_variables(*self._sides))
        for values in itertools.product(
            *(ATTRIBUTE_VALUES.get(kinds.get(name, ""), NUMBERS) for name in names)
        ):
            chosen = dict(zip(names, values, strict=True))
            if self._calculates(chosen):
                yield chosen

    def _calculates(self, chosen: Mapping[str, object]) -> bool:
        """Whether no number divides by 0."""
        given = (value for term in applications(*self._sides) for _, value in term.attributes)
        try:
            for value in given:
                if isinstance(value, NumberExpression):
                    number(value, cast("Numbers", chosen))
        except DividesByZeroError:
            return False
        return True

    def _descend(
        self, position: int, shapes: dict[Term, Shape], implicit: CutsAndSizes, attributes: Attributes
    ) -> None:
        """Depth first: a shape for each variable, cuts and sizes for each application, inputs first."""
        if position == len(self._steps):
            self._compare(shapes, implicit, attributes)
            return
        self._node_budget -= 1
        if self._node_budget < 0:
            raise _Stop
        term = self._steps[position]
        if isinstance(term, Variable):
            for shape in self._shapes_of(term, position, shapes, attributes):
                self._descend(position + 1, {**shapes, term: shape}, implicit, attributes)
            return
        inputs = [shapes[child] for child in term.inputs]
        for value in self._implicit_choices(term, shapes, implicit, attributes):
            chosen = implicit if value is None else {**implicit, term: value}
            try:
                shape = SHAPES[term.operator](resolved(term, attributes, chosen), *inputs)
            except IllTyped:
                continue
            self._descend(position + 1, {**shapes, term: shape}, chosen, attributes)

    def _shapes_of(
        self, variable: Variable, position: int, shapes: Mapping[Term, Shape], attributes: Attributes
    ) -> list[Shape]:
        declared = self._declared.get(variable.name)
        if declared is None:
            only = only_shape(variable, self._steps[position + 1 :], shapes, attributes)
            if only is not None:
                return [only]
        ranks = self._ranks[variable.name] if declared is None else [len(declared.shape)]
        self._random.shuffle(ranks)
        found = [shape for rank in ranks for shape in self._shapes_of_rank(rank)]
        if declared is None:
            return found
        fixed = [(axis, size) for axis, size in enumerate(declared.shape) if isinstance(size, int)]
        return [shape for shape in found if all(shape[axis] == size for axis, size in fixed)]

    def _shapes_of_rank(self, rank: int) -> list[Shape]:
        if len(self._sizes) > len(SIZES):
            return [tuple(self._random.choices(self._sizes, k=rank)) for _ in range(SAMPLE_PER_RANK)]
        every = list(itertools.product(self._sizes, repeat=rank))
        self._random.shuffle(every)
        return every

    def _implicit_choices(
        self,
        term: Application,
        shapes: Mapping[Term, Shape],
        implicit: CutsAndSizes,
        attributes: Attributes,
    ) -> list[object]:
        name = IMPLICIT.get(term.operator)
        if name is None or term.attribute(name) is not None:
            return [None]
        if term.operator in ("split0", "split1"):
            return [*cuts_of(term, shapes, implicit, attributes)]
        known = list(dict.fromkeys(shapes.values()))
        sizes = {size for shape in known for size in shape}
        if name == "shape":
            return [*dict.fromkeys((*known, *((size,) for size in sorted(sizes)), ()))]
        return sorted(sizes | set(self._sizes))

    def _compare(self, shapes: Mapping[Term, Shape], implicit: CutsAndSizes, attributes: Attributes) -> None:
        named = {term.name: shape for term, shape in shapes.items() if isinstance(term, Variable)}
        if not declared_sizes_agree(self._declared, named):
            return
        if not all(holds(condition, named, attributes) for condition in self._equation.conditions):
            return
        half = len(self._equation.left)
        pairs = list(zip(self._sides[:half], self._sides[half:], strict=True))
        different = [(shapes[a], shapes[b]) for a, b in pairs if shapes[a] != shapes[b]]
        if different:
            if not self._has_free_sizes and not has_free_cuts(implicit, attributes, shapes):
                self._stop(named, attributes, f"shapes {different[0][0]} and {different[0][1]}")
            return
        self._compared += 1
        self._leaf_budget -= 1
        for draw in (*[self._normal] * DRAWS, self._integer):
            values = self._values({name: draw(shape) for name, shape in named.items()}, implicit, attributes)
            for left, right in pairs:
                if self._fails(values[left], values[right]):
                    self._stop(named, attributes, f"values of shape {shapes[left]}")
        if self._leaf_budget <= 0:
            raise _Stop

    def _normal(self, shape: Shape) -> Real:
        return np.asarray(self._numbers.normal(size=shape) * 2)

    def _integer(self, shape: Shape) -> Real:
        """Numbers among which there are zeros."""
        return np.asarray(self._integers.integers(-2, 4, shape), np.float64)

    def _fails(self, left: Real, right: Real) -> bool:
        """Whether an element is lost or changed in a direction that the equation claims."""
        one_way = self._equation.direction is Direction.FORWARD
        return _loses(left, right) or (not one_way and _loses(right, left))

    def _values(
        self, numbers: Mapping[str, Real], implicit: CutsAndSizes, attributes: Attributes
    ) -> dict[Term, Real]:
        values: dict[Term, Real] = {}
        with np.errstate(all="ignore"):
            for term in self._steps:
                if isinstance(term, Variable):
                    values[term] = numbers[term.name]
                else:
                    inputs = [values[child] for child in term.inputs]
                    values[term] = VALUES[term.operator](resolved(term, attributes, implicit), *inputs)
        return values

    def _stop(self, named: Mapping[str, Shape], attributes: Attributes, difference: str) -> None:
        pairs = (*sorted(named.items()), *sorted(attributes.items()))
        self._found = Found(", ".join(f"{name}={value}" for name, value in pairs), difference)
        raise _Stop


def _loses(source: Real, target: Real) -> bool:
    """Whether the target is undefined, or another number, where the source is defined."""
    finite = np.isfinite(source)
    if not np.all(np.isfinite(target), where=finite):
        return True
    scale = 1 + np.max(np.abs(source), initial=0, where=finite)
    return bool(np.any(np.abs(source - target) > TOLERANCE * scale, where=finite))
