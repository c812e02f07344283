"""Terms and equations: the syntax of axioms and rules, independent of operator semantics.

A term is a variable or an operator applied to terms. Attributes of an operator are constants, attribute
variables, or numbers calculated from these. An equation has equally many terms on both sides; equal subterms
are one node.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias, cast

from superopt.ir.numbers import AttributeVariable, NumberExpression, names_of

AttributeValue: TypeAlias = "int | float | Fraction | str | tuple[int, ...]"


AttributeTerm: TypeAlias = "AttributeValue | AttributeVariable | NumberExpression"


@dataclass(frozen=True, slots=True)
class VariableType:
    """The declared type of an equation's input: element type name and dimension names or sizes."""

    element: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor variable of a rule."""

    name: str


@dataclass(frozen=True)
class Application:
    """An operator applied to terms; ``attributes`` holds only those in the text, sorted by name."""

    operator: str
    attributes: tuple[tuple[str, AttributeTerm], ...]
    inputs: tuple[Term, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.operator, self.attributes, self.inputs)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        """Constructed again when unpickled, because text hashes differ between processes."""
        return (Application, (self.operator, self.attributes, self.inputs))

    def attribute(self, name: str) -> AttributeTerm | None:
        """The attribute of that name, None when it is not in the text."""
        return next((value for key, value in self.attributes if key == name), None)


Term: TypeAlias = "Variable | Application"


@dataclass(frozen=True, slots=True)
class Condition:
    """One ``where`` clause: ``left relation right``, or a predicate when ``relation`` is empty.

    Operands are written as in the text: an attribute variable, a number, or a function of variables such as
    ``dim(x, -1)``, ``rank(x)``, ``channels(w)``, ``odd(k)``.
    """

    left: ConditionTerm
    relation: str = ""
    right: ConditionTerm | None = None


@dataclass(frozen=True, slots=True)
class ConditionCall:
    """A function applied in a condition, for instance ``dim(x, 1)`` or ``odd(k)``."""

    function: str
    arguments: tuple[ConditionTerm, ...]


@dataclass(frozen=True, slots=True)
class ConditionName:
    """A tensor variable or attribute variable named in a condition."""

    name: str


ConditionTerm: TypeAlias = (
    "int | Fraction | str | tuple[int, ...] | ConditionName | ConditionCall | NumberExpression"
)


def as_condition_term(value: object) -> ConditionTerm | None:
    """An attribute value as an operand of a condition; None for a float, which no condition can name."""
    if isinstance(value, AttributeVariable):
        return ConditionName(value.name)
    constant = isinstance(value, int | Fraction | str | tuple | NumberExpression)
    return cast("ConditionTerm", value) if constant else None


class Direction(enum.StrEnum):
    """The directions in which an equation may be used."""

    EQUAL = "="
    FORWARD = "=>"
    BOTH = "<=>"


@dataclass(frozen=True)
class Equation:
    """``left`` equals ``right``, term by term, wherever ``conditions`` hold and both sides are well-typed."""

    left: tuple[Term, ...]
    right: tuple[Term, ...]
    direction: Direction = Direction.EQUAL
    conditions: tuple[Condition, ...] = ()
    types: tuple[tuple[str, VariableType], ...] = ()
    name: str = ""

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The terms of both sides, those of the left first."""
        return (*self.left, *self.right)

    @cached_property
    def applications(self) -> tuple[Application, ...]:
        """The distinct applications in both sides, in topological order."""
        return tuple(applications(*self.terms))

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Names of its tensor variables in order of first occurrence."""
        return variables(*self.terms)

    @cached_property
    def attribute_variables(self) -> frozenset[str]:
        """Names of its attribute variables."""
        return attribute_variables(*self.terms)

    def reversed(self) -> Equation:
        """The equation read from right to left."""
        return Equation(self.right, self.left, self.direction, self.conditions, self.types, self.name)


def subterms(*terms: Term) -> Iterator[Term]:
    """Every distinct subterm once, in topological order."""
    seen: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(term, False) for term in reversed(terms)]
    while stack:
        term, ready = stack.pop()
        if term in seen:
            continue
        if ready or isinstance(term, Variable):
            seen.add(term)
            yield term
        else:
            stack.append((term, True))
            stack.extend((child, False) for child in reversed(term.inputs))


def applications(*terms: Term) -> Iterator[Application]:
    """The distinct applications among the subterms, in topological order."""
    return (term for term in subterms(*terms) if isinstance(term, Application))


def variables(*terms: Term) -> tuple[str, ...]:
    """Names of tensor variables in order of first occurrence, left to right."""
    return tuple(term.name for term in subterms(*terms) if isinstance(term, Variable))


def attribute_variables(*terms: Term) -> frozenset[str]:
    """Names of all attribute variables."""
    found = (names_of(value) for term in applications(*terms) for _, value in term.attributes)
    return frozenset[str]().union(*found)


def calculated(*terms: Term) -> Iterator[tuple[Application, str, NumberExpression]]:
    """The attributes in all subterms that are numbers calculated from others, each with its application and
    name."""
    for term in applications(*terms):
        for name, value in term.attributes:
            if isinstance(value, NumberExpression):
                yield term, name, value


def operator_count(*terms: Term) -> int:
    """The number of operators needed to compute all terms, counting shared subterms once."""
    return sum(1 for _ in applications(*terms))
