"""Conditions under which an equation holds that is false in general: no groups, kernels of one position."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import TypeAlias

from generator.sampling import Sampler, Shapes, convolutions, fixed_dimension
from superopt.ir.terms import Condition, ConditionCall, ConditionName, Equation, Variable, variables
from superopt.rewriting.conditions import names_in

Clauses: TypeAlias = "tuple[Condition, ...]"

SAMPLES = 3
"""Random shapes that a condition has to survive."""


def under_conditions(equation: Equation, shapes: Shapes, sampler: Sampler) -> Equation | None:
    """The equation with as few conditions as make it hold; None where those known here do not help."""
    choices = [*_pointwise(equation, shapes), *_ungrouped(equation, shapes)]
    if not choices or not _holds(equation, choices, shapes, sampler):
        return _with_groups_alike(equation, shapes, sampler)
    for choice in list(choices):
        fewer = [other for other in choices if other is not choice]
        if not _is_needed(equation, choice, fewer, shapes, sampler):
            choices = fewer
    return _conditioned(equation, choices)


def _with_groups_alike(equation: Equation, shapes: Shapes, sampler: Sampler) -> Equation | None:
    """The equation where two convolutions of variables have as many outputs in a group, if that is it."""
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
    """Whether the clauses have to stay beside the others.

    That a convolution has no groups is not needed where samples with groups are met and agree, or where it
    shares a tensor with another one without: groups that matter are rarely met by chance.
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
    clauses = dict.fromkeys(clause for choice in choices for clause in choice)
    return replace(equation, conditions=tuple(sorted(clauses, key=repr)))


def _pointwise(equation: Equation, shapes: Shapes) -> list[Clauses]:
    """Kernels that were of one position when the equation was found."""
    return [
        tuple(Condition(ConditionCall("dim", (ConditionName(name), axis)), "=", 1) for axis in (2, 3))
        for name in variables(*(term.inputs[1] for term in convolutions(equation)))
        if shapes[name][2:] == (1, 1)
    ]


def _ungrouped(equation: Equation, shapes: Shapes) -> list[Clauses]:
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
