"""Read the rewritten regions of a report as equations that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from superopt.ir.terms import Application, Direction, Equation, Term, Variable


def equation_of_region(region: Mapping[str, object]) -> Equation | None:
    """The region before and after as an equation; None for a region that is too large to be drawn. Attributes
    are one text. Raises KeyError, IndexError, TypeError or ValueError for malformed regions."""
    if not region.get("before") or not region.get("after"):
        return None
    left, right = (_terms(_object(region[side])) for side in ("before", "after"))
    return Equation(left, right, Direction.FORWARD)


def _terms(side: Mapping[str, object]) -> tuple[Term, ...]:
    made: list[Term] = []
    for node in map(_object, cast("Sequence[object]", side["nodes"])):
        if "tensor" in node:
            made.append(Variable(str(node["tensor"])))
            continue
        pairs = (str(text).partition("=") for text in cast("Sequence[object]", node["attributes"]))
        attributes = tuple((name, value) for name, _, value in pairs)
        inputs = tuple(made[number] for number in cast("Sequence[int]", node["inputs"]))
        made.append(Application(str(node["operator"]), attributes, inputs))
    return tuple(made[number] for number in cast("Sequence[int]", side["results"]))


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, got {value!r:.60}")
    return cast("Mapping[str, object]", value)
