"""In which order brute force fills in an equation: each operator as soon as few new variables allow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from superopt.ir.numbers import AttributeVariable, NumberExpression
from superopt.ir.terms import Application, Term, Variable, applications
from tests.verifier.brute.basics import Attributes, Shape
from tests.verifier.brute.meaning import IMPLICIT, RANKS
from tests.verifier.number_oracle import Numbers, number

MAX_RANK = 4
CutsAndSizes = Mapping[Application, object]
"""Values for the attributes that a rule leaves to the types around it."""


def in_order(sides: tuple[Term, ...]) -> tuple[Term, ...]:
    """All subterms, inputs first, so that operands that do not fit are noticed early.

    Constants of any shape come late: theirs is chosen among the shapes that are known by then.
    """
    waiting = list(applications(*sides))
    placed: dict[Term, None] = {}
    while waiting:
        ready = [t for t in waiting if all(isinstance(c, Variable) or c in placed for c in t.inputs)]
        term = min(ready, key=lambda t: (_takes_any_shape(t), len(set(t.inputs) - placed.keys())))
        placed |= dict.fromkeys((*term.inputs, term))
        waiting.remove(term)
    return tuple(placed | dict.fromkeys(sides))


def _takes_any_shape(term: Application) -> bool:
    return not term.inputs and IMPLICIT.get(term.operator) == "shape" and term.attribute("shape") is None


def ranks_of(steps: tuple[Term, ...]) -> dict[str, list[int]]:
    """The ranks that the operators applied to a variable allow."""
    ranks = {term.name: set(range(MAX_RANK + 1)) for term in steps if isinstance(term, Variable)}
    for term in applications(*steps):
        for child, allowed in zip(term.inputs, RANKS.get(term.operator, ()), strict=False):
            if isinstance(child, Variable):
                ranks[child.name] &= allowed
    return {name: sorted(own) for name, own in ranks.items()}


def only_shape(
    variable: Variable, later: tuple[Term, ...], shapes: Mapping[Term, Shape], attributes: Attributes
) -> Shape | None:
    """The one shape that the next use of the variable allows, where it allows one only."""
    user = next((t for t in later if isinstance(t, Application) and variable in t.inputs), None)
    known = () if user is None else [shapes[child] for child in user.inputs if child in shapes]
    if user is None or not known:
        return None
    if user.operator in ("add", "sub", "mul", "div"):
        return known[0]
    if user.operator in ("channel_scale", "bias_add", "prelu", "affine") and user.inputs[0] in shapes:
        whole, axis = shapes[user.inputs[0]], resolved(user, attributes, {})["axis"]
        return (whole[axis],) if -len(whole) <= axis < len(whole) else None
    return None


def resolved(term: Application, values: Attributes, implicit: CutsAndSizes) -> Attributes:
    """The attributes of a term, with values for attribute variables and for what types determine."""
    own: dict[str, object] = {key: _resolved(value, values) for key, value in term.attributes}
    if term in implicit:
        own[IMPLICIT[term.operator]] = implicit[term]
    return own


def _resolved(value: object, values: Attributes) -> object:
    if isinstance(value, AttributeVariable):
        return values[value.name]
    return number(value, cast("Numbers", values)) if isinstance(value, NumberExpression) else value


def cuts_of(
    term: Application, shapes: Mapping[Term, Shape], implicit: CutsAndSizes, attributes: Attributes
) -> list[int]:
    """Where a half may be cut: as its other half is, where the operands of a concat meet, or anywhere."""
    (whole,) = term.inputs
    rank = len(shapes[whole])
    axis = resolved(term, attributes, {})["axis"]
    if not -rank <= axis < rank:
        return []
    for other, cut in implicit.items():
        same = other.operator in ("split0", "split1") and other.inputs == term.inputs
        if same and resolved(other, attributes, {})["axis"] % rank == axis % rank:
            assert isinstance(cut, int)
            return [cut]
    if _joined_along(whole, axis % rank, rank, attributes):
        assert isinstance(whole, Application)
        return [shapes[whole.inputs[0]][axis]]
    return list(range(1, shapes[whole][axis]))


def has_free_cuts(implicit: CutsAndSizes, attributes: Attributes, shapes: Mapping[Term, Shape]) -> bool:
    """Whether a half is cut where nothing but the search says so."""
    for term in implicit:
        if term.operator in ("split0", "split1"):
            (whole,) = term.inputs
            rank = len(shapes[whole])
            if not _joined_along(whole, resolved(term, attributes, {})["axis"] % rank, rank, attributes):
                return True
    return False


def _joined_along(whole: Term, axis: int, rank: int, attributes: Attributes) -> bool:
    if isinstance(whole, Variable) or whole.operator != "concat":
        return False
    return resolved(whole, attributes, {})["axis"] % rank == axis
