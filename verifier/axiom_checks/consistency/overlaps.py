"""Overlaps (critical pairs) of axioms: terms that two axioms rewrite, with both results.

A side of one axiom is unified with a part of a side of another (superposition; Knuth and Bendix 1970). If
both axioms are true, the result of the outer axiom on the whole equals that of the inner one on the part, so
a difference between them is a falsehood in two steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from superopt.ir.numbers import AttributeVariable, names_of, substituted_number
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    subterms,
    variables,
)
from superopt.ops.base import OPERATORS, attribute_defaults, attribute_names, normalise_attribute
from superopt.ops.terms import application, instantiate
from superopt.ops.traits import HALVES
from superopt.verifier.prove.solver import AxiomInstance


@dataclass(frozen=True)
class Overlap:
    """``peak`` becomes ``first`` by the step of the outer axiom and ``second`` by that of the inner one."""

    outer: AxiomInstance
    inner: AxiomInstance
    peak: Term
    first: Term
    second: Term

    @property
    def steps(self) -> tuple[AxiomInstance, AxiomInstance]:
        """Both steps."""
        return self.outer, self.inner


def overlaps(inner: Equation, outer: Equation) -> Iterator[Overlap]:
    """Every way in which a side of ``inner`` is a part of a side of ``outer``, once for equal results.

    Two whole sides overlap alike either way round: then ``inner`` is the one whose name comes first.
    """
    below, above = renamed(inner, "_i"), renamed(outer, "_o")
    seen: set[tuple[Term, ...]] = set()
    for whole, other in _directed(above):
        for part in applications(whole):
            for side, result in _directed(below):
                if not isinstance(side, Application) or side.operator != part.operator:
                    continue
                if part == whole and outer.name < inner.name:
                    continue
                unifier = Unifier()
                if not unifier.terms_equal(part, side):
                    continue
                found = _overlap(unifier, (below, above), whole, other, part, result)
                key = _up_to_names(found.first, found.second)
                if found.first != found.second and key not in seen and not _cuts_open_terms(found):
                    seen.add(key)
                    yield found


def has_open_shape(term: Term) -> bool:
    """Whether nothing in the term determines its shape: a constant, or what is made of constants alone."""
    if isinstance(term, Variable):
        return False
    operator = OPERATORS[term.operator]
    if "shape" in operator.implicit and term.attribute("shape") is None:
        return True
    if operator.side_rank is not None:
        return has_open_shape(term.inputs[0])
    inputs = [has_open_shape(child) for child in term.inputs]
    return all(inputs) if operator.element_wise and inputs else any(inputs)


def _up_to_names(*terms: Term) -> tuple[Term, ...]:
    numbers: dict[Term, Term] = {
        Variable(name): Variable(f"{number}") for number, name in enumerate(variables(*terms))
    }
    return tuple(replaced(term, numbers) for term in terms)


def _cuts_open_terms(overlap: Overlap) -> bool:
    """Whether a term is cut whose own shape nothing determines: then neither result says where."""
    values = (term for step in overlap.steps for _, term in step.terms)
    halves = (
        term
        for term in applications(overlap.peak, overlap.first, overlap.second, *values)
        if term.operator in HALVES
    )
    return any(has_open_shape(term.inputs[0]) for term in halves)


def _overlap(
    unifier: Unifier, axioms: tuple[Equation, Equation], whole: Term, other: Term, part: Term, result: Term
) -> Overlap:
    inner, outer = (_step(axiom, unifier) for axiom in axioms)
    peak, place = unifier.applied(whole), unifier.applied(part)
    second = replaced(peak, {place: unifier.applied(result)})
    return Overlap(outer, inner, peak, unifier.applied(other), second)


def _step(axiom: Equation, unifier: Unifier) -> AxiomInstance:
    """The instance of the axiom, under the names that its variables have in the set of axioms."""
    sides = axiom.terms
    return AxiomInstance(
        axiom.name,
        tuple((name[:-2], unifier.applied(Variable(name))) for name in variables(*sides)),
        tuple(
            (name[:-2], unifier.value(AttributeVariable(name)))
            for name in sorted(attribute_variables(*sides))
        ),
    )


def _directed(equation: Equation) -> Iterator[tuple[Term, Term]]:
    for left, right in zip(equation.left, equation.right, strict=True):
        yield left, right
        yield right, left


def renamed(equation: Equation, suffix: str) -> Equation:
    """The equation's sides with the suffix at every tensor and attribute variable."""
    sides = equation.terms
    terms = {name: Variable(name + suffix) for name in variables(*sides)}
    attributes = {name: AttributeVariable(name + suffix) for name in attribute_variables(*sides)}
    left, right = (
        tuple(instantiate(term, terms, attributes) for term in side)
        for side in (equation.left, equation.right)
    )
    return Equation(left, right, name=equation.name)


def replaced(term: Term, by: Mapping[Term, Term]) -> Term:
    """The term with other terms in place of some of its parts."""
    found = by.get(term)
    if found is not None:
        return found
    if isinstance(term, Variable):
        return term
    return replace(term, inputs=tuple(replaced(child, by) for child in term.inputs))


@dataclass
class Unifier:
    """The most general values of tensor and attribute variables that make terms equal, as far as met."""

    _terms: dict[str, Term] = field(default_factory=dict[str, Term])
    _attributes: dict[str, AttributeTerm] = field(default_factory=dict[str, AttributeTerm])

    def terms_equal(self, left: Term, right: Term) -> bool:
        """Extends the values so that both terms are equal; False when nothing makes them so."""
        left, right = self._resolved(left), self._resolved(right)
        if left == right:
            return True
        if isinstance(left, Variable):
            return self._bind(left, right)
        if isinstance(right, Variable):
            return self._bind(right, left)
        if left.operator != right.operator or len(left.inputs) != len(right.inputs):
            return False
        names = attribute_names(left.operator)
        pairs = ((given_attribute(left, name), given_attribute(right, name)) for name in names)
        return all(self._values_equal(a, b) for a, b in pairs) and all(
            self.terms_equal(a, b) for a, b in zip(left.inputs, right.inputs, strict=True)
        )

    def applied(self, term: Term) -> Term:
        """The term with all values put in."""
        term = self._resolved(term)
        if isinstance(term, Variable):
            return term
        attributes = {name: self.value(value) for name, value in term.attributes}
        return application(term.operator, attributes, *(self.applied(child) for child in term.inputs))

    def value(self, value: AttributeTerm) -> AttributeTerm:
        """The value of an attribute, a variable when it is open."""
        known = {n: self.value(self._attributes[n]) for n in names_of(value) & self._attributes.keys()}
        return cast("AttributeTerm", substituted_number(value, known)) if known else value

    def _resolved(self, term: Term) -> Term:
        while isinstance(term, Variable) and term.name in self._terms:
            term = self._terms[term.name]
        return term

    def _bind(self, variable: Variable, term: Term) -> bool:
        if variable in subterms(self.applied(term)):
            return False
        self._terms[variable.name] = term
        return True

    def _values_equal(self, left: AttributeTerm | None, right: AttributeTerm | None) -> bool:
        if left is None or right is None:
            return left is right
        left, right = self.value(left), self.value(right)
        if left == right:
            return True
        for one, other in ((left, right), (right, left)):
            if isinstance(one, AttributeVariable) and one.name not in names_of(other):
                self._attributes[one.name] = other
                return True
        return False


def given_attribute(term: Application, name: str) -> AttributeTerm | None:
    """The attribute, its default when it is left out, None when types determine it."""
    value = term.attribute(name)
    if value is not None or name in OPERATORS[term.operator].implicit:
        return value
    return normalise_attribute(name, attribute_defaults(term.operator)[name])  # pyright: ignore[reportReturnType]


__all__ = ["Overlap", "Unifier", "given_attribute", "has_open_shape", "overlaps", "renamed", "replaced"]
