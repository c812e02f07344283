"""Whether real expressions are 0 by Z3, limited by counts and never by a clock.

A time limit would give another answer on another machine or under another load. Z3 counts resources, but
where polynomials meet uninterpreted functions (such as roots) it can compute for minutes without counting, so
these queries are limited to a number of conflicts as well, and first asked without its procedure for systems
of polynomials, one call of which may take that long; with choices between numbers only so.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import z3

from superopt.solver_memory import require_memory

EQUAL = "equal"
UNDECIDED = "undecided"
MOST_CONFLICTS = 100
"""Limit for products and uninterpreted functions, where each conflict may take seconds. All shipped rules
are validated within it."""

MOST_RESOURCES = 3_000_000
"""Limit for every query in Z3's deterministic unit, about 2 million per second."""

_MOST_MEGABYTES = 1500
_FEW_LAWS = 16
_INCOMPLETE = "incomplete"
"""Part of the reason if Z3 has nothing left to do by the procedures that it may use."""

CONFLICTS_TOGETHER, _RESOURCES_TOGETHER = 30, 1_000_000
"""Limits of a query about several expressions together."""

Expression = Any  # z3 has no types


def why_not_zero(
    expressions: Sequence[Expression],
    facts: Sequence[Expression],
    definitions: Sequence[Expression],
    context: Expression,
) -> str:
    """Return ``equal`` if every expression is 0 under the facts and definitions, else the answer for one that
    is not shown to be 0.

    All are asked about together first, without definitions, because these bring products. Then each is a
    question of its own, because in a disjunction Z3 follows the products of all: relu(x * y^2) is
    relu(x) * y^2 for 24 elements after 19 s together, and after 0.1 s one by one. Raises MemoryError if there
    was too little memory to decide.
    """
    zero = z3.RealVal(0, context)
    questions = [expression != zero for expression in expressions]
    answer = _answer(z3.Or(*questions), facts, context, _RESOURCES_TOGETHER, CONFLICTS_TOGETHER)
    if answer == EQUAL or not (definitions or answer.startswith(UNDECIDED)):
        return answer
    for question in questions:
        answer = _answer(question, facts, context)
        if answer != EQUAL and definitions:
            answer = _answer(question, [*facts, *definitions], context)
        if answer != EQUAL:
            return answer
    return EQUAL


def why_not_zero_by(
    laws: Sequence[Expression],
    expressions: Sequence[Expression],
    facts: Sequence[Expression],
    context: Expression,
) -> str:
    """Run ``why_not_zero`` with laws of functions, for each expression with the laws and facts about it.

    Few of them are also asked with the procedure for systems of polynomials, which laws of roots need.
    """
    limits: dict[str, object] = {
        "rlimit": MOST_RESOURCES,
        "max_memory": _MOST_MEGABYTES,
        "max_conflicts": MOST_CONFLICTS,
    }
    zero = z3.RealVal(0, context)
    for expression in expressions:
        given = _about(expression, [*facts, *laws])
        answer = _checked(expression != zero, given, context, {**limits, "arith.nl.nra": False})
        if _INCOMPLETE in answer and len(given) <= _FEW_LAWS:
            answer = _checked(expression != zero, given, context, limits)
        if answer != EQUAL:
            return answer
    return EQUAL


def _about(expression: Expression, laws: Sequence[Expression]) -> list[Expression]:
    """The laws that share a variable or a function's value with the expression, or with another of these."""
    values = _unknowns(expression)
    waiting = [(law, _unknowns(law)) for law in laws]
    found: list[Expression] = []
    while chosen := [law for law, own in waiting if own & values]:
        found += chosen
        values = values.union(*(own for _, own in waiting if own & values))
        waiting = [(law, own) for law, own in waiting if not any(law is other for other in chosen)]
    return found


def _unknowns(expression: Expression) -> set[int]:
    """The variables, and the values of uninterpreted functions."""
    parts = _parts([expression])
    return {part.get_id() for part in parts if part.decl().kind() == z3.Z3_OP_UNINTERPRETED}


def _answer(
    question: Expression,
    facts: Sequence[Expression],
    context: Expression,
    resources: int = MOST_RESOURCES,
    conflicts: int = MOST_CONFLICTS,
) -> str:
    limits: dict[str, object] = {"rlimit": resources, "max_memory": _MOST_MEGABYTES}
    if _mixes_products_and_functions([question, *facts]):
        limits["max_conflicts"] = conflicts
        answer = _checked(question, facts, context, {**limits, "arith.nl.nra": False})
        if _INCOMPLETE not in answer or _has_choices([question, *facts]):
            return answer
    return _checked(question, facts, context, limits)


def _checked(
    question: Expression, facts: Sequence[Expression], context: Expression, limits: dict[str, object]
) -> str:
    solver = z3.Solver(ctx=context)
    solver.set(**limits)
    solver.add(*facts)
    solver.add(question)
    try:
        answer = solver.check()
    except z3.Z3Exception as error:
        require_memory(str(error))
        return f"the solver failed: {error}"
    if answer == z3.unknown:
        require_memory(solver.reason_unknown())
        return f"{UNDECIDED}: {solver.reason_unknown()}"
    return EQUAL if answer == z3.unsat else "not shown equal"


def _mixes_products_and_functions(expressions: Sequence[Expression]) -> bool:
    parts = tuple(_parts(expressions))
    return any(map(_is_product, parts)) and any(map(_is_uninterpreted, parts))


def _has_choices(expressions: Sequence[Expression]) -> bool:
    """Whether a number is chosen, as an element that an index selects: Z3 may compute without end about
    systems of polynomials in each combination of them."""
    return any(z3.is_app_of(part, z3.Z3_OP_ITE) and z3.is_arith(part) for part in _parts(expressions))


def _parts(expressions: Sequence[Expression]) -> Iterator[z3.ExprRef]:
    """Yield each subexpression once."""
    waiting = cast("list[z3.ExprRef]", list(expressions))
    known: set[int] = set()
    while waiting:
        expression = waiting.pop()
        if expression.get_id() not in known:
            known.add(expression.get_id())
            waiting += expression.children()
            yield expression


def _is_product(expression: z3.ExprRef) -> bool:
    """Whether it multiplies terms that are not numbers."""
    return z3.is_mul(expression) and sum(not z3.is_rational_value(c) for c in expression.children()) > 1


def _is_uninterpreted(expression: z3.ExprRef) -> bool:
    """Whether it applies an uninterpreted function."""
    return expression.decl().kind() == z3.Z3_OP_UNINTERPRETED and expression.num_args() > 0


__all__ = ["CONFLICTS_TOGETHER", "EQUAL", "MOST_CONFLICTS", "UNDECIDED", "why_not_zero", "why_not_zero_by"]
