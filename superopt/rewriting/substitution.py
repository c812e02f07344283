"""Substitutions: equations read in one direction, checked to be usable as rewrites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

from superopt.errors import InvalidEquationError
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import (
    Application,
    Condition,
    Direction,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    calculated,
    subterms,
    variables,
)
from superopt.ops.base import OPERATORS
from superopt.ops.sharded.parallel import ParallelOperator
from superopt.ops.traits import HALVES, traits
from superopt.rewriting.conditions import names_in, why_undecidable


@dataclass(frozen=True)
class Substitution:
    """A rewrite of ``source`` to ``target``, output by output (dissertation, section 2.2)."""

    rule_id: str
    equation: Equation
    source: tuple[Term, ...]
    target: tuple[Term, ...]
    conditions: tuple[Condition, ...] = ()
    backwards: bool = False

    @cached_property
    def roots(self) -> tuple[Application, ...]:
        """The source terms; all are applications."""
        return tuple(term for term in self.source if isinstance(term, Application))

    @cached_property
    def source_applications(self) -> tuple[Application, ...]:
        """The distinct operators of the source, in topological order."""
        return tuple(applications(*self.source))

    @cached_property
    def divides(self) -> bool:
        """Whether the source has an operator that divides tensors: such rules match no unsharded graph."""
        return _divides(self.source)

    @cached_property
    def target_variables(self) -> tuple[str, ...]:
        """The variables that the target uses."""
        return variables(*self.target)

    @cached_property
    def has_symmetric_roots(self) -> bool:
        """Whether exchanging adjacent outputs gives the same source up to renaming."""
        return (
            len(self.source) > 1
            and not self.conditions
            and not self.equation.types
            and all(_shape((a, b)) == _shape((b, a)) for a, b in pairwise(self.source))
        )

    @cached_property
    def repeated_attributes(self) -> frozenset[str]:
        """Attribute variables that occur several times in the source, or in a condition."""
        places = Counter(
            value.name
            for term in self.source_applications
            for _, value in term.attributes
            if isinstance(value, AttributeVariable)
        )
        named = frozenset[str]().union(*(names_in(condition) for condition in self.conditions))
        return frozenset(name for name, count in places.items() if count > 1 or name in named)

    @cached_property
    def compares_paddings(self) -> bool:
        """Whether a match may be found separately for each equivalent padding."""
        repeated = (
            isinstance(value, AttributeVariable) and value.name in self.repeated_attributes
            for term in self.source_applications
            for name, value in term.attributes
            if name == "padding"
        )
        return not self.conditions and any(repeated)

    @cached_property
    def conditional_variables(self) -> frozenset[str]:
        """The variables that are moved at most before an operator takes them as a condition, on both sides:
        what the rule says of any numbers, it says of truth values."""
        terms = (*self.source, *self.target)
        read_as_numbers = set[str]().union(*(_read_as_numbers(term) for term in terms))
        return frozenset(variables(*terms)) - read_as_numbers

    @cached_property
    def shared_open_terms(self) -> tuple[Application, ...]:
        """Terms on both sides whose inputs do not determine their type: an equation gives a term one type."""
        of_source = frozenset(self.source_applications)
        return tuple(
            term
            for term in applications(*self.target)
            if term in of_source
            and any(term.attribute(name) is None for name in OPERATORS[term.operator].implicit)
        )

    @cached_property
    def source_sized_by_types(self) -> tuple[Application, ...]:
        """Constants and broadcasts of the source whose sizes are determined by the types around them."""
        return tuple(
            term
            for term in self.source_applications
            if term.operator not in HALVES
            and any(term.attribute(name) is None for name in OPERATORS[term.operator].implicit)
        )

    @cached_property
    def halved_concats(self) -> tuple[Application, ...]:
        """The halves of a concat in the source: their cut is between the concat's operands."""
        return tuple(
            term
            for term in self.source_applications
            if term.operator in HALVES
            and isinstance(term.inputs[0], Application)
            and traits(term.inputs[0].operator).joins
        )


def substitutions_of(equation: Equation, rule_id: str) -> tuple[Substitution, ...]:
    """One substitution for each direction in which the equation can be used.

    A direction is usable when its source has an operator at every root and determines all variables and
    attribute variables of its target and of its conditions. Raises InvalidEquationError when ``=>`` is not,
    or no direction is.
    """
    directions = [(equation.left, equation.right, False)]
    if equation.direction is not Direction.FORWARD:
        directions.append((equation.right, equation.left, True))
    usable = [
        Substitution(rule_id, equation, source, target, equation.conditions, backwards)
        for source, target, backwards in directions
        if _why_malformed(source, target, equation.conditions) is None
    ]
    if not usable:
        reason = _why_malformed(equation.left, equation.right, equation.conditions)
        raise InvalidEquationError(f"malformed rule: {reason}")
    return tuple(usable)


def _why_malformed(
    source: tuple[Term, ...], target: tuple[Term, ...], conditions: tuple[Condition, ...]
) -> str | None:
    unusable = why_unusable(source, target)
    if unusable or not conditions:
        return unusable
    names = frozenset(variables(*source)) | attribute_variables(*source)
    reasons = (why_undecidable(condition, names) for condition in conditions)
    return next((reason for reason in reasons if reason), None)


def why_unusable(source: Iterable[Term], target: Iterable[Term]) -> str | None:
    """Why source => target is malformed as a rule, None if it is not."""
    source, target = tuple(source), tuple(target)
    if any(isinstance(term, Variable) for term in source):
        return "the source is a bare variable, which matches everything"
    for _, _, number in calculated(*source):
        return f"the source computes the number {number}, which only a target may"
    bound = frozenset(variables(*source))
    unbound = [name for name in variables(*target) if name not in bound]
    if unbound:
        return f"the target uses {', '.join(unbound)}, which the source does not have"
    open_attributes = sorted(attribute_variables(*target) - attribute_variables(*source))
    if open_attributes:
        return (
            f"the target uses the attribute {', '.join(open_attributes)}, which the source does not determine"
        )
    if _divides(target) and not _divides(source):
        return "the target divides tensors, which is for a plan to do"
    return None


def _read_as_numbers(term: Term, *, as_condition: bool = False) -> frozenset[str]:
    """The variables of a term of which more matters than whether they are true."""
    if isinstance(term, Variable):
        return frozenset[str]() if as_condition else frozenset((term.name,))
    own = traits(term.operator)
    return frozenset[str]().union(
        *(
            _read_as_numbers(child, as_condition=slot in own.conditions or (as_condition and own.moves))
            for slot, child in enumerate(term.inputs)
        )
    )


def _divides(terms: Iterable[Term]) -> bool:
    return any(issubclass(OPERATORS[term.operator], ParallelOperator) for term in applications(*terms))


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
