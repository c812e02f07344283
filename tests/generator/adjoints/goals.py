"""Gradients of one application, searched with the shipped preset."""

from __future__ import annotations

from superopt.equations import format_term
from superopt.generator.adjoints import Goal, Problem, gradients, load_vocabulary, problem_of
from superopt.verifier.adjoints.products import vector_jacobian_product


def goal(operator: str, operand: int = 0, application: int = 0) -> Goal:
    """The goal of the preset for an operand, at one of its applications."""
    goals = [g for g in load_vocabulary().goals if (g.operator.name, g.input) == (operator, operand)]
    return goals[application]


def first_found(problem: Problem) -> list[str]:
    """The gradients of the first batch that has any, as text; none where no search finds one."""
    for search in load_vocabulary().searches:
        for batch in gradients(problem, search, vector_jacobian_product):
            if batch.gradients:
                return [format_term(term) for term in batch.gradients]
    return []


def every_found(problem: Problem) -> set[str]:
    """All gradients of all searches."""
    return {
        format_term(term)
        for search in load_vocabulary().searches
        for batch in gradients(problem, search, vector_jacobian_product)
        for term in batch.gradients
    }


__all__ = ["every_found", "first_found", "goal", "problem_of"]
