"""How variables of a rule are divided: as what is put together right above them asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from superopt.ir.dimensions import symbol
from superopt.ir.terms import Application, AttributeVariable, Term, Variable
from superopt.ir.types import Division, ElementType, ShardedType, TensorType

PARALLEL = ("partition", "combine", "replicate", "reduce", "pipeline", "batch")


@dataclass
class _Count:
    """Along one axis: how many parts there must be from the start, and how many there are by now."""

    start: int = 1
    now: int = 1

    def more(self, degree: int) -> None:
        """Divided further."""
        self.now *= degree

    def fewer(self, degree: int) -> None:
        """Put together; multiplied from the start until that goes."""
        factor = degree // math.gcd(self.now, degree)
        self.start *= factor
        self.now = self.now * factor // degree


def divided_variable(
    name: str, rank: int, terms: Sequence[Term], value: Callable[[object], object]
) -> TensorType | AttributeVariable:
    """The type of a variable at a rank; or the open axis that has to be known first."""
    most: dict[tuple[str, int], int] = {}
    for term in terms:
        for chain in _chains(term, name):
            counts: dict[tuple[str, int], _Count] = {}
            for above in chain:
                degree = value(above.attribute("degree"))
                axis = value(above.attribute("axis")) if above.attribute("axis") is not None else None
                if isinstance(axis, AttributeVariable):
                    return axis
                if not isinstance(degree, int) or (isinstance(axis, int) and not -rank <= axis < rank):
                    break
                place = _place(above.operator, axis % rank if isinstance(axis, int) else 0)
                count = counts.setdefault(place, _Count())
                if above.operator in ("partition", "pipeline", "replicate"):
                    count.more(degree)
                else:
                    count.fewer(degree)
            for place, count in counts.items():
                most[place] = math.lcm(most.get(place, 1), count.start)
    divisions = tuple(
        Division(most.get(("places", axis), 1), most.get(("turns", axis), 1)) for axis in range(rank)
    )
    replicas = most.get(("replicas", 0), 1)
    shape = tuple(symbol(f"{name}.{axis}") * division.parts for axis, division in enumerate(divisions))
    if replicas == 1 and all(division.parts == 1 for division in divisions):
        return TensorType(ElementType.FLOAT, shape)
    return ShardedType(ElementType.FLOAT, shape, divisions, replicas)


def _place(operator: str, axis: int) -> tuple[str, int]:
    if operator in ("partition", "combine"):
        return "places", axis
    return ("turns", axis) if operator in ("pipeline", "batch") else ("replicas", 0)


def _chains(term: Term, name: str) -> Iterator[tuple[Application, ...]]:
    """For each occurrence of the variable the parallel operators right above it, nearest first."""

    def walk(part: Term, above: tuple[Application, ...]) -> Iterator[tuple[Application, ...]]:
        if isinstance(part, Variable):
            if part.name == name:
                yield above
            return
        for child in part.inputs:
            yield from walk(child, (part, *above) if part.operator in PARALLEL else ())

    yield from walk(term, ())


__all__ = ["PARALLEL", "divided_variable"]
