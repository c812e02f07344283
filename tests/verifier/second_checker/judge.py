"""The second checker: is a certificate a proof of its equation?"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from superopt.errors import SuperoptError
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import (
    Application,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    subterms,
)
from superopt.ir.types import TensorType
from superopt.ops import OPERATORS
from superopt.verifier.certificates.certificate import Certificate
from tests.verifier.second_checker.bounds import highest_rank
from tests.verifier.second_checker.chain import Case, may_be_one_group, replay_case
from tests.verifier.second_checker.conditions import NotYetError, Scope, assumed, relates_otherwise
from tests.verifier.second_checker.degrees import degrees, open_degrees
from tests.verifier.second_checker.items import application, variable
from tests.verifier.second_checker.nodes import Node, nodes_of, type_of
from tests.verifier.second_checker.numbers import names_in
from tests.verifier.second_checker.text import NUMBERS, WrongError, check_text
from tests.verifier.second_checker.typing_state import (
    State,
    UnknownCasesError,
    every_case,
    new_state,
    same_types,
)

RULE = "rule"


class Answer(enum.StrEnum):
    """What the checker says of a certificate."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Judgement:
    """An answer, why, and how many cases there were."""

    answer: Answer
    reason: str = ""
    cases: int = 0


def judge(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> Judgement:
    """Whether the certificate proves the equation from the axioms."""
    number = 0
    try:
        check_text(goal, axioms, certificate)
        for case in cases(goal, axioms, certificate):
            number += 1
            replay_case(axioms, certificate, case)
    except UnknownCasesError as error:
        return Judgement(Answer.UNKNOWN, str(error), number)
    except (WrongError, SuperoptError) as error:
        return Judgement(Answer.REJECTED, str(error), number)
    if not number:
        return Judgement(Answer.REJECTED, "there is no well-typed case")
    return Judgement(Answer.ACCEPTED, cases=number)


def cases(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> Iterator[Case]:
    """All cases of the rule; raises UnknownCasesError."""
    sides = goal.terms
    used = [axioms[name] for name in certificate.axioms_used]
    ranks = range(highest_rank(goal, axioms, certificate) + 1)
    numbers = _open_numbers(sides)
    declared = dict(goal.types)
    for condition in goal.conditions:
        if relates_otherwise(condition, {*numbers, *open_degrees(goal)}):
            raise UnknownCasesError("a condition relates a number or a degree to something else")
    for assigned, divisible in degrees(goal, used, certificate):
        state = new_state(ranks, universal=True)
        state.attribute_names = attribute_variables(*sides)
        state.divisible = divisible
        for name, value in (*numbers.items(), *assigned.items()):
            state.attributes[RULE, name] = value
        for part in subterms(*sides):
            key = (RULE, part)
            state.pending.append(
                variable(key, declared.get(part.name), sides)
                if isinstance(part, Variable)
                else application(key)
            )
        state.pending += [
            same_types((RULE, a), (RULE, b))
            for a, b in zip(goal.left, goal.right, strict=True)
            if any(_leaves_out_sizes(part) for part in applications(a, b))
        ]
        state.pending += [assumed(condition, _scope, numbers) for condition in goal.conditions]
        for found in every_case(state):
            case = _case(goal, found, numbers, ranks)
            if case is not None:
                yield case


def _leaves_out_sizes(part: Application) -> bool:
    return any(part.attribute(name) is None for name in OPERATORS[part.operator].implicit)


def _scope(state: State) -> Scope:
    def types(name: str) -> TensorType:
        found = state.types.get((RULE, Variable(name)))
        if found is None:
            raise NotYetError
        return found

    def attributes(name: str) -> object:
        if (RULE, name) in state.attributes:
            return state.attributes[RULE, name]
        if (RULE, Variable(name)) in state.types or name not in state.attribute_names:
            raise KeyError(name)
        raise NotYetError

    return Scope(types, attributes)


def _case(goal: Equation, state: State, numbers: Mapping[str, Fraction], ranks: range) -> Case | None:
    """The case that a state describes; None where a size is seen not to be positive."""
    types = {
        part.name: state.types[RULE, part] for part in subterms(*goal.terms) if isinstance(part, Variable)
    }
    left = tuple(state.complete((RULE, side)) for side in goal.left)
    right = tuple(state.complete((RULE, side)) for side in goal.right)
    positive: list[Dimension] = list(state.positive)
    granted: set[tuple[object, ...]] = {("odd", extent) for extent in state.odd}
    groups: set[Dimension] = set()
    for side in (*left, *right):
        for node in nodes_of(side):
            positive += type_of(node, types).shape
            if isinstance(node, Node):
                granted |= node.operator.unseen(*(type_of(child, types) for child in node.inputs))
                groups |= may_be_one_group(node, types)
    if any(_never_positive(size) for size in positive):
        return None
    attributes = {name: value for (scope, name), value in state.attributes.items() if scope == RULE}
    known = tuple(dict.fromkeys(size for size in positive if not isinstance(size, int)))
    return Case(
        types,
        attributes,
        numbers,
        left,
        right,
        known,
        frozenset(granted),
        frozenset(state.odd),
        frozenset(groups),
        ranks,
    )


def _never_positive(size: Dimension) -> bool:
    if isinstance(size, int):
        return size < 1
    return all(c < 0 for _, c in size.terms) and not any("floor" in str(a) for m, _ in size.terms for a in m)


def _open_numbers(sides: tuple[Term, ...]) -> Mapping[str, Fraction]:
    """Open numbers, each as one that no text has; raises UnknownCasesError for a name of two kinds."""
    kinds: dict[str, set[str]] = {}
    for part in applications(*sides):
        for attribute, value in part.attributes:
            for name in names_in(value):
                kind = "number" if attribute in NUMBERS else attribute
                kind = "pair" if attribute in ("kernel", "stride", "dilation") else kind
                kinds.setdefault(name, set()).add(kind)
    for name, found in kinds.items():
        if len(found) > 1:
            raise UnknownCasesError(f"{name} is an attribute of several kinds")
    names = sorted(name for name, found in kinds.items() if found == {"number"})
    return {name: Fraction(10**40 + 2 * index + 1, 10**20 + 39) for index, name in enumerate(names)}


__all__ = ["Answer", "Judgement", "cases", "judge"]
