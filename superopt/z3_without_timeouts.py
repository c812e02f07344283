"""Z3 for symbolic validation, with a solver that ends by counts alone and never by a clock.

A time limit would give another answer on another machine or under another load. Z3 counts resources, but
where polynomials meet uninterpreted functions (such as roots) it can compute for minutes without counting, so
these queries are limited to a number of conflicts as well.

The import is the only change in ``superopt.verifier.refute.validation``, because a change of its definitions
would make every stored proof stale.
"""

# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import z3
from z3 import And, ArithRef, Context, Or, RatNumRef, RealVal, Z3Exception, sat, simplify, unknown, unsat

from superopt.solver_memory import require_memory

MOST_CONFLICTS = 100
"""Limit for products and uninterpreted functions, where each conflict may take seconds. All shipped rules
are validated within it."""


class Solver(z3.Solver):
    """A Z3 solver without a time limit."""

    def set(self, *args: object, **keys: object) -> None:
        """Set parameters other than ``timeout``."""
        super().set(*args, **{name: value for name, value in keys.items() if name != "timeout"})

    def check(self, *assumptions: object) -> z3.CheckSatResult:
        """Whether the assertions are satisfiable, as far as that is found within the limits.

        Raises MemoryError if there was too little memory to find that.
        """
        asserted = self.assertions()
        parts = tuple(_parts(cast("z3.ExprRef", asserted[number]) for number in range(len(asserted))))
        if any(map(_is_product, parts)) and any(map(_is_uninterpreted, parts)):
            self.set(max_conflicts=MOST_CONFLICTS)
        try:
            answer = super().check(*assumptions)
        except Z3Exception as error:
            require_memory(str(error))
            raise
        if answer == unknown:
            require_memory(self.reason_unknown())
        return answer


def _parts(expressions: Iterator[z3.ExprRef]) -> Iterator[z3.ExprRef]:
    """Yield each subexpression once."""
    waiting = list(expressions)
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


__all__ = [
    "And",
    "ArithRef",
    "Context",
    "Or",
    "RatNumRef",
    "RealVal",
    "Solver",
    "Z3Exception",
    "sat",
    "simplify",
    "unsat",
]
