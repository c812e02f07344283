"""Conditions for equations that are false in general: ungrouped convolutions, 1x1 kernels."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise, product
from typing import TypeAlias

from superopt.generator.generalise.sampling import Attributes, Sampler, Shapes, convolutions, fixed_dimension
from superopt.ir.terms import (
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Variable,
    variables,
)
from superopt.ops.roles import Product
from superopt.ops.traits import traits
from superopt.rewriting.conditions import names_in
from superopt.rewriting.divisions import DIVIDING

Clauses: TypeAlias = "tuple[Condition, ...]"

_MATRIX = 2
SAMPLES = 3
"""Number of random shapes on which a condition is tested."""


def under_conditions(equation: Equation, shapes: Shapes, sampler: Sampler) -> Equation | None:
    """The equation with a minimal set of conditions under which it holds; None if none of them suffices."""
    choices = [*_pointwise(equation, shapes), *_ungrouped(equation, shapes)]
    if not choices or not _holds(equation, choices, shapes, sampler):
        return _with_groups_alike(equation, shapes, sampler)
    for choice in list(choices):
        fewer = [other for other in choices if other is not choice]
        if not _is_needed(equation, choice, fewer, shapes, sampler):
            choices = fewer
    return _conditioned(equation, choices)


def with_kernels_sized(equation: Equation, shapes: Shapes) -> Equation | None:
    """The equation for kernels of the size that they had when it was found, on which margins depend that are
    given as numbers; None if there are none."""
    if not any(isinstance(term.attribute("padding"), tuple) for term in equation.applications):
        return None
    kernels = variables(*(term.inputs[1] for term in convolutions(equation)))
    return _conditioned(equation, [_sized(name, shapes) for name in kernels])


def with_groups_said(equation: Equation, shapes: Shapes, sampler: Sampler) -> Equation:
    """The equation with explicit conditions for convolutions that cannot have groups: with divided channels,
    groups are ill-typed, which a proof needs as a condition.
    """
    if not any(t.operator in DIVIDING for t in equation.applications):
        return equation
    for (clause,) in _ungrouped(equation, shapes):
        grouped = (*equation.conditions, replace(clause, relation="!="))
        if sampler.holds(replace(equation, conditions=grouped), shapes, samples=1) is None:
            equation = replace(equation, conditions=(*equation.conditions, clause))
    return equation


def of_these_ranks(equation: Equation, shapes: Shapes, sampler: Sampler) -> Equation:
    """The equation with rank conditions for factors if it is false at other ranks (axes of a product are
    counted differently from those of its factor of lower rank).
    """
    if not differs_at_other_ranks(equation, shapes, sampler, {}):
        return equation
    matrices = [ConditionName(name) for name, shape in shapes.items() if len(shape) == _MATRIX]
    names = [ConditionName(name) for name in shapes]
    stated = [Condition(ConditionCall("rank", (name,)), "=", _MATRIX) for name in matrices]
    if not stated:
        ranks = [ConditionCall("rank", (name,)) for name in names]
        stated = [Condition(one, "=", other) for one, other in pairwise(ranks)]
    return replace(equation, conditions=(*equation.conditions, *stated))


def differs_at_other_ranks(
    equation: Equation, shapes: Shapes, sampler: Sampler, attributes: Attributes
) -> bool:
    """Whether an equation about products, of batches at least one, is false at some other ranks."""
    products = any(traits(t.operator).product is Product.MATRIX for t in equation.applications)
    if not products or len(shapes) < 2:
        return False
    ranks = {len(shape) for shape in shapes.values()}
    if max(ranks) == _MATRIX:
        return False
    others: list[dict[str, tuple[int, ...]]] = []
    if ranks == {_MATRIX, max(ranks)}:
        more = (2,) * (max(ranks) - _MATRIX)
        others = [{n: (*more, *s) if len(s) == _MATRIX else s[-_MATRIX:] for n, s in shapes.items()}]
    elif len(ranks) == 1:
        choices = product(range(_MATRIX, max(ranks) + 1), repeat=min(len(shapes), 2))
        chosen = [dict(zip(shapes, choice, strict=False)) for choice in choices]
        others = [{n: s[-each.get(n, len(s)) :] for n, s in shapes.items()} for each in chosen]
    return any(sampler.holds(equation, each, attributes, samples=1) is False for each in others)


def _with_groups_alike(equation: Equation, shapes: Shapes, sampler: Sampler) -> Equation | None:
    """The equation with equal outputs per group of two convolutions, if that suffices."""
    calls = [ConditionCall("outputs_per_group", names) for names in _direct(equation)]
    for one, other in combinations(calls, 2):
        alike = replace(equation, conditions=(Condition(one, "=", other),))
        if sampler.holds(alike, shapes) is True:
            return alike
    return None


def _direct(equation: Equation) -> list[tuple[ConditionName, ConditionName]]:
    """The variables of each convolution of a variable by a variable."""
    pairs: dict[tuple[ConditionName, ConditionName], None] = {}
    for term in convolutions(equation):
        match term.inputs:
            case (Variable(data), Variable(kernel)):
                pairs[ConditionName(data), ConditionName(kernel)] = None
            case _:
                continue
    return list(pairs)


def _is_needed(
    equation: Equation, choice: Clauses, others: list[Clauses], shapes: Shapes, sampler: Sampler
) -> bool:
    """Whether the clauses are needed beside the others.

    The condition that a convolution has no groups is not needed if samples with groups occur and agree, or if
    it shares a tensor with another ungrouped one (relevant groups are rarely sampled by chance).
    """
    if not _holds(equation, others, shapes, sampler):
        return True
    if _fixes_sizes(choice):
        return False
    names = _names(choice)
    if any(names & _names(other) for other in others if not _fixes_sizes(other)):
        return False
    grouped = tuple(replace(clause, relation="!=") for clause in choice)
    return not _holds(equation, [*others, grouped], shapes, sampler)


def _fixes_sizes(choice: Clauses) -> bool:
    return all(fixed_dimension(clause) is not None for clause in choice)


def _names(choice: Clauses) -> frozenset[str]:
    return frozenset[str]().union(*(names_in(clause) for clause in choice))


def _holds(equation: Equation, choices: list[Clauses], shapes: Shapes, sampler: Sampler) -> bool:
    return sampler.holds(_conditioned(equation, choices), shapes, samples=SAMPLES) is True


def _conditioned(equation: Equation, choices: list[Clauses]) -> Equation:
    clauses = dict.fromkeys((*equation.conditions, *(clause for choice in choices for clause in choice)))
    return replace(equation, conditions=tuple(sorted(clauses, key=repr)))


def _pointwise(equation: Equation, shapes: Shapes) -> list[Clauses]:
    """Kernels that were of one position when the equation was found."""
    return [
        _sized(name, shapes)
        for name in variables(*(term.inputs[1] for term in convolutions(equation)))
        if shapes[name][2:] == (1, 1)
    ]


def _sized(name: str, shapes: Shapes) -> Clauses:
    """That the kernel has its size of now."""
    dims = (ConditionCall("dim", (ConditionName(name), axis)) for axis in (2, 3))
    return tuple(Condition(dim, "=", size) for dim, size in zip(dims, shapes[name][2:], strict=True))


def _ungrouped(equation: Equation, shapes: Shapes) -> list[tuple[Condition]]:
    """Each convolution of a variable by a variable without groups; of any terms where there is none such."""
    found = convolutions(equation)
    direct = [term for term in found if all(isinstance(child, Variable) for child in term.inputs)]
    pairs = dict.fromkeys(
        pair
        for term in direct or found
        for pair in product(variables(term.inputs[0]), variables(term.inputs[1]))
        if all(len(shapes[name]) == 4 for name in pair)
    )
    return [
        (Condition(ConditionCall("groups", (ConditionName(data), ConditionName(kernel))), "=", 1),)
        for data, kernel in pairs
    ]
