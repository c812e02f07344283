"""Discovery of adjoint statements, and comparison with those of the axiom files.

A gradient that equals the vector-Jacobian product at random points of one typed application is a candidate
statement. It is tried on a few other applications, and confirmed on all of the effort.
"""

from __future__ import annotations

import enum
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from superopt.axioms import AxiomSet
from superopt.equations import Adjoint
from superopt.errors import IllTypedError
from superopt.generator.adjoints import (
    Batch,
    Goal,
    Problem,
    Vocabulary,
    gradients,
    is_total,
    operators_in,
    ordered,
    problem_of,
)
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import AttributeTerm, Term, Variable
from superopt.ops.terms import instantiate
from superopt.verifier.adjoints import (
    QUICK,
    THOROUGH,
    AdjointEffort,
    AdjointValidation,
    MissingAdjoint,
    missing_adjoints,
    validate_adjoint,
    validate_adjoints,
)
from superopt.verifier.adjoints.chain import definition_with_gradient
from superopt.verifier.adjoints.products import vector_jacobian_product
from superopt.verifier.content_cache import ContentCache

MOST_TRIED = 60
"""Candidates of one size that are tried on a few applications."""

NO_CACHE = ContentCache(None)
Progress = Callable[[int, int], None]


class Verdict(enum.StrEnum):
    """What discovery says of the gradient of an operand: a form of the axiom files was found; only others;
    none, but one follows from a definition; none."""

    STATED = "stated"
    OTHER = "another form"
    CHAIN = "by the chain rule"
    NOT_FOUND = "not found"


@dataclass(frozen=True)
class Form:
    """A gradient with its number of operators. ``name``: the statement of the axiom files that it is, if any;
    ``total``: whether it is defined wherever the operator is."""

    statement: Adjoint
    operators: int
    total: bool
    name: str = ""
    validation: AdjointValidation | None = None


@dataclass(frozen=True)
class Discovery:
    """The ``forms`` found for an operand of an operator, counted from 0; where there are none, ``reach`` is
    the number of operators searched, and ``definition`` the axiom from which a gradient follows.

    ``missed``: statements of the axiom files that were not found. ``compared`` values of terms; ``refuted``
    candidates. ``seconds`` are of the processor, without those of the validation of forms.
    """

    operator: str
    input: int
    forms: tuple[Form, ...] = ()
    missed: tuple[str, ...] = ()
    definition: str = ""
    reach: int = 0
    compared: int = 0
    refuted: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """The result in one word."""
        if any(form.name for form in self.forms):
            return Verdict.STATED
        if self.forms:
            return Verdict.OTHER
        return Verdict.CHAIN if self.definition else Verdict.NOT_FOUND


def discover(
    axioms: AxiomSet, vocabulary: Vocabulary, *, forms: int = 3, progress: Progress | None = None
) -> Iterator[Discovery]:
    """The discoveries for every goal by operand, with up to ``forms`` forms, tried on a few applications.
    Deterministic but for ``seconds``."""
    goals = sorted(vocabulary.goals, key=lambda goal: (goal.operator.name, goal.input))
    for number, goal in enumerate(goals):
        found = _Finder(axioms, vocabulary, goal, forms).discovery()
        if progress is not None:
            progress(number + 1, len(goals))
        yield found


def merged(discoveries: Iterable[Discovery]) -> list[Discovery]:
    """One discovery for each operand, from those of its applications."""
    by_operand = itertools.groupby(discoveries, attrgetter("operator", "input"))
    return [_merged(list(same)) for _, same in by_operand]


def confirmed(
    discoveries: Sequence[Discovery],
    *,
    jobs: int = 0,
    effort: AdjointEffort = THOROUGH,
    cache: ContentCache = NO_CACHE,
    progress: Progress | None = None,
) -> list[Discovery]:
    """The discoveries with those of their forms that hold at every application of the effort, in ``jobs``
    processes (0: in this one)."""
    statements = [form.statement for found in discoveries for form in found.forms]
    results = validate_adjoints(statements, jobs=jobs, effort=effort, cache=cache, progress=progress)
    kept: list[Discovery] = []
    for found in discoveries:
        forms = [replace(form, validation=next(results)) for form in found.forms]
        valid = tuple(form for form in forms if form.validation is not None and form.validation.valid)
        lost = tuple(form.name for form in forms if form.name and form not in valid)
        kept.append(
            replace(
                found,
                forms=valid,
                missed=(*found.missed, *lost),
                refuted=found.refuted + len(forms) - len(valid),
            )
        )
    return kept


def without_goals(axioms: AxiomSet, vocabulary: Vocabulary) -> tuple[MissingAdjoint, ...]:
    """The operands that could be differentiated and that the vocabulary has no goal for."""
    known = {(goal.operator.name, goal.input) for goal in vocabulary.goals}
    every = missing_adjoints(replace(axioms, adjoints=()))
    return tuple(each for each in every if (each.operator, each.input) not in known)


@dataclass
class _Finder:
    """The search for the gradient of one goal."""

    axioms: AxiomSet
    vocabulary: Vocabulary
    goal: Goal
    most: int
    _compared: int = field(default=0, init=False)
    _refuted: int = field(default=0, init=False)

    def discovery(self) -> Discovery:
        began = time.process_time()
        problem = problem_of(self.goal)
        stated = self._stated(problem)
        forms = self._forms(problem, stated)
        names = {form.name for form in forms}
        return Discovery(
            self.goal.operator.name,
            self.goal.input,
            tuple(forms),
            tuple(name for name in stated.values() if name not in names),
            "" if forms else self._definition(),
            0 if forms else max((search.reach for search in self.vocabulary.searches), default=0),
            self._compared,
            self._refuted,
            time.process_time() - began,
        )

    def _forms(self, problem: Problem, stated: Mapping[Term, str]) -> list[Form]:
        """Those of the first batch with one that is defined wherever the operator is; else of the first with
        any."""
        partial: list[Form] = []
        for search in self.vocabulary.searches:
            for batch in gradients(problem, search, vector_jacobian_product):
                self._compared += batch.classes
                forms = self._tried(problem, batch, stated)
                if any(form.total for form in forms):
                    return [form for form in forms if form.total]
                partial = partial or forms
        return partial

    def _tried(self, problem: Problem, batch: Batch, stated: Mapping[Term, str]) -> list[Form]:
        """The first candidates that hold at a few applications; those of the axiom files before others."""
        named = [(term, stated.get(ordered(term), "")) for term in batch.gradients]
        kept: list[Form] = []
        for term, name in sorted(named, key=lambda pair: not pair[1])[:MOST_TRIED]:
            statement = problem.statement(term)
            if not validate_adjoint(statement, QUICK).valid:
                self._refuted += 1
                continue
            kept.append(Form(statement, operators_in(problem, term), is_total(problem, term), name))
            if len(kept) == self.most:
                break
        return kept

    def _definition(self) -> str:
        """The axiom from which the gradient follows."""
        goal = self.goal
        return definition_with_gradient(goal.operator, goal.input, goal.shapes, self.axioms)

    def _stated(self, problem: Problem) -> dict[Term, str]:
        """The statements of the axiom files for the operand, in the names of the problem."""
        found: dict[Term, str] = {}
        for adjoint in self.axioms.adjoints:
            if (adjoint.operator, adjoint.input) == (self.goal.operator.name, self.goal.input):
                gradient = _renamed(adjoint, problem)
                if gradient is not None:
                    found[ordered(gradient)] = adjoint.name
        return found


def _renamed(adjoint: Adjoint, problem: Problem) -> Term | None:
    """The gradient of a statement in the names of the problem; None where it is for other attributes."""
    own, attributes = problem.own, dict[str, AttributeTerm]()
    for name, value in adjoint.application.attributes:
        given = own.attribute(name)
        if isinstance(value, AttributeVariable) and given is not None:
            attributes[value.name] = given
    terms: dict[str, Term] = {
        operand.name: Variable(name) for operand, name in zip(adjoint.operands, problem.names, strict=True)
    }
    terms[adjoint.cotangent.name] = problem.cotangent
    try:
        same = instantiate(adjoint.application, terms, attributes) == own
        return instantiate(adjoint.gradient, terms, attributes) if same else None
    except IllTypedError:
        return None


def _merged(same: list[Discovery]) -> Discovery:
    """All forms of an operand once. A statement is missed where none of its applications has it."""
    first = same[0]
    forms = {form.statement: form for found in same for form in found.forms}
    names = {form.name for form in forms.values()}
    missed = dict.fromkeys(name for found in same for name in found.missed if name not in names)
    return replace(
        first,
        forms=tuple(sorted(forms.values(), key=lambda form: (not form.name, form.operators))),
        missed=tuple(missed),
        definition=next((found.definition for found in same if found.definition), ""),
        reach=max(found.reach for found in same),
        compared=sum(found.compared for found in same),
        refuted=sum(found.refuted for found in same),
        seconds=sum(found.seconds for found in same),
    )


__all__ = [
    "Discovery",
    "Form",
    "Verdict",
    "confirmed",
    "discover",
    "merged",
    "without_goals",
]
