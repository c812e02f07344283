"""Gradients of a goal: terms whose value is that of the vector-Jacobian product."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from superopt.domains import Domain
from superopt.domains.small_field import SmallArray, SmallFieldDomain
from superopt.generator.adjoints.forms import FORMS, Forms, is_total, operators_in, ordered
from superopt.generator.adjoints.problem import COTANGENT, Problem
from superopt.generator.adjoints.solving import Solver
from superopt.generator.adjoints.vocabulary import Search
from superopt.generator.enumerate.enumeration import Enumeration, input_values
from superopt.ir.terms import Term
from superopt.ops import Operator

Product = Callable[[Operator, int, Domain[SmallArray], Sequence[SmallArray], SmallArray], SmallArray]
"""The vector-Jacobian product of an operator with respect to an operand, in a domain, at operands, for a
cotangent."""


@dataclass(frozen=True)
class Batch:
    """The gradients among terms of the first ``max_ops`` levels and solutions by them, those that are
    defined everywhere first, then the smallest; ``classes`` values were compared."""

    max_ops: int
    classes: int
    gradients: tuple[Term, ...]


def gradients(problem: Problem, search: Search, product: Product) -> Iterator[Batch]:
    """The gradients of a goal among the terms of a search, in batches of growing size. Equal values at random
    points are no proof; every gradient is to be validated. Deterministic."""
    stage = problem.stage(search)
    inputs = input_values(stage)
    operands = [inputs[name] for name in problem.names]
    goal = problem.goal
    target = SmallArray(
        product(goal.operator, goal.input, SmallFieldDomain(), operands, inputs[COTANGENT]).residue
    )
    for size in range(search.max_ops + 1):
        enumeration = Enumeration(replace(stage, max_ops=size + 1), merges=False)
        forms = Forms(enumeration)
        (own,) = enumeration.classes_of(problem.target, target).tolist()
        terms = itertools.chain(
            forms.of(own) if own >= 0 else (),
            Solver(enumeration, forms).terms(problem.target, target, search.solved),
        )
        found = {ordered(term): term for term in itertools.islice(terms, FORMS)}
        smallest = sorted(
            found.values(), key=lambda term: (not is_total(problem, term), operators_in(problem, term))
        )
        yield Batch(size, enumeration.table.count, tuple(smallest))


__all__ = ["Batch", "Product", "gradients"]
