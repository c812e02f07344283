"""Infer the sharding of an equation's variables from the parallel operators directly above them.

In ``combine[axis=0, degree=2](relu(x)) = relu(combine[axis=0, degree=2](x))`` the right side implies that x
is sharded in two along its first axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from superopt.ir.dimensions import Dimension
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, Equation, Term, Variable
from superopt.ir.types import Division, ElementType, ShardedType, TensorType
from superopt.ops.roles import Divided
from superopt.ops.traits import named, traits

DIVIDING = named(lambda operator: operator.divides is not None)
"""The operators that change how a tensor is divided."""

_Place = tuple[Divided, int]
"""A counted quantity and its axis; 0 for replicas."""


@dataclass
class _Demand:
    """Number of parts that a variable must have at each place for the operators above it."""

    needed: dict[_Place, int] = field(default_factory=dict[_Place, int])
    there: dict[_Place, int] = field(default_factory=dict[_Place, int])

    def apart(self, place: _Place, degree: int) -> None:
        """Record a division by this factor."""
        self.there[place] = self.there.get(place, 1) * degree

    def together(self, place: _Place, degree: int) -> None:
        """Record a combination by this factor; missing parts must be present initially."""
        there = self.there.get(place, 1)
        missing = degree // math.gcd(there, degree)
        self.needed[place] = self.needed.get(place, 1) * missing
        self.there[place] = there * missing // degree


def variable_type(
    name: str, shape: Sequence[Dimension], needed: Mapping[str, Mapping[_Place, int]]
) -> TensorType:
    """The type of a variable; sizes of divided axes are those of a part times the number of parts."""
    own = needed.get(name, {})
    if not own:
        return TensorType(ElementType.FLOAT, tuple(shape))
    divisions = tuple(
        Division(own.get((Divided.DEGREE, axis), 1), own.get((Divided.BATCHES, axis), 1))
        for axis in range(len(shape))
    )
    sizes = tuple(size * division.parts for size, division in zip(shape, divisions, strict=True))
    return ShardedType(ElementType.FLOAT, sizes, divisions, own.get((Divided.REPLICAS, 0), 1))


def divisions_needed(
    equation: Equation, ranks: Mapping[str, int], attributes: Mapping[str, object]
) -> Mapping[str, Mapping[_Place, int]]:
    """The number of parts that each variable of known rank needs in each place, as far as attributes are
    known; empty for undivided ones."""
    found: dict[str, dict[_Place, int]] = {}
    for side in equation.terms:
        for name, above in _divided(side):
            if name not in ranks:
                continue
            demand = _Demand()
            for term in above:
                place = _place(term, ranks[name], attributes)
                degree = _value(term, "degree", attributes)
                if place is None or degree is None or degree < 1:  # ill-typed below 1
                    break
                if traits(term.operator).gathers:
                    demand.together(place, degree)
                else:
                    demand.apart(place, degree)
            own = found.setdefault(name, {})
            for place, count in demand.needed.items():
                own[place] = math.lcm(own.get(place, 1), count)
    return {
        name: {place: count for place, count in own.items() if count > 1}
        for name, own in found.items()
        if any(count > 1 for count in own.values())
    }


@lru_cache(maxsize=4096)
def _divided(side: Term) -> tuple[tuple[str, tuple[Application, ...]], ...]:
    """The occurrences of variables directly below parallel operators."""
    return tuple((name, above) for name, above in _occurrences(side, ()) if above)


def _occurrences(term: Term, above: tuple[Application, ...]) -> Iterator[tuple[str, tuple[Application, ...]]]:
    """Each occurrence of a variable with the parallel operators directly above it, the nearest first."""
    if isinstance(term, Variable):
        yield term.name, above
        return
    divides = term.operator in DIVIDING
    for child in term.inputs:
        yield from _occurrences(child, (term, *above) if divides else ())


def _place(term: Application, rank: int, attributes: Mapping[str, object]) -> _Place | None:
    kind = traits(term.operator).divides
    if kind is None:
        return None
    if kind is Divided.REPLICAS:
        return kind, 0
    axis = _value(term, "axis", attributes)
    return None if axis is None or not -rank <= axis < rank else (kind, axis % rank)


def _value(term: Application, name: str, attributes: Mapping[str, object]) -> int | None:
    value = term.attribute(name)
    if isinstance(value, AttributeVariable):
        value = attributes.get(value.name)
    return value if isinstance(value, int) else None
