"""How far cases go: the highest rank R."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Condition,
    ConditionTerm,
    Equation,
    Term,
    applications,
)
from superopt.ops import OPERATORS, attribute_defaults
from superopt.verifier.certificates.certificate import Certificate
from tests.verifier.second_checker.plain import (
    Names,
    calls,
    is_axis,
    is_call,
    is_number,
    names_of_equation,
    operands,
    require_plain,
)
from tests.verifier.second_checker.ranks import Classes, chain_classes, limited, rule_classes
from tests.verifier.second_checker.typing_state import UnknownCasesError

RESHAPED_RANK = 5
MOST_RANK = 32


@dataclass
class _Positions:
    """P and N: how many axes from the front and from the back are special; and the lowest R."""

    front: int = 0
    back: int = 0
    highest: int = 0

    def axis(self, axis: int) -> None:
        """A number that is an axis."""
        self.front, self.back = max(self.front, axis + 1), max(self.back, -axis)

    def rank(self, rank: int) -> None:
        """A number that is a rank, or so many axes that are special."""
        self.front, self.back = max(self.front, rank), max(self.back, rank)


def highest_rank(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> int:
    """R of the section "Every case"; raises UnknownCasesError."""
    terms = chain_terms(goal, certificate)
    if any(_moves_freely(part) for part in applications(*terms)):
        limited(rule_classes(goal, strict=False), goal, RESHAPED_RANK)
        return RESHAPED_RANK
    names = names_of_equation(goal)
    require_plain(goal.conditions, names)
    classes = _related(goal, axioms, certificate, names)
    found = _Positions()
    used = [axioms[name] for name in certificate.axioms_used]
    for part in applications(*terms, *(side for axiom in used for side in axiom.terms)):
        _of_application(part, found)
    for chain in certificate.chains:
        for link in chain:
            for _, value in link.attributes:
                if isinstance(value, int):
                    found.axis(value)
                elif isinstance(value, tuple):
                    found.rank(len(value))
    for equation in (goal, *used):
        own = names_of_equation(equation)
        for _, declared in equation.types:
            found.rank(len(declared.shape))
        for condition in equation.conditions:
            _of_condition(condition, own, found)
    bound = (1 + classes.broadcasts()) * (found.front + len(names.axes)) + found.back + 2
    bound = max(bound, found.highest)
    if bound > MOST_RANK:
        raise UnknownCasesError("more ranks than are checked")
    return bound


def chain_terms(goal: Equation, certificate: Certificate) -> tuple[Term, ...]:
    """All terms of the rule and of the links."""
    links = [link for chain in certificate.chains for link in chain]
    return (*goal.terms, *(term for link in links for term in (link.term, *dict(link.terms).values())))


def _related(
    goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate, names: Names
) -> Classes:
    """Which ranks are equal; raises UnknownCasesError where an axis variable is used at several."""
    rule_classes(goal).require_one_rank(names.axes)
    classes = chain_classes(goal, axioms, certificate)
    classes.require_one_rank(names.axes)
    return classes


def _moves_freely(part: Application) -> bool:
    return OPERATORS[part.operator].positions is None or isinstance(part.attribute("perm"), AttributeVariable)


def _of_application(part: Application, found: _Positions) -> None:
    found.rank(OPERATORS[part.operator].positions or 0)
    for name, value in {**attribute_defaults(part.operator), **dict(part.attributes)}.items():
        if name == "axis" and isinstance(value, int):
            found.axis(value)
        elif name in ("shape", "perm") and isinstance(value, tuple):
            found.rank(len(cast("tuple[object, ...]", value)))
        if name == "perm" and isinstance(value, tuple):
            for axis in cast("tuple[int, ...]", value):
                found.axis(axis)


def _of_condition(condition: Condition, names: Names, found: _Positions) -> None:
    for call in calls(condition):
        if call.function in ("dim", "axis") and isinstance(call.arguments[1], int):
            found.axis(call.arguments[1])
        elif call.function in ("channels", "groups", "outputs_per_group"):
            found.axis(1)
        elif call.function == "leading":
            found.axis(-1)
    sides = operands(condition)
    numbers = [number for side in sides for number in _whole(side)]
    if any(is_call(side, "rank") for side in sides):
        bounded = is_call(sides[0], "rank") and condition.relation in ("<", "<=")
        for number in numbers:
            found.highest = max(found.highest, number + 1)
            if not bounded:
                found.rank(number)
    if any(is_axis(side, names.axes) or is_call(side, "axis") for side in sides):
        for number in numbers:
            found.axis(number)
    for side in _everything(condition):
        if isinstance(side, tuple):
            found.rank(len(side) + 1)


def _whole(side: ConditionTerm) -> Iterator[int]:
    """The whole numbers next to a number."""
    if is_number(side):
        number = Fraction(cast("int | Fraction", side))
        yield from (math.floor(number), math.ceil(number))


def _everything(condition: Condition) -> Sequence[ConditionTerm]:
    return (*operands(condition), *(a for call in calls(condition) for a in call.arguments))


__all__ = ["MOST_RANK", "RESHAPED_RANK", "chain_terms", "highest_rank"]
