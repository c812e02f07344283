"""Validation: symbolic execution of both sides on small shapes, equal for all real inputs.

The operators' own ``evaluate`` runs over Z3 reals (dissertation, section 2.4). Elements with a difference
that simplifies to the zero polynomial need no solver. The others are solved within a number of counted
steps; without an answer there is no validation.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import z3

from superopt.domains.symbolic import SymbolicDomain
from superopt.errors import SuperoptError
from superopt.instances.instance import Instance
from superopt.instances.sampler import InstanceSampler
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Direction, Equation, Term, Variable
from superopt.ops.terms import application
from superopt.rewriting.evaluation import evaluate_terms
from superopt.verifier.certificates.condition_forms import sizes_in
from superopt.verifier.refute.real_solver import EQUAL, UNDECIDED, why_not_zero, why_not_zero_by
from superopt.verifier.seeds import seed_of

SMALL_ELEMENTS = 40
FEWEST_ELEMENTS = 8
LARGER_ELEMENTS = 200
LARGEST_ELEMENTS = 1200
_SMALL_SIZE = 4
SCHEMES = 24
DIFFERENT = ("different values", "different types")
_TRIES = 3
_ORDERS = ("<", "<=", ">", ">=")
_NONE_SMALL = "no small well-typed instance"
Expression = Any  # z3 has no types


@dataclass(frozen=True)
class Validation:
    """The instances on which both sides were shown equal, as text, and the reason for the first failure."""

    validated: tuple[str, ...]
    failure: str | None


def validate(equation: Equation, instances: int = 2) -> Validation:
    """Show that both sides are equal for all real inputs, on a few small instances that differ in more than
    sizes."""
    return validate_on(InstanceSampler(equation, seed_of(equation, 7)), instances)


def validate_on(sampler: InstanceSampler, instances: int = 2, known: Sequence[Instance] = ()) -> Validation:
    """Run ``validate`` on the instances of a sampler, or on the ``known`` instances if it has no small ones.

    If an instance is too large to be executed, other sizes of tensors and windows are used.
    """
    equation, seed = sampler.equation, seed_of(sampler.equation, 7)
    if sampler.declared_elements > LARGER_ELEMENTS:
        equation, known = _with_names_for_sizes(equation), ()
        sampler = InstanceSampler(equation, seed)
    few = [each for each in known if _elements(each) <= LARGER_ELEMENTS][:instances]
    validation = _validated_on(sampler, instances, few)
    if validation.failure == _NONE_SMALL:
        wider = _of_all_sizes(equation)
    elif validation.failure is not None and UNDECIDED in validation.failure:
        wider = _with_names_for_kernels(equation)
    else:
        return validation
    if wider == equation:
        return validation
    of_others = _validated_on(InstanceSampler(wider, seed), instances)
    return validation if of_others.failure else of_others


def _elements(instance: Instance) -> int:
    """The number of elements of the largest tensor of an instance."""
    return max([0, *(cast("int", type_.elements) for type_ in instance.typing.types.values())])


def _validated_on(sampler: InstanceSampler, instances: int, known: Sequence[Instance] = ()) -> Validation:
    equation = sampler.equation
    validated: list[str] = []
    undecided: str | None = None
    small = (
        tuple(small_instances(sampler, instances))
        or tuple(small_instances(sampler, 1, LARGER_ELEMENTS))
        or tuple(known)
        or small_instances(sampler, 1, LARGEST_ELEMENTS)
    )
    for chosen in small:
        instance, outcome = chosen, check_symbolically(equation, chosen)
        if outcome.startswith(UNDECIDED):
            instance, outcome = _smaller(sampler) or (instance, outcome)
        if outcome == EQUAL:
            validated.append(str(instance))
        else:
            undecided = f"{instance}: {outcome}"
    if undecided is None and not validated:
        undecided = _NONE_SMALL
    return Validation(tuple(validated), undecided)


def _of_all_sizes(equation: Equation) -> Equation:
    """Drop the conditions that order sizes: a proof does not use them, and they may exclude small tensors."""
    kept = tuple(
        condition
        for condition in equation.conditions
        if condition.relation not in _ORDERS or not any(True for _ in sizes_in(condition))
    )
    return replace(equation, conditions=kept)


def _with_names_for_kernels(equation: Equation) -> Equation:
    """Replace each number that is a window size by an attribute variable."""
    return replace(
        equation,
        left=tuple(map(_with_open_kernels, equation.left)),
        right=tuple(map(_with_open_kernels, equation.right)),
    )


def _with_open_kernels(term: Term) -> Term:
    if isinstance(term, Variable):
        return term
    attributes = {
        name: AttributeVariable(f"{name}{'x'.join(map(str, value))}")
        if name == "kernel" and isinstance(value, tuple) and value != (1, 1)
        else value
        for name, value in term.attributes
    }
    return application(term.operator, attributes, *map(_with_open_kernels, term.inputs))


def _with_names_for_sizes(equation: Equation) -> Equation:
    """Replace each large declared size by a name, so that the equation can be executed with other sizes."""
    types = tuple(
        (name, replace(type_, shape=tuple(_named(size) for size in type_.shape)))
        for name, type_ in equation.types
    )
    return replace(equation, types=types)


def _named(size: int | str) -> int | str:
    return f"size {size}" if isinstance(size, int) and size > _SMALL_SIZE else size


def _smaller(sampler: InstanceSampler) -> tuple[Instance, str] | None:
    """Return an instance of few elements that the solver decides, in place of one that was too large."""
    for instance in small_instances(sampler, _TRIES, FEWEST_ELEMENTS):
        outcome = check_symbolically(sampler.equation, instance)
        if not outcome.startswith(UNDECIDED):
            return instance, outcome
    return None


def small_instances(
    sampler: InstanceSampler, count: int, largest: int = SMALL_ELEMENTS
) -> Iterator[Instance]:
    """Yield up to ``count`` instances with few elements, those with different ranks and attributes first."""
    if count <= 0:
        return
    seen: set[object] = set()
    spare: list[Instance] = []
    for instance in sampler.instances(SCHEMES, 1, largest):
        if all(type_.elements == 1 for type_ in instance.types.values()) and any(
            type_.rank for type_ in instance.types.values()
        ):
            continue
        kind = (
            tuple(type_.rank for _, type_ in sorted(instance.types.items())),
            tuple(sorted((name, repr(value)) for name, value in instance.attributes.items())),
        )
        if kind in seen:
            spare.append(instance)
            continue
        seen.add(kind)
        yield instance
        if len(seen) == count:
            return
    yield from spare[: count - len(seen)]


def check_symbolically(equation: Equation, instance: Instance) -> str:
    """Return ``equal``, ``different types``, or the solver's answer.

    Values are compared where the left side is defined, or either side if the equation claims both
    directions.
    """
    context = z3.Context()
    domain = SymbolicDomain(context)
    arrays = {
        name: domain.variables(name, cast("tuple[int, ...]", type_.array_shape))
        for name, type_ in instance.types.items()
    }
    try:
        lefts = evaluate_terms(equation.left, instance.typing, domain, arrays)
        of_left, domain.needs = domain.needs, []
        under_left, domain.arguments = domain.arguments, []
        rights = evaluate_terms(equation.right, instance.typing, domain, arrays)
    except SuperoptError as error:
        return str(error)
    open_questions: list[Expression] = []
    for left, right in zip(lefts, rights, strict=True):
        if left.shape != right.shape:
            return "different types"
        for index in np.ndindex(left.shape):
            difference = z3.simplify(
                _real(left[index], context) - _real(right[index], context), som=True, sort_sums=True
            )
            if not isinstance(difference, z3.RatNumRef):
                difference = domain.without_cancelling_exponentials(cast("z3.ArithRef", difference))
            if not isinstance(difference, z3.RatNumRef):
                open_questions.append(difference)
            elif difference.numerator_as_long() != 0:
                return "different values"
    if not open_questions:
        return EQUAL
    sources = [(of_left, under_left), (domain.needs, domain.arguments)]
    claimed = sources[:1] if equation.direction is Direction.FORWARD else sources
    facts = [*domain.facts, *_premises([needs for needs, _ in claimed])]
    outcome = why_not_zero(open_questions, facts, domain.definitions, context)
    if outcome == EQUAL or not domain.laws:
        return outcome
    facts = [*domain.facts, *_premises([[*needs, *arguments] for needs, arguments in claimed])]
    return why_not_zero_by(domain.laws, open_questions, facts, context)


def _premises(sources: Sequence[Sequence[Expression]]) -> list[Expression]:
    """What holds where one of the sides is defined, each of which needs all of its own."""
    if not all(sources):
        return []
    return list(sources[0]) if len(sources) == 1 else [z3.Or([z3.And(list(needs)) for needs in sources])]


def _real(value: object, context: Expression) -> Expression:
    """Convert a value to a solver expression; zeros from padding are plain integers."""
    return value if isinstance(value, z3.ArithRef) else z3.RealVal(value, context)
