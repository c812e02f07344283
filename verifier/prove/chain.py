"""Chain checker: checks that proof steps are well-typed, that their conditions hold, and that they connect
the sides.

A proof over shapeless terms may pass through terms that have no type, or use one symbol for constants of two
shapes. Here each step is typed with the sizes of an instance of the rule and its terms are resolved (every
attribute known) before the steps may connect the two sides. If sizes are symbols, a step counts only if it is
well-typed for all their values: no symbol is solved for, and a size that occurs in no term of the rule must
be provably positive. A condition on attributes that the rule leaves open must be a condition of the rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from superopt.domains import PrimeFieldDomain
from superopt.errors import IllTypedError
from superopt.instances.instance import Instance, assumed
from superopt.ir.bounds import is_positive
from superopt.ir.numbers import names_of, substituted_number
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Equation,
    Term,
    Variable,
    subterms,
)
from superopt.ir.types import TensorType
from superopt.ops.attributes import NUMBERS
from superopt.ops.base import Operator, attributes_of, operator_from_attributes
from superopt.ops.sharded.sharding import is_divided
from superopt.ops.terms import application, instantiate
from superopt.rewriting.conditions import holds
from superopt.rewriting.evaluation import evaluate_terms
from superopt.rewriting.typing import Typing, infer_terms, leaves_shape_out
from superopt.verifier.certificates.attribute_cases import generic_numbers, represented_variables
from superopt.verifier.certificates.declared_conditions import is_stated, stated
from superopt.verifier.prove.congruence import Congruence
from superopt.verifier.prove.solver import AxiomInstance
from superopt.verifier.seeds import seed_of


@dataclass(frozen=True)
class CheckedSteps:
    """The sound steps under one instance, and whether they suffice."""

    sound: tuple[AxiomInstance, ...]
    unsound: tuple[AxiomInstance, ...]
    complete: bool


class ChainChecker:
    """Checks steps under one instance of one goal, each step once."""

    def __init__(self, goal: Equation, axioms: Mapping[str, Equation], instance: Instance) -> None:
        instance = _with_generic_numbers(goal, instance)
        self._goal = goal
        self._axioms = axioms
        self._instance = instance
        self._stated = stated(goal)
        self._typings: dict[AxiomInstance, tuple[tuple[Equation, Typing], ...]] = {}
        self._concrete: dict[Term, Term] = {}
        self._symbols = instance.symbols
        self._sizes = frozenset(
            size
            for type_ in instance.typing.types.values()
            for size in type_.shape
            if not isinstance(size, int)
        )
        self._assumed = assumed(goal, instance)
        self._pinned = {
            self._with_values(term): instance.typing.types[term]
            for term in subterms(*goal.terms)
            if isinstance(term, Application)
        }

        self._types = tuple(dict.fromkeys(instance.typing.types.values()))
        self._constants = frozenset(
            term for term in self._pinned if isinstance(term, Application) and leaves_shape_out(term)
        )

    def check(self, steps: Sequence[AxiomInstance]) -> CheckedSteps:
        """Type all steps, then close the sound ones under congruence."""
        sound = [step for step in steps if self.typed(step) is not None]
        unsound = tuple(step for step in steps if self.typed(step) is None)
        return CheckedSteps(tuple(sound), unsound, self._connected(sound))

    def typed(self, step: AxiomInstance) -> tuple[Equation, Typing] | None:
        """Return the axiom's instance and its typing; None if it is ill-typed or violates the axiom's
        condition."""
        return next(iter(self._all_typed(step)), None)

    def _all_typed(self, step: AxiomInstance) -> tuple[tuple[Equation, Typing], ...]:
        """Return the axiom's instance with each of its typings that may matter. Constants have the types that
        they have in the rule; or others, as constants of equal text may elsewhere. If the instance is about
        constants alone, it has the type of any term of the rule."""
        if step not in self._typings:
            choices = [self._type(step, self._pinned)]
            if choices == [None] and self._constants:
                rest = {t: p for t, p in self._pinned.items() if t not in self._constants}
                choices.append(self._type(step, rest))
            if not step.terms:
                choices += [self._type(step, {}, type_) for type_ in self._types]
            self._typings[step] = tuple(typed for typed in choices if typed is not None)
        return self._typings[step]

    def _type(
        self, step: AxiomInstance, known: Mapping[Term, TensorType], whole: TensorType | None = None
    ) -> tuple[Equation, Typing] | None:
        """Type an axiom's instance, in which these terms and the ``whole`` have known types."""
        axiom = self._axioms[step.axiom]
        attributes = {name: self._value(value) for name, value in step.attributes}
        try:
            terms = {name: self._with_values(term) for name, term in step.terms}
            grounded = instantiated(
                axiom, AxiomInstance(step.axiom, tuple(terms.items()), tuple(attributes.items()))
            )
            sides = grounded.terms
            pinned = [(term, known[term]) for term in subterms(*sides) if term in known]
            pinned += [(sides[0], whole)] if whole is not None else []
            typing = infer_terms(
                sides,
                self._instance.types,
                equal=[*zip(grounded.left, grounded.right, strict=True), *pinned],
                fixed=self._symbols,
            )
            types = {name: typing.types[term] for name, term in terms.items()}
            declared = _declared_types_fit(axiom, types)
            if typing.unresolved or not declared or not self._positive(typing):
                return None
            if not all(holds(condition, types, attributes) for condition in axiom.conditions):
                return None
            if not self._is_stated(axiom, step) or not self._assumes_nothing_new(typing):
                return None
            if not self._symbols and is_divided(typing.types.values()) and not self._agrees(grounded, typing):
                return None
        except IllTypedError:
            return None
        return grounded, typing

    def _agrees(self, grounded: Equation, typing: Typing) -> bool:
        """Whether both sides have the same residues; axioms about undivided tensors were not validated for
        divided ones."""
        domain, generator = PrimeFieldDomain(), np.random.default_rng(seed_of(grounded, 17))
        arrays = {
            name: domain.random(generator, 2, cast("tuple[int, ...]", type_.array_shape))
            for name, type_ in self._instance.types.items()
        }
        with np.errstate(all="ignore"):
            values = evaluate_terms(grounded.terms, typing, domain, arrays)
        half = len(grounded.left)
        pairs = zip(values[:half], values[half:], strict=True)
        return all(np.array_equal(left.residue, right.residue) for left, right in pairs)

    def _is_stated(self, axiom: Equation, step: AxiomInstance) -> bool:
        """Whether the rule itself states the conditions that the step needs for open numbers."""
        values, numeric = {**dict(step.attributes), **dict(step.terms)}, represented_variables(axiom)
        return all(is_stated(condition, numeric, values, self._stated) for condition in axiom.conditions)

    def _assumes_nothing_new(self, typing: Typing) -> bool:
        return all(
            operator.unseen(*(typing.types[child] for child in term.inputs)) <= self._assumed
            for term, operator in typing.operators.items()
        )

    def _positive(self, typing: Typing) -> bool:
        sizes = (size for type_ in typing.types.values() for size in type_.shape)
        return all(size in self._sizes or is_positive(size) for size in sizes)

    def _connected(self, steps: Sequence[AxiomInstance]) -> bool:
        closure = Congruence()
        for step in steps:
            for grounded, typing in self._all_typed(step):
                for left, right in zip(grounded.left, grounded.right, strict=True):
                    closure.merge(_add(closure, left, typing), _add(closure, right, typing))
        own = self._instance.typing
        return all(
            closure.equal(_add(closure, left, own), _add(closure, right, own))
            for left, right in zip(self._goal.left, self._goal.right, strict=True)
        )

    def _with_values(self, term: Term) -> Term:
        """Return the term with the instance's values for attribute variables."""
        found = self._concrete.get(term)
        if found is None:
            if isinstance(term, Variable):
                found = term
            else:
                values = {name: self._value(value) for name, value in term.attributes}
                found = application(
                    term.operator, values, *(self._with_values(child) for child in term.inputs)
                )
            self._concrete[term] = found
        return found

    def _value(self, value: AttributeTerm) -> AttributeTerm:
        return cast("AttributeTerm", substituted_number(value, self._instance.attributes))


def _with_generic_numbers(goal: Equation, instance: Instance) -> Instance:
    """Return the instance with other values for the variables that are numbers. No type depends on them, but
    by chance equal numbers would make one term of two constants that differ in shape."""
    numbers = generic_numbers(goal)
    if not numbers:
        return instance
    attributes = {**instance.attributes, **{n: v for n, v in numbers.items() if n in instance.attributes}}
    operators = {
        term: _with_numbers(term, operator, attributes)
        for term, operator in instance.typing.operators.items()
    }
    return replace(instance, attributes=attributes, typing=replace(instance.typing, operators=operators))


def _with_numbers(term: Application, operator: Operator, attributes: Mapping[str, object]) -> Operator:
    given = {name: value for name, value in term.attributes if name in NUMBERS and names_of(value)}
    if not given:
        return operator
    values = {name: substituted_number(value, attributes) for name, value in given.items()}
    return operator_from_attributes(operator.name, {**attributes_of(operator), **values})


def instances_of(
    steps: Iterable[AxiomInstance], axioms: Mapping[str, Equation]
) -> dict[AxiomInstance, Equation]:
    """Return the axiom instance of each step. Provers have one sort for all numbers, so a step may give an
    attribute an invalid value, such as a degree of -1; it is omitted."""
    found: dict[AxiomInstance, Equation] = {}
    for step in steps:
        with suppress(IllTypedError):
            found[step] = instantiated(axioms[step.axiom], step)
    return found


def instantiated(axiom: Equation, step: AxiomInstance) -> Equation:
    """Substitute the step's terms and attributes into the axiom; the goal's own variables stay.

    Raises IllTypedError for a value that an attribute cannot have.
    """
    terms, attributes = dict(step.terms), dict(step.attributes)
    return Equation(
        tuple(instantiate(term, terms, attributes) for term in axiom.left),
        tuple(instantiate(term, terms, attributes) for term in axiom.right),
    )


def _declared_types_fit(axiom: Equation, types: Mapping[str, TensorType]) -> bool:
    sizes: dict[str, object] = {}
    for name, declared in axiom.types:
        if types[name].rank != len(declared.shape):
            return False
        for wanted, size in zip(declared.shape, types[name].shape, strict=True):
            if sizes.setdefault(wanted, size) != size if isinstance(wanted, str) else wanted != size:
                return False
    return True


def _add(closure: Congruence, term: Term, typing: Typing) -> int:
    if isinstance(term, Variable):
        return closure.node(term.name, ())
    return closure.node(typing.operators[term], tuple(_add(closure, child, typing) for child in term.inputs))


__all__ = ["ChainChecker", "CheckedSteps", "instances_of", "instantiated"]
