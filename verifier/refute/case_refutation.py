"""Refutation by evaluating both sides in each case of a rule, with numbers for its symbols.

Cases are complete, so this covers ranks and groups that samplers miss.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from math import prod
from typing import cast

import numpy as np

from superopt.errors import IllTypedError, InvalidEquationError
from superopt.instances.instance import Instance
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import Application, Equation, Variable
from superopt.ops.attributes import substituted
from superopt.rewriting.concrete import operator_symbols, require_sizes, with_numbers
from superopt.rewriting.conditions import holds
from superopt.verifier.certificates.condition_forms import sizes_in
from superopt.verifier.refute.refutation import difference_in

_CASES = 40
_TRIES, _TRIES_OF_CONDITIONS = 12, 60
_EVALUATED = 2
_LEAST_OF_ALL = 6
"""How many instances are evaluated at least, if there are few cases."""

_MOST_ELEMENTS = 20_000
_FEW = (1, 1, 2)
_SIZES = (1, 2, 2, 3, 3, 4, 5)
_LARGE_SIZES = (6, 8, 9, 12)


def counterexample_in(equation: Equation, cases: Sequence[Instance], seed: int) -> str | None:
    """Return the first instance on which the sides differ, among the first cases and cases spread over all;
    or None."""
    found = agreeing(equation, cases, seed)
    return found if isinstance(found, str) else None


def agreeing(equation: Equation, cases: Sequence[Instance], seed: int) -> str | tuple[Instance, ...]:
    """Return instances, of cases spread over all, on which the sides agree; or the first on which they
    differ, as text."""
    generator, numbers = np.random.default_rng(seed), random.Random(seed)
    order = equation.applications
    sizes = _sizes_of_conditions(equation)
    count = max(_EVALUATED, _LEAST_OF_ALL // max(1, len(cases)))
    found: list[Instance] = []
    for case in _spread(cases):
        for instance in itertools.islice(_numbered(equation, order, case, numbers, sizes), count):
            difference = difference_in(equation, instance, generator)
            if difference is not None:
                return f"{instance}: {difference}" if str(instance) else difference
            found.append(instance)
    return tuple(found)


def _spread(cases: Sequence[Instance]) -> Iterator[Instance]:
    count = min(len(cases), _CASES)
    for number in range(count):
        yield cases[number * len(cases) // count]


def _sizes_of_conditions(equation: Equation) -> tuple[int, ...]:
    """Return the sizes around the numbers of the rule's conditions."""
    numbers = {number for condition in equation.conditions for number in sizes_in(condition)}
    return tuple(
        sorted({size for number in numbers for size in (number - 1, number, number + 1) if size > 0})
    )


def _numbered(
    equation: Equation,
    order: Sequence[Application],
    case: Instance,
    generator: random.Random,
    further_sizes: Sequence[int],
) -> Iterator[Instance]:
    """Yield instances of the case that satisfy the rule's conditions; none if these are hard to find."""
    named = [type_.symbols for type_ in case.typing.types.values()]
    named += [operator_symbols(operator) for operator in case.typing.operators.values()]
    names = sorted(frozenset[str]().union(*named))
    names += sorted(_symbols_of_attributes(case) - set(names))
    tries = _TRIES_OF_CONDITIONS if further_sizes else _TRIES
    for attempt in range(tries if names else 1):
        sizes = _FEW if attempt == 0 else (*_SIZES, *_LARGE_SIZES, *further_sizes) if attempt % 2 else _SIZES
        numbers: dict[str, Dimension] = {name: generator.choice(sizes) for name in names}
        instance = _instance(equation, order, case, numbers)
        if instance is not None:
            yield instance


def _symbols_of_attributes(case: Instance) -> set[str]:
    return {
        name
        for value in case.attributes.values()
        for part in (cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,))
        for name in getattr(part, "symbols", frozenset[str]())
    }


def _instance(
    equation: Equation, order: Sequence[Application], case: Instance, numbers: dict[str, Dimension]
) -> Instance | None:
    try:
        typing = with_numbers(case.typing, order, case.types, numbers)
        for type_ in typing.types.values():
            require_sizes(type_)
    except IllTypedError:
        return None
    names = equation.variables
    types = {name: typing.types[Variable(name)] for name in names}
    attributes = {name: substituted(value, numbers) for name, value in case.attributes.items()}
    try:
        if not all(holds(condition, types, attributes) for condition in equation.conditions):
            return None
    except InvalidEquationError:
        return None
    elements = (prod(cast("tuple[int, ...]", type_.array_shape)) for type_ in typing.types.values())
    return Instance(types, attributes, typing) if max(elements, default=0) <= _MOST_ELEMENTS else None


__all__ = ["agreeing", "counterexample_in"]
