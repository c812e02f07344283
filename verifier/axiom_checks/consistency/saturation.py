"""Saturation of a few typed terms with the axioms, by classes of equal terms.

Terms are kept as the prover sees them, without shapes; but an instance of an axiom is used only if it is
well-typed by itself and its condition holds, and not if it takes a tensor to a constant of every shape, such
as sub(x, x) to zeros. In a consistent set all terms of a class that have one value have the same one.

``superopt.rewriting.derivability`` is asked about a given target, and all its terms are typed. Here no target
is known, steps may forget shapes as proofs do, and the instances of axioms that led to a falsehood are needed
for its explanation, which egglog does not give.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Equation,
    Term,
    Variable,
    attribute_variables,
    variables,
)
from superopt.ops.base import attribute_names
from superopt.verifier.axiom_checks.consistency.interpretation import Interpretation, Meaning, difference
from superopt.verifier.axiom_checks.consistency.overlaps import given_attribute, has_open_shape
from superopt.verifier.prove.congruence import Congruence
from superopt.verifier.prove.solver import AxiomInstance


@dataclass(frozen=True)
class Extent:
    """How far to go: passes over all axioms, instances of axioms used, terms kept."""

    rounds: int = 3
    steps: int = 120
    terms: int = 400


@dataclass(frozen=True)
class Merged:
    """Two terms of one class that are not equal, and how they differ."""

    left: Term
    right: Term
    difference: str


@dataclass(frozen=True)
class _Binding:
    """What a pattern's variables stand for: classes, and values of attributes."""

    classes: Mapping[str, int]
    attributes: Mapping[str, AttributeTerm]


class Saturation:
    """Classes of terms that axioms make equal, under one interpretation."""

    def __init__(self, interpretation: Interpretation, axioms: Sequence[Equation], extent: Extent) -> None:
        self.steps: dict[AxiomInstance, Equation] = {}
        self._interpretation = interpretation
        self._extent = extent
        self._patterns = [(axiom, side) for axiom in axioms for side in _patterns(axiom)]
        self._closure = Congruence()
        self._terms: list[Term] = []
        self._children: list[tuple[int, ...]] = []
        self._tried: set[tuple[str, tuple[tuple[str, object], ...]]] = set()

    def add(self, term: Term) -> int:
        """The number of a term, the same for congruent terms."""
        children = () if isinstance(term, Variable) else tuple(self.add(child) for child in term.inputs)
        head = term.name if isinstance(term, Variable) else f"{term.operator} {term.attributes!r}"
        number = self._closure.node(head, children)
        if number == len(self._terms):
            self._terms.append(term)
            self._children.append(children)
        return number

    def run(self) -> None:
        """Applies the axioms until nothing is new or the extent is reached."""
        for _ in range(self._extent.rounds):
            before = len(self.steps)
            found = list(self._matches())
            for axiom, binding in found:
                if len(self.steps) >= self._extent.steps or len(self._terms) >= self._extent.terms:
                    return
                self._use(axiom, binding)
            if len(self.steps) == before:
                return

    def equal(self, left: int, right: int) -> bool:
        """Whether the terms of these numbers are in one class."""
        return self._closure.equal(left, right)

    def merged(self) -> Iterator[Merged]:
        """For each class the first pair of terms that differ."""
        for members in self._classes().values():
            first: tuple[Term, Meaning] | None = None
            for number in members:
                term = self._terms[number]
                meaning = self._interpretation.meaning(term)
                if meaning is None:
                    continue
                if first is None:
                    first = term, meaning
                    continue
                found = difference(first[1], meaning)
                if found is not None:
                    yield Merged(first[0], term, found)
                    break

    def _use(self, axiom: Equation, binding: _Binding) -> None:
        classes = self._classes_named(binding)
        key = (axiom.name, (*sorted(classes.items()), *sorted(binding.attributes.items())))
        if key in self._tried:
            return
        self._tried.add(key)
        terms = {name: self._terms[binding.classes[name]] for name in binding.classes}
        step = AxiomInstance(
            axiom.name,
            tuple((name, terms[name]) for name in axiom.variables),
            tuple(sorted(binding.attributes.items())),
        )
        typed = self._interpretation.step(axiom, step)
        if isinstance(typed, str):
            return
        pairs = zip(typed.equation.left, typed.equation.right, strict=True)
        if any(has_open_shape(left) != has_open_shape(right) for left, right in pairs):
            return
        self.steps[step] = typed.equation
        for left, right in zip(typed.equation.left, typed.equation.right, strict=True):
            self._closure.merge(self.add(left), self.add(right))

    def _classes_named(self, binding: _Binding) -> dict[str, int]:
        return {name: self._closure.find(number) for name, number in binding.classes.items()}

    def _classes(self) -> dict[int, list[int]]:
        classes: dict[int, list[int]] = defaultdict(list)
        for number in range(len(self._terms)):
            classes[self._closure.find(number)].append(number)
        return classes

    def _matches(self) -> Iterator[tuple[Equation, _Binding]]:
        classes = self._classes()
        by_operator: dict[str, list[int]] = defaultdict(list)
        for number, term in enumerate(self._terms):
            if isinstance(term, Application):
                by_operator[term.operator].append(number)
        for axiom, side in self._patterns:
            for number in by_operator[side.operator]:
                for binding in self._matched_node(side, number, _Binding({}, {}), classes):
                    yield axiom, binding

    def _matched_node(
        self, pattern: Application, number: int, binding: _Binding, classes: Mapping[int, list[int]]
    ) -> Iterator[_Binding]:
        term = self._terms[number]
        if not isinstance(term, Application) or term.operator != pattern.operator:
            return
        if len(term.inputs) != len(pattern.inputs):
            return
        attributes = _matched_attributes(pattern, term, binding.attributes)
        if attributes is None:
            return
        bindings = iter((_Binding(binding.classes, attributes),))
        for child, place in zip(pattern.inputs, self._children[number], strict=True):
            bindings = self._each_matched(child, place, bindings, classes)
        yield from bindings

    def _each_matched(
        self, pattern: Term, number: int, bindings: Iterator[_Binding], classes: Mapping[int, list[int]]
    ) -> Iterator[_Binding]:
        for binding in bindings:
            if isinstance(pattern, Variable):
                bound = binding.classes.get(pattern.name)
                if bound is None:
                    yield _Binding({**binding.classes, pattern.name: number}, binding.attributes)
                elif self._closure.equal(bound, number):
                    yield binding
                continue
            for member in classes.get(self._closure.find(number), ()):
                yield from self._matched_node(pattern, member, binding, classes)


def _patterns(axiom: Equation) -> tuple[Application, ...]:
    """The sides that mention every variable of the axiom."""
    sides = axiom.terms
    names, open_names = set(variables(*sides)), attribute_variables(*sides)
    return tuple(
        side
        for side in sides
        if isinstance(side, Application)
        and set(variables(side)) == names
        and attribute_variables(side) == open_names
    )


def _matched_attributes(
    pattern: Application, term: Application, bound: Mapping[str, AttributeTerm]
) -> Mapping[str, AttributeTerm] | None:
    values = dict(bound)
    for name in attribute_names(term.operator):
        wanted, value = given_attribute(pattern, name), given_attribute(term, name)
        if isinstance(wanted, AttributeVariable) and value is not None:
            if values.setdefault(wanted.name, value) != value:
                return None
        elif wanted != value:
            return None
    return values


__all__ = ["Extent", "Merged", "Saturation"]
