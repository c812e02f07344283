"""Interpretations: types and values of terms, and whether steps are well-typed, under an assignment.

Every term and every step is typed by itself. So one term whose types leave something open (``split0(x)``,
``ones()``) may be one operator in one step and another in the next; ``classify`` tells a chain that passes
through such a term from one that a single typing carries.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from superopt.domains import Array, FieldArray, FloatDomain, PrimeFieldDomain
from superopt.equations import format_condition, format_term
from superopt.errors import IllTypedError, UnsupportedError
from superopt.instances.instance import Instance
from superopt.ir.dimensions import Dimension
from superopt.ir.numbers import names_of, substituted_number
from superopt.ir.terms import (
    AttributeTerm,
    Equation,
    Term,
    Variable,
    variables,
)
from superopt.ir.types import TensorType
from superopt.ops.shape import Half
from superopt.ops.terms import application
from superopt.rewriting.conditions import as_declared, holds
from superopt.rewriting.evaluation import evaluate_terms
from superopt.rewriting.typing import Typing, infer_terms
from superopt.verifier.axiom_checks.consistency.overlaps import has_open_shape
from superopt.verifier.prove.chain import instantiated
from superopt.verifier.prove.congruence import Congruence
from superopt.verifier.prove.solver import AxiomInstance

RELATIVE_TOLERANCE = 1e-6
_STACK = 2


class Kind(enum.StrEnum):
    """How a falsehood follows: in the algebra of typed tensors, or only where types are forgotten.

    ``typed``: one typing carries every step, so one of the axioms is false. ``implicit``: every step is
    well-typed and its condition holds, but what types determine (where a half is cut) is another thing in
    another step. ``shapeless``: some step has no type, or breaks a condition, or passes through a term that
    has several types (``ones()``); such steps are struck out of proofs.
    """

    TYPED = "typed"
    IMPLICIT = "implicit"
    SHAPELESS = "shapeless"


@dataclass(frozen=True)
class TypedStep:
    """An axiom's instance with the typing of its sides."""

    equation: Equation
    typing: Typing


@dataclass(frozen=True)
class Meaning:
    """A term's typing by itself and its value: exact residues, and floats (which may be undefined)."""

    typing: Typing
    type: TensorType
    residues: npt.NDArray[np.int64]
    floats: Array


class Interpretation:
    """Types and random values of tensor variables, values of attribute variables; sizes are numbers.

    ``cuts`` says where halves of terms are cut, by axis, where nothing else says so.
    """

    def __init__(
        self,
        types: Mapping[str, TensorType],
        attributes: Mapping[str, object],
        cuts: Mapping[tuple[Term, int], Dimension] | None = None,
    ) -> None:
        self.types = types
        self.attributes = attributes
        self._cuts = cuts or {}
        generator = np.random.default_rng(0)
        shapes = {name: cast("tuple[int, ...]", types[name].array_shape) for name in sorted(types)}
        self._field = PrimeFieldDomain()
        self._residues: dict[str, FieldArray] = {
            name: self._field.random(generator, _STACK, shape) for name, shape in shapes.items()
        }
        self._floats: dict[str, Array] = {
            name: np.round(generator.normal(size=(_STACK, *shape)) * 2, 3) for name, shape in shapes.items()
        }
        self._concrete: dict[Term, Term] = {}
        self._steps: dict[AxiomInstance, TypedStep | str] = {}
        self._meanings: dict[Term, Meaning | None] = {}

    @classmethod
    def of(cls, instance: Instance) -> Interpretation:
        """The interpretation with the types, attributes and cuts of an instance."""
        plain = cls(instance.types, instance.attributes)
        cuts: dict[tuple[Term, int], Dimension] = {}
        for term, operator in instance.typing.operators.items():
            if isinstance(operator, Half):
                (whole,) = term.inputs
                axis = operator.axis % instance.typing.types[whole].rank
                cuts[plain.concrete(whole), axis] = operator.size
        return cls(instance.types, instance.attributes, cuts)

    def concrete(self, term: Term) -> Term:
        """The term with values for attribute variables."""
        found = self._concrete.get(term)
        if found is None:
            if isinstance(term, Variable):
                found = term
            else:
                values = {name: self.value(value) for name, value in term.attributes}
                found = application(term.operator, values, *(self.concrete(child) for child in term.inputs))
            self._concrete[term] = found
        return found

    def value(self, value: AttributeTerm) -> AttributeTerm:
        """An attribute's value; raises IllTypedError for a variable without one."""
        missing = names_of(value) - self.attributes.keys()
        if missing:
            raise IllTypedError(f"the attribute variable {min(missing)} has no value")
        return cast("AttributeTerm", substituted_number(value, self.attributes))

    def step(self, axiom: Equation, step: AxiomInstance) -> TypedStep | str:
        """The instance typed by itself, or why it does not count as an instance of the axiom."""
        if step not in self._steps:
            self._steps[step] = self._typed(axiom, step)
        return self._steps[step]

    def is_jointly_typed(self, terms: Sequence[Term], equations: Sequence[Equation]) -> bool:
        """Whether one typing gives all the terms one type, and both sides of each equation."""
        concrete = [self.concrete(term) for term in terms]
        pairs = [(concrete[0], other) for other in concrete[1:]]
        pairs += [pair for e in equations for pair in zip(e.left, e.right, strict=True)]
        sides = (*concrete, *itertools.chain(*pairs))
        try:
            return not infer_terms(sides, self._needed(sides), equal=pairs).unresolved
        except IllTypedError:
            return False

    def meaning(self, term: Term) -> Meaning | None:
        """The term by itself; None when it is ill-typed, has several types, or has no value."""
        if term not in self._meanings:
            self._meanings[term] = self._evaluated(term)
        return self._meanings[term]

    def has_several_types(self, term: Term) -> bool:
        """Whether the types of variables leave the term's shape open, or where one of its parts is cut."""
        try:
            term = self.concrete(term)
            return has_open_shape(term) or bool(infer_terms((term,), self._needed((term,))).unresolved)
        except IllTypedError:
            return False

    def _typed(self, axiom: Equation, step: AxiomInstance) -> TypedStep | str:
        try:
            terms = {name: self.concrete(term) for name, term in step.terms}
            attributes = {name: self.value(value) for name, value in step.attributes}
            grounded = instantiated(
                axiom, AxiomInstance(step.axiom, tuple(terms.items()), tuple(attributes.items()))
            )
            sides = (*grounded.terms, *terms.values())
            pairs = list(zip(grounded.left, grounded.right, strict=True))
            typing = infer_terms(sides, self._needed(sides), equal=pairs, cuts=self._cuts)
        except IllTypedError as error:
            return str(error)
        types = {name: typing.types[term] for name, term in terms.items()}
        if not _are_numbers(typing):
            return "a size is not determined, or not positive"
        if not as_declared(axiom.types, types):
            return "the types are not as declared"
        broken = (c for c in axiom.conditions if not holds(c, types, attributes))
        return next(
            (f"where {format_condition(c)} does not hold" for c in broken), TypedStep(grounded, typing)
        )

    def _evaluated(self, term: Term) -> Meaning | None:
        try:
            term = self.concrete(term)
            typing = infer_terms((term,), self._needed((term,)), cuts=self._cuts)
            if has_open_shape(term) or typing.unresolved or not _are_numbers(typing):
                return None
            with np.errstate(all="ignore"):
                (exact,) = evaluate_terms((term,), typing, self._field, self._residues)
                (floats,) = evaluate_terms((term,), typing, FloatDomain(np.float64), self._floats)
        except (IllTypedError, UnsupportedError):
            return None
        return Meaning(typing, typing.types[term], exact.residue, floats)

    def _needed(self, terms: Sequence[Term]) -> dict[str, TensorType]:
        return {name: self.types[name] for name in variables(*terms)}


def difference(left: Meaning, right: Meaning) -> str | None:
    """How two values differ, None when they do not or when only one kind of number says so.

    Elements that one side leaves undefined are left out: an equation between partial functions is judged
    where both are defined.
    """
    if left.type != right.type:
        return f"one has type {left.type}, the other {right.type}"
    if np.all(left.residues == right.residues):
        return None
    a, b = np.broadcast_arrays(left.floats, right.floats)
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(finite, a, 0), np.where(finite, b, 0)
    wrong = np.argwhere(np.abs(a - b) > RELATIVE_TOLERANCE * (1 + np.max(np.abs(a), initial=0)))
    if not len(wrong):
        return None
    place = tuple(int(index) for index in wrong[0])
    return f"at {list(place[1:])} one is {a[place]:.6g}, the other {b[place]:.6g}"


def classify(
    interpretation: Interpretation,
    axioms: Mapping[str, Equation],
    chain: Sequence[Term],
    links: Sequence[Sequence[AxiomInstance]],
    written: Callable[[Term], str] = format_term,
) -> tuple[Kind, str]:
    """How steps make the chain's first and last term equal, and in words why it is no more than that.

    ``links`` are the steps between each term of the chain and the next; ``written`` names a term.
    """
    typed_links: list[list[TypedStep]] = []
    for steps in links:
        typed_links.append([])
        for step in steps:
            typed = interpretation.step(axioms[step.axiom], step)
            if isinstance(typed, str):
                return Kind.SHAPELESS, f"{step.axiom} does not apply there: {typed}"
            typed_links[-1].append(typed)
    if _connected_by_types(interpretation, list(itertools.chain(*typed_links)), chain[0], chain[-1]):
        return Kind.TYPED, "every step is well-typed and its condition holds"
    several = [term for term in chain if interpretation.has_several_types(term)]
    if several and not _is_read_anew(interpretation, chain, typed_links):
        return Kind.SHAPELESS, f"{written(several[0])} has several types, and the steps need two of them"
    return Kind.IMPLICIT, "every step is well-typed, but types determine a term differently in two steps"


def _is_read_anew(
    interpretation: Interpretation, chain: Sequence[Term], links: Sequence[Sequence[TypedStep]]
) -> bool:
    """Whether one typing leads from a term of one type to a term that by itself has another.

    Between both may be terms of several types: then that typing gives them the one that the steps need.
    """
    single = [number for number, term in enumerate(chain) if not interpretation.has_several_types(term)]
    for start, end in itertools.pairwise(single):
        left, right = interpretation.meaning(chain[start]), interpretation.meaning(chain[end])
        if left is None or right is None or difference(left, right) is None:
            continue
        steps = itertools.chain(*links[start:end])
        if interpretation.is_jointly_typed(chain[start:end], [step.equation for step in steps]):
            return True
    return False


def _connected_by_types(
    interpretation: Interpretation, steps: Sequence[TypedStep], left: Term, right: Term
) -> bool:
    closure = Congruence()
    for step in steps:
        for one, other in zip(step.equation.left, step.equation.right, strict=True):
            closure.merge(resolved(closure, one, step.typing), resolved(closure, other, step.typing))
    meanings = [interpretation.meaning(term) for term in (left, right)]
    numbers = [
        resolved(closure, interpretation.concrete(term), meaning.typing)
        for term, meaning in zip((left, right), meanings, strict=True)
        if meaning is not None
    ]
    return len(numbers) == 2 and closure.equal(*numbers)


def resolved(closure: Congruence, term: Term, typing: Typing) -> int:
    """The number of a term whose operators have every attribute, sizes included."""
    if isinstance(term, Variable):
        return closure.node(term.name, ())
    return closure.node(
        typing.operators[term], tuple(resolved(closure, child, typing) for child in term.inputs)
    )


def _are_numbers(typing: Typing) -> bool:
    return all(type_.is_sized for type_ in typing.types.values())


__all__ = ["Interpretation", "Kind", "Meaning", "TypedStep", "classify", "difference", "resolved"]
