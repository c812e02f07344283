"""Terms of the value classes of an enumeration, in several forms each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from superopt.generator.adjoints.problem import Problem
from superopt.generator.enumerate.enumeration import Enumeration
from superopt.ir.terms import Application, Term, Variable, applications
from superopt.ops import OPERATORS
from superopt.ops.traits import traits

INNER_FORMS = 6
"""Forms of a subterm, all of its smallest size."""

FORMS = 400
"""Forms of a gradient."""


class Forms:
    """The terms of classes of an enumeration."""

    def __init__(self, enumeration: Enumeration) -> None:
        stage, self._terms = enumeration.stage, enumeration.terms
        self._leaves: list[Term] = [Variable(tensor.name) for tensor in stage.inputs]
        self._leaves += [constant.term for constant in stage.constants]
        self._instances = stage.instances
        self._order = np.lexsort((self._terms.sizes, self._terms.classes))
        self._sorted = self._terms.classes[self._order]
        self._inner: dict[int, tuple[Term, ...]] = {}

    def of(self, class_: int) -> Iterator[Term]:
        """All terms of a class whose subterms are as small as possible, smallest first."""
        for row in self._rows(class_):
            yield from self._written(row)

    def smallest(self, class_: int) -> tuple[Term, ...]:
        """Some terms of a class of the smallest size."""
        if class_ not in self._inner:
            rows = self._rows(class_)
            size = self._terms.sizes[rows[0]]
            terms = (term for row in rows if self._terms.sizes[row] == size for term in self._written(row))
            self._inner[class_] = tuple(itertools.islice(terms, INNER_FORMS))
        return self._inner[class_]

    def _rows(self, class_: int) -> list[int]:
        first, last = np.searchsorted(self._sorted, (class_, class_ + 1))
        return self._order[first:last].tolist()

    def _written(self, row: int) -> Iterator[Term]:
        instance, arguments = int(self._terms.instances[row]), self._terms.arguments[row]
        if instance < 0:
            yield self._leaves[arguments[0]]
            return
        word = self._instances[instance]
        for chosen in itertools.product(*(self.smallest(int(a)) for a in arguments if a >= 0)):
            yield Application(word.name, word.attributes, chosen)


def operators_in(problem: Problem, gradient: Term) -> int:
    """The operators that a gradient adds to a graph that has the result, without constants."""
    return sum(1 for term in applications(gradient) if term.inputs and term != problem.own)


def ordered(term: Term) -> Term:
    """The term with the operands of commutative operators in one order."""
    if isinstance(term, Variable):
        return term
    inputs = tuple(map(ordered, term.inputs))
    return replace(
        term, inputs=tuple(sorted(inputs, key=repr)) if traits(term.operator).commutative else inputs
    )


def is_total(problem: Problem, gradient: Term) -> bool:
    """Whether a gradient is defined everywhere; true also where the operator itself is not."""
    return not _total(problem.own) or all(map(_total, applications(gradient)))


def _total(term: Application) -> bool:
    return OPERATORS[term.operator].is_total(dict(term.attributes))


__all__ = ["FORMS", "Forms", "is_total", "operators_in", "ordered"]
