"""Complete case sets for attribute variables: enumerated words, symbolic sizes, degree patterns.

Numbers that no type depends on have one value for all; that a proof does not depend on it is seen in the text
of its chain. A degree says among how many places a tensor is divided. Types depend on degrees through
products, exact quotients, least common multiples, greatest common divisors, divisibility and being 1 alone,
all of which are decided prime by prime: what fails for some degrees fails for two primes of theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction
from math import gcd, prod

from superopt.errors import IllTypedError
from superopt.instances.values import ATTRIBUTE_VALUES, NUMERIC
from superopt.ir.dimensions import symbol
from superopt.ir.terms import AttributeVariable, Condition, ConditionCall, Equation, applications
from superopt.ops.attributes import PADDING_WORDS, PAIRS
from superopt.rewriting.conditions import holds, names_in

_NUMBERS = (Fraction(1, 2), 2, -1, Fraction(-1, 2), 3, 0, 1)
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)


def attribute_cases(goal: Equation, largest_rank: int) -> Iterator[Mapping[str, object]]:
    """Values for all attribute variables together, with axes and permutations of at most that rank.

    Raises IllTypedError where all values cannot be gone through.
    """
    kinds = {name: _kind(name, said) for name, said in _kinds(goal).items()}
    numbers = [name for name, kind in kinds.items() if kind in NUMERIC]
    degrees = [name for name, kind in kinds.items() if kind == "degree"]
    others = [name for name in kinds if name not in numbers and name not in degrees]
    for condition in goal.conditions:
        names = names_in(condition)
        if names & set(degrees) or (names & set(numbers) and not names <= set(numbers)):
            raise IllTypedError("a condition relates a number or a degree to what it is not compared with")
        if _relates_tensors(condition):
            raise IllTypedError("a condition relates ranks or axes of several tensors")
    fixed = _numbers(goal, numbers)
    pools = [_values(name, kinds[name], largest_rank) for name in others]
    for chosen in _degrees(goal, degrees):
        for values in itertools.product(*pools):
            yield {**fixed, **chosen, **dict(zip(others, values, strict=True))}


def represented_variables(equation: Equation) -> frozenset[str]:
    """The attribute variables of which a case has one value for many: numbers and degrees."""
    kinds = _kinds(equation)
    return frozenset(name for name, said in kinds.items() if said & NUMERIC or "degree" in said)


def _relates_tensors(condition: Condition) -> bool:
    """Whether a clause says more of ranks and axes than numbers, equal ranks, or axes of one tensor: ranks
    could then be bound to be higher than all that are gone through."""
    sides = (condition.left, condition.right)
    calls = [side for side in sides if isinstance(side, ConditionCall) and side.function in ("rank", "axis")]
    if len(calls) < 2:
        return bool(calls) and not any(isinstance(side, int) for side in sides)
    one, other = calls
    equal_ranks = one.function == "rank" and condition.relation == "="
    return one.function != other.function or not (equal_ranks or one.arguments[0] == other.arguments[0])


def _kinds(equation: Equation) -> dict[str, set[str]]:
    """What kinds of attributes each variable stands for; one for rows and columns is a ``kernel``."""
    found: dict[str, set[str]] = {}
    for term in applications(*equation.left, *equation.right):
        for attribute, value in term.attributes:
            if isinstance(value, AttributeVariable):
                found.setdefault(value.name, set()).add("kernel" if attribute in PAIRS else attribute)
    return found


def _kind(name: str, said: Set[str]) -> str:
    """The kind on which types depend; raises IllTypedError where there are several."""
    typed = sorted(said - NUMERIC) or sorted(said)[:1]
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


def _numbers(goal: Equation, names: Sequence[str]) -> Mapping[str, object]:
    """Numbers that fulfil the conditions about numbers alone."""
    own = [condition for condition in goal.conditions if names_in(condition) <= set(names)]
    for values in itertools.product(_NUMBERS, repeat=len(names)):
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
    """Powers of one prime in two degrees, one pair for each way in which products of at most so many of them
    can divide each other: the borders between the ways, and between each two neighbours their sum."""
    powers = range(highest + 1)
    borders = sorted(
        ((a, b) for a in powers for b in powers if gcd(a, b) == 1), key=lambda p: Fraction(p[1], p[0] + p[1])
    )
    between = [(a + c, b + d) for (a, b), (c, d) in itertools.pairwise(borders)]
    return [*borders, *between]


def _occurrences(goal: Equation, name: str) -> int:
    """How often the variable occurs on a side, at most."""
    return max(
        sum(value == AttributeVariable(name) for term in applications(side) for _, value in term.attributes)
        for side in (*goal.left, *goal.right)
    )


def _degrees_of_one(sizes: Sequence[int], degrees: Sequence[int]) -> Iterator[int]:
    """A prime that divides no number of the rule, every divisor of one, and of primes in its other degrees
    powers and multiples."""
    generic = next(p for p in _PRIMES if all(number % p for number in (*sizes, *degrees)))
    special = {d for size in sizes for d in range(2, size + 1) if size % d == 0}
    for p in (p for p in _PRIMES if any(degree % p == 0 for degree in degrees)):
        highest = 2 + sum(degree % p**power == 0 for degree in degrees for power in range(1, degree))
        special |= {p**power * rest for power in range(1, highest + 1) for rest in (1, generic)}
    yield from sorted({generic, *special})


def _literals(goal: Equation) -> tuple[list[int], list[int]]:
    """The sizes and the degrees above 1 that the rule says in numbers."""
    sizes = {size for _, type_ in goal.types for size in type_.shape if isinstance(size, int) and size > 1}
    degrees: set[int] = set()
    for term in applications(*goal.left, *goal.right):
        for attribute, value in term.attributes:
            parts = value if isinstance(value, tuple) else (value,)
            numbers = {part for part in parts if isinstance(part, int) and part > 1}
            if attribute == "degree":
                degrees |= numbers
            elif attribute in (*PAIRS, "shape", "padding"):
                sizes |= numbers | ({prod(numbers)} if numbers else set())
    return sorted(sizes), sorted(degrees)


__all__ = ["attribute_cases", "represented_variables"]
