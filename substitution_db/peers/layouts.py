"""What types say of a rule before any value does: it is well-typed nowhere, or its sides lie otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from superopt.equations import format_condition
from superopt.errors import IllTypedError
from superopt.ir.dimensions import symbol
from superopt.ir.terms import (
    Application,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    variables,
)
from superopt.ir.types import TensorType
from superopt.ops.sharding import divisions_of, replicas_of, whole
from superopt.rewriting.divisions import DIVIDING, divisions_needed, variable_type
from superopt.rewriting.typing import infer_terms
from verifier.cases import cases_of
from verifier.rank_bound import largest_rank

MOST_TRIES = 5_000
MOST_CASES = 200


def why_ill_typed(equation: Equation) -> str | None:
    """Why no types of its variables make both sides well-typed; None where some do, or that is not known."""
    if equation.types or attribute_variables(*equation.left, *equation.right):
        return None
    try:
        highest = largest_rank(equation)
        if next(cases_of(equation, highest), None) is not None:
            return None
    except IllTypedError:
        return None
    search = _Search(equation, highest)
    sides = {"source": equation.left, "target": equation.right}
    for name, side in sides.items():
        failure = search.failure(applications(*side))
        if failure:
            return f"the {name} is never well-typed: {failure}"
    failure = search.failure(applications(*equation.left, *equation.right))
    if failure:
        return f"the target is never well-typed where the source is: {failure}"
    if equation.conditions:
        return f"nothing fulfils {', '.join(map(format_condition, equation.conditions))}"
    return None


def divided_otherwise(equation: Equation) -> str | None:
    """Types under which the sides are divided otherwise, or in other numbers of replicas; None where no case
    of the rule is known in which they are.
    """
    if not any(term.operator in DIVIDING for term in applications(*equation.left, *equation.right)):
        return None
    try:
        for case in islice(cases_of(equation, largest_rank(equation)), MOST_CASES):
            for left, right in zip(equation.left, equation.right, strict=True):
                one, other = (_smallest(case.typing.types[side]) for side in (left, right))
                if _layout(one) != _layout(other):
                    types = ", ".join(
                        f"{name}: {_smallest(type_)}" for name, type_ in sorted(case.types.items())
                    )
                    return f"{types}: left has type {one}, right has type {other}"
    except IllTypedError:
        return None
    return None


def _layout(type_: TensorType) -> tuple[object, int]:
    return divisions_of(type_), replicas_of(type_)


def _smallest(type_: TensorType) -> TensorType:
    return type_.substitute(dict.fromkeys(type_.symbols, 1))


_Reached = tuple[int, bool]
"""How many operators before one that fails are well-typed, and if that one is but for how tensors lie."""


@dataclass
class _Search:
    """Ranks of variables under which operators are well-typed, inputs first."""

    equation: Equation
    highest: int
    failures: Counter[tuple[_Reached, str]] = field(default_factory=Counter[tuple[_Reached, str]])
    tries: int = MOST_TRIES

    def failure(self, terms: Iterator[Application]) -> str:
        """What the operator that is reached last says, first of how tensors lie; empty when all operators are
        well-typed, or tries run out."""
        self.failures, self.tries = Counter(), MOST_TRIES
        if self._reaches_the_end(tuple(terms), {}, 0) or self.tries <= 0 or not self.failures:
            return ""
        last = max(reached for reached, _ in self.failures)
        found = Counter({text: count for (reached, text), count in self.failures.items() if reached == last})
        return found.most_common(1)[0][0]

    def _reaches_the_end(
        self, terms: Sequence[Application], types: dict[str, TensorType], position: int
    ) -> bool:
        if position == len(terms):
            return True
        new = [name for name in variables(terms[position]) if name not in types]
        for chosen in self._typed(new):
            self.tries -= 1
            if self.tries <= 0:
                return False
            known = {**types, **chosen}
            try:
                infer_terms(terms[: position + 1], known)
            except IllTypedError as error:
                reached = position, _is_typed([_undivided(terms[position])], known)
                self.failures[reached, str(error)] += 1
                continue
            if self._reaches_the_end(terms, known, position + 1):
                return True
        return False

    def _typed(self, names: Sequence[str]) -> Iterator[dict[str, TensorType]]:
        """Types of every rank for the variables, divided as the equation asks for."""
        if not names:
            yield {}
            return
        first, *others = names
        for rank in range(self.highest + 1):
            shape = [symbol(f"{first}.{axis}") for axis in range(rank)]
            type_ = variable_type(first, shape, divisions_needed(self.equation, {first: rank}, {}))
            for rest in self._typed(others):
                yield {first: type_, **rest}


def _is_typed(terms: Sequence[Term], types: Mapping[str, TensorType]) -> bool:
    try:
        infer_terms(terms, {name: whole(type_) for name, type_ in types.items()})
    except IllTypedError:
        return False
    return True


def _undivided(term: Term) -> Term:
    """The term without the operators that divide and put together."""
    if isinstance(term, Variable):
        return term
    inputs = tuple(map(_undivided, term.inputs))
    return inputs[0] if term.operator in DIVIDING else replace(term, inputs=inputs)
