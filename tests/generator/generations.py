"""Generations that several tests look at, made once in a process; and how a rule is looked up in them."""

from __future__ import annotations

from functools import cache

from superopt.equations import parse_equation, rule_id
from superopt.generator import Candidate, Generation, generate, load_preset
from superopt.ir.terms import Equation

Where = tuple[str | int, ...]
"""A preset, the most operators, and the only operators where not all are wanted."""


@cache
def generation(preset: str, max_ops: int, *operators: str) -> Generation:
    """The generation of a shipped preset."""
    return generate(load_preset(preset), max_ops=max_ops, operators=operators or None)


def candidate_of(made: Generation, rule: str) -> Candidate | None:
    """The candidate that has this rule among its generalisations, whatever its variables are called."""
    wanted = rule_id(parse_equation(rule))
    return next((c for c in made.candidates if wanted in {rule_id(form) for form in c.generalizations}), None)


def form_of(made: Generation, rule: str) -> Equation | None:
    """This rule as a candidate has it among its generalisations, its variables called as there."""
    wanted = rule_id(parse_equation(rule))
    return next(
        (form for c in made.candidates for form in c.generalizations if rule_id(form) == wanted), None
    )


def found(where: Where, rule: str) -> Equation:
    """This rule as the generation there has it; fails with everything that was found where it is not."""
    preset, max_ops, *operators = where
    made = generation(str(preset), int(max_ops), *map(str, operators))
    form = form_of(made, rule)
    assert form is not None, "\n".join(candidate.text for candidate in made.candidates)
    return form
