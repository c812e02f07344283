"""Substitutions: equations read in one direction, checked to be usable as rewrites."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

from superopt.errors import InvalidEquationError
from superopt.ir.terms import (
    Application,
    Condition,
    Direction,
    Equation,
    Term,
    Variable,
    attribute_variables,
    subterms,
    variables,
)


@dataclass(frozen=True)
class Substitution:
    """``source`` may be replaced by ``target``, output by output (dissertation, section 2.2)."""

    rule_id: str
    equation: Equation
    source: tuple[Term, ...]
    target: tuple[Term, ...]
    conditions: tuple[Condition, ...] = ()
    backwards: bool = False

    @property
    def roots(self) -> tuple[Application, ...]:
        """The source terms; all are applications."""
        return tuple(term for term in self.source if isinstance(term, Application))

    @cached_property
    def has_symmetric_roots(self) -> bool:
        """Whether exchanging neighbouring outputs gives the same source up to renaming."""
        return len(self.source) > 1 and all(
            _shape((a, b)) == _shape((b, a)) for a, b in pairwise(self.source)
        )


def substitutions_of(equation: Equation, rule_id: str) -> tuple[Substitution, ...]:
    """One substitution for each direction in which the equation can be used.

    A direction is usable when its source has an operator at every root and determines all variables and
    attribute variables of its target. Raises InvalidEquationError when ``=>`` is not, or no direction is.
    """
    directions = [(equation.left, equation.right, False)]
    if equation.direction is not Direction.FORWARD:
        directions.append((equation.right, equation.left, True))
    usable = [
        Substitution(rule_id, equation, source, target, equation.conditions, backwards)
        for source, target, backwards in directions
        if why_unusable(source, target) is None
    ]
    if not usable:
        raise InvalidEquationError(f"malformed rule: {why_unusable(equation.left, equation.right)}")
    return tuple(usable)


def why_unusable(source: Iterable[Term], target: Iterable[Term]) -> str | None:
    """Why source => target is malformed as a rule, None when it is not."""
    source, target = tuple(source), tuple(target)
    if any(isinstance(term, Variable) for term in source):
        return "the source is a bare variable, which matches everything"
    unbound = [name for name in variables(*target) if name not in variables(*source)]
    if unbound:
        return f"the target uses {', '.join(unbound)}, which the source does not have"
    open_attributes = sorted(attribute_variables(*target) - attribute_variables(*source))
    if open_attributes:
        return (
            f"the target uses the attribute {', '.join(open_attributes)}, which the source does not determine"
        )
    return None


def _shape(terms: tuple[Term, ...]) -> tuple[object, ...]:
    """The terms with variables numbered in order of occurrence."""
    numbers: dict[str, int] = {}
    for term in subterms(*terms):
        if isinstance(term, Variable):
            numbers.setdefault(term.name, len(numbers))

    def numbered(term: Term) -> object:
        if isinstance(term, Variable):
            return numbers[term.name]
        return (term.operator, term.attributes, tuple(numbered(child) for child in term.inputs))

    return tuple(chain(numbered(term) for term in terms))
