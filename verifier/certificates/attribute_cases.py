"""Complete case sets for attribute variables: enumerated keywords, symbolic sizes, degree patterns.

Numbers that do not affect any type have one value for all; the text of the chain shows that a proof does not
depend on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction

from superopt.errors import IllTypedError
from superopt.instances.values import ATTRIBUTE_VALUES
from superopt.ir.dimensions import symbol
from superopt.ir.numbers import names_of
from superopt.ir.terms import Equation
from superopt.ops.attributes import NUMBERS, PADDING_WORDS, PAIRS
from superopt.rewriting.conditions import holds, names_in
from superopt.verifier.certificates.condition_forms import require_known_forms
from superopt.verifier.certificates.degree_cases import OpenDegrees
from superopt.verifier.certificates.rank_classes import axes_of_one_rank

_GENERIC = tuple(Fraction(p, q) for p, q in ((17, 19), (23, 29), (31, 37), (41, 43), (47, 53), (59, 61)))
"""Different numbers for different variables: constants of equal numbers would be one term."""
_SPECIAL = (2, -1, 3, 0, 1, Fraction(1, 2))
_MOST_TRIED = 100_000
"""How many choices of numbers are tried."""


def attribute_cases(
    goal: Equation, largest_rank: int, highest_rank: int, degrees: OpenDegrees | None = None
) -> Iterator[Mapping[str, object]]:
    """Yield values for all attribute variables together: shapes and permutations for ranks up to the largest
    of a variable, axes for ranks up to the highest of any term (from the front alone, where one from the back
    is the same), and degrees as those given ask for (or the rule alone).

    Raises IllTypedError if the values cannot be enumerated completely.
    """
    kinds = {name: _kind(name, said) for name, said in _kinds(goal).items()}
    numbers = [name for name, kind in kinds.items() if kind in NUMBERS]
    degrees = degrees or OpenDegrees(goal)
    others = [name for name in kinds if name not in numbers and name not in degrees.names]
    require_known_forms(goal)
    for condition in goal.conditions:
        names = names_in(condition)
        if names & set(degrees.names) or (names & set(numbers) and not names <= set(numbers)):
            raise IllTypedError("a condition relates a number or a degree to what it is not compared with")
    fixed = _generic_numbers(goal, numbers)
    ranks = {name: highest_rank if kinds[name] == "axis" else largest_rank for name in others}
    from_front = axes_of_one_rank(goal)
    pools = [
        range(ranks[name]) if name in from_front else _values(name, kinds[name], ranks[name])
        for name in others
    ]
    for chosen in degrees.cases():
        for values in itertools.product(*pools):
            yield {**fixed, **chosen, **dict(zip(others, values, strict=True))}


def represented_variables(equation: Equation) -> frozenset[str]:
    """Return the attribute variables with one representative value per case: numbers and degrees."""
    kinds = _kinds(equation)
    return frozenset(name for name, said in kinds.items() if said & NUMBERS or "degree" in said)


def _kinds(equation: Equation) -> dict[str, set[str]]:
    """Map each attribute variable to the kinds of attributes it stands for; rows and columns are
    ``kernel``."""
    found: dict[str, set[str]] = {}
    for term in equation.applications:
        for attribute, value in term.attributes:
            for name in names_of(value):
                found.setdefault(name, set()).add("kernel" if attribute in PAIRS else attribute)
    return found


def _kind(name: str, said: Set[str]) -> str:
    """Return the kind of all its attributes, numbers being of one kind; raises IllTypedError if there are
    several. One number stands for all, but not where it is calculated from one that does not."""
    typed = sorted(said - NUMBERS) or sorted(said)[:1]
    if len(typed) > 1 or not (said <= NUMBERS or said.isdisjoint(NUMBERS)):
        raise IllTypedError(f"{name} stands for several attributes: {', '.join(sorted(said))}")
    return typed[0]


def _values(name: str, kind: str, largest_rank: int) -> Sequence[object]:
    known = ATTRIBUTE_VALUES.get(kind)
    if known is not None and known.every:
        return known.every
    match kind:
        case "axis":
            return range(-largest_rank, largest_rank)
        case "perm":
            perms = itertools.chain(*(itertools.permutations(range(n)) for n in range(1, largest_rank + 1)))
            return ((), *perms)
        case "shape":
            return [tuple(symbol(f"{name}.{n}") for n in range(rank)) for rank in range(largest_rank + 1)]
        case "kernel":
            return ((symbol(f"{name}.rows"), symbol(f"{name}.columns")),)
        case "padding":  # margins may be 0, symbols are at least 1
            sides = ("top", "left", "bottom", "right")
            return (*PADDING_WORDS, tuple(symbol(f"{name}.{side}") - 1 for side in sides))
        case "size":
            return (symbol(f"{name}.size"),)
        case _:
            raise IllTypedError(f"what values {kind}={name} takes is not known")


def generic_numbers(goal: Equation) -> Mapping[str, object]:
    """Return different values for the variables that are numbers; raises IllTypedError if none are known that
    fulfil the conditions."""
    return _generic_numbers(goal, sorted(numbers_of(goal)))


def numbers_of(equation: Equation) -> frozenset[str]:
    """Return the attribute variables that are numbers of which no type depends."""
    return frozenset(name for name, said in _kinds(equation).items() if said <= NUMBERS)


def _generic_numbers(goal: Equation, names: Sequence[str]) -> Mapping[str, object]:
    """Return numbers that satisfy the conditions about numbers alone."""
    own = [condition for condition in goal.conditions if names_in(condition) <= set(names)]
    if len(names) > len(_GENERIC):
        raise IllTypedError(f"{len(names)} numbers are open, more than {len(_GENERIC)}")
    choices = [(number, -number, *_SPECIAL) for _, number in zip(names, _GENERIC, strict=False)]
    for values in itertools.islice(itertools.product(*choices), _MOST_TRIED):
        chosen = dict(zip(names, values, strict=True))
        if all(holds(condition, {}, chosen) for condition in own):
            return chosen
    raise IllTypedError(f"no numbers are known that fulfil the conditions on {', '.join(names)}")


__all__ = ["attribute_cases", "generic_numbers", "represented_variables"]
