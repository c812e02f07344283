"""Complete case sets for attribute variables: enumerated keywords, symbolic sizes, degree patterns.

Numbers that do not affect any type have one value for all; the text of the chain shows that a proof does not
depend on it. A degree is the number of parts of a divided tensor. Types depend on degrees only through
products, exact quotients, least common multiples, greatest common divisors, divisibility and being 1. All of
these are decided prime by prime, so a step that fails for some degrees fails for powers of at most two
primes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction
from math import gcd, prod

from superopt.errors import IllTypedError
from superopt.instances.values import ATTRIBUTE_VALUES
from superopt.ir.dimensions import symbol
from superopt.ir.numbers import AttributeVariable, names_of
from superopt.ir.terms import (
    Condition,
    ConditionCall,
    Equation,
    applications,
)
from superopt.ops.attributes import NUMBERS, PADDING_WORDS, PAIRS
from superopt.rewriting.conditions import holds, names_in
from superopt.verifier.certificates.condition_forms import require_known_forms

_GENERIC = tuple(Fraction(p, q) for p, q in ((17, 19), (23, 29), (31, 37), (41, 43), (47, 53), (59, 61)))
"""Different numbers for different variables: constants of equal numbers would be one term."""
_SPECIAL = (2, -1, 3, 0, 1, Fraction(1, 2))
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)


def attribute_cases(goal: Equation, largest_rank: int) -> Iterator[Mapping[str, object]]:
    """Yield values for all attribute variables together, with axes and permutations for ranks up to the given
    one.

    Raises IllTypedError if the values cannot be enumerated completely.
    """
    kinds = {name: _kind(name, said) for name, said in _kinds(goal).items()}
    numbers = [name for name, kind in kinds.items() if kind in NUMBERS]
    degrees = [name for name, kind in kinds.items() if kind == "degree"]
    others = [name for name in kinds if name not in numbers and name not in degrees]
    require_known_forms(goal)
    for condition in goal.conditions:
        names = names_in(condition)
        if names & set(degrees) or (names & set(numbers) and not names <= set(numbers)):
            raise IllTypedError("a condition relates a number or a degree to what it is not compared with")
        if _relates_tensors(condition):
            raise IllTypedError("a condition relates ranks or axes of several tensors")
    fixed = _generic_numbers(goal, numbers)
    pools = [_values(name, kinds[name], largest_rank) for name in others]
    for chosen in _degrees(goal, degrees):
        for values in itertools.product(*pools):
            yield {**fixed, **chosen, **dict(zip(others, values, strict=True))}


def represented_variables(equation: Equation) -> frozenset[str]:
    """Return the attribute variables with one representative value per case: numbers and degrees."""
    kinds = _kinds(equation)
    return frozenset(name for name, said in kinds.items() if said & NUMBERS or "degree" in said)


def _relates_tensors(condition: Condition) -> bool:
    """Whether a clause relates ranks or axes of tensors otherwise than by numbers, equal ranks, or axes of
    one tensor. Such a clause could force ranks above all that are enumerated."""
    sides = (condition.left, condition.right)
    calls = [side for side in sides if isinstance(side, ConditionCall) and side.function in ("rank", "axis")]
    if len(calls) < 2:
        return bool(calls) and not any(isinstance(side, int) for side in sides)
    one, other = calls
    equal_ranks = one.function == "rank" and condition.relation == "="
    return one.function != other.function or not (equal_ranks or one.arguments[0] == other.arguments[0])


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
    """Return the kind that types depend on; raises IllTypedError if there are several."""
    typed = sorted(said - NUMBERS) or sorted(said)[:1]
    if len(typed) > 1:
        raise IllTypedError(f"{name} stands for several attributes: {', '.join(typed)}")
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
    generic = itertools.cycle(_GENERIC)
    choices = [(number, -number, *_SPECIAL) for _, number in zip(names, generic, strict=False)]
    for values in itertools.product(*choices):
        chosen = dict(zip(names, values, strict=True))
        if all(holds(condition, {}, chosen) for condition in own):
            return chosen
    raise IllTypedError(f"no numbers are known that fulfil the conditions on {', '.join(names)}")


def _degrees(goal: Equation, names: Sequence[str]) -> Iterator[Mapping[str, int]]:
    if not names:
        yield {}
        return
    sizes, degrees = _literals(goal)
    if len(names) == 1:
        for degree in _degrees_of_one(sizes, degrees):
            yield {names[0]: degree}
        return
    if len(names) > 2 or sizes or degrees:
        raise IllTypedError("how several degrees and other numbers divide each other has too many cases")
    vectors = _directions(max(_occurrences(goal, name) for name in names))
    for one, other in itertools.combinations([(0, 0), *vectors], 2):
        chosen = [2**a * 3**b for a, b in zip(one, other, strict=True)]
        if min(chosen) > 1:
            yield dict(zip(names, chosen, strict=True))


def _directions(highest: int) -> list[tuple[int, int]]:
    """Return exponents of one prime in two degrees, one pair for each way in which products of at most that
    many of them can divide each other: the boundaries between the ways, and the sum of each two
    neighbours."""
    powers = range(highest + 1)
    borders = sorted(
        ((a, b) for a in powers for b in powers if gcd(a, b) == 1), key=lambda p: Fraction(p[1], p[0] + p[1])
    )
    between = [(a + c, b + d) for (a, b), (c, d) in itertools.pairwise(borders)]
    return [*borders, *between]


def _occurrences(goal: Equation, name: str) -> int:
    """Return the larger number of occurrences of the variable on one side."""
    return max(
        sum(value == AttributeVariable(name) for term in applications(side) for _, value in term.attributes)
        for side in goal.terms
    )


def _degrees_of_one(sizes: Sequence[int], degrees: Sequence[int]) -> Iterator[int]:
    """Yield a prime that divides no number of the rule, each divisor of a number, and, for primes in the
    other degrees of the rule, powers and multiples."""
    generic = next(p for p in _PRIMES if all(number % p for number in (*sizes, *degrees)))
    special = {d for size in sizes for d in range(2, size + 1) if size % d == 0}
    for p in (p for p in _PRIMES if any(degree % p == 0 for degree in degrees)):
        highest = 2 + sum(degree % p**power == 0 for degree in degrees for power in range(1, degree))
        special |= {p**power * rest for power in range(1, highest + 1) for rest in (1, generic)}
    yield from sorted({generic, *special})


def _literals(goal: Equation) -> tuple[list[int], list[int]]:
    """Return the sizes, and the degrees above 1, that the rule gives as numbers."""
    sizes = {size for _, type_ in goal.types for size in type_.shape if isinstance(size, int) and size > 1}
    degrees: set[int] = set()
    for term in goal.applications:
        for attribute, value in term.attributes:
            parts = value if isinstance(value, tuple) else (value,)
            numbers = {part for part in parts if isinstance(part, int) and part > 1}
            if attribute == "degree":
                degrees |= numbers
            elif attribute in (*PAIRS, "shape", "padding"):
                sizes |= numbers | ({prod(numbers)} if numbers else set())
    return sorted(sizes), sorted(degrees)


__all__ = ["attribute_cases", "generic_numbers", "represented_variables"]
