"""Arithmetic on the numbers of an equation: ``a*c + b``, ``1/c``, ``min(a, b)`` as attribute values.

An expression is a polynomial with rational coefficients in canonical form, so that equal polynomials are
equal objects. Its unknowns are attribute variables, which may have negative powers, and *calls*: the smaller
or the larger of two expressions, and the reciprocal of a sum. ``c * 1/c`` is 1, so a proof about all c has to
exclude 0; ``divisors`` lists what must not be 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import TypeAlias

from superopt.errors import IllTypedError

MOST_TERMS = 64
"""Larger sums are refused: nobody writes them, and products of them grow without bound."""


@dataclass(frozen=True, slots=True)
class AttributeVariable:
    """An attribute variable of a rule, such as ``s`` in ``conv[stride=s]``."""

    name: str


@dataclass(frozen=True, slots=True)
class NumberCall:
    """``min`` or ``max`` of two numbers, or the ``reciprocal`` of a sum."""

    function: str
    arguments: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class NumberExpression:
    """A sum of products: pairs of a product, which is unknowns with their powers, and its coefficient.

    It is never a constant nor a single variable; the functions of this module return those as they are.
    """

    terms: tuple[tuple[Monomial, Fraction], ...]
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.terms))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        """Constructed again when unpickled, because text hashes differ between processes."""
        return (NumberExpression, (self.terms,))

    def __str__(self) -> str:
        written = [_product_text(monomial, factor) for monomial, factor in self.terms]
        return "".join(
            part if not number else f" - {part[1:]}" if part.startswith("-") else f" + {part}"
            for number, part in enumerate(written)
        )


Unknown: TypeAlias = "AttributeVariable | NumberCall"
Monomial: TypeAlias = "tuple[tuple[Unknown, int], ...]"
Number: TypeAlias = "int | Fraction | AttributeVariable | NumberExpression"


def plus(left: Number, right: Number) -> Number:
    """The sum."""
    total = dict(_terms(left))
    for monomial, factor in _terms(right):
        total[monomial] = total.get(monomial, Fraction(0)) + factor
    return _number(total)


def minus(left: Number, right: Number) -> Number:
    """The difference."""
    return plus(left, times(-1, right))


def times(left: Number, right: Number) -> Number:
    """The product."""
    total: dict[Monomial, Fraction] = {}
    for one, factor in _terms(left):
        for other, second in _terms(right):
            monomial = _joined(one, other)
            total[monomial] = total.get(monomial, Fraction(0)) + factor * second
    return _number(total)


def over(left: Number, right: Number) -> Number:
    """The quotient; raises IllTypedError for the divisor 0."""
    return times(left, _reciprocal(right))


def smaller(left: Number, right: Number) -> Number:
    """The smaller of two numbers."""
    return _chosen("min", left, right)


def larger(left: Number, right: Number) -> Number:
    """The larger of two numbers."""
    return _chosen("max", left, right)


FUNCTIONS: Mapping[str, Callable[[Number, Number], Number]] = {"min": smaller, "max": larger}


def names_of(value: object) -> frozenset[str]:
    """The names of the attribute variables in an attribute value."""
    match value:
        case AttributeVariable(name):
            return frozenset((name,))
        case NumberExpression():
            found = (_names_of_unknown(u) for monomial, _ in value.terms for u, _ in monomial)
            return frozenset[str]().union(*found)
        case _:
            return frozenset()


def substituted_number(value: object, values: Mapping[str, object]) -> object:
    """An attribute value with values for its variables; those that are missing stay.

    Raises IllTypedError where it divides by 0, or computes with what is no number.
    """
    match value:
        case AttributeVariable(name):
            return values.get(name, value)
        case NumberExpression():
            return _sum(
                times(factor, reduce(times, (_power(_of_unknown(u, values), n) for u, n in monomial), 1))
                for monomial, factor in value.terms
            )
        case _:
            return value


def has_value(value: NumberExpression, values: Mapping[str, object], wanted: object) -> bool:
    """Whether the expression is the wanted number for these values; not if it divides by 0."""
    try:
        return substituted_number(value, values) == wanted
    except IllTypedError:
        return False


def divisors(value: object) -> Iterator[Number]:
    """All that an attribute value divides by."""
    if not isinstance(value, NumberExpression):
        return
    for monomial, _ in value.terms:
        for unknown, power in monomial:
            if isinstance(unknown, NumberCall):
                for argument in unknown.arguments:
                    yield from divisors(argument)
                if unknown.function == "reciprocal":
                    yield unknown.arguments[0]
            if power < 0:
                yield _number({((unknown, 1),): Fraction(1)})


def parts_of(value: object) -> Iterator[Number]:
    """All numbers met on the way when an expression is calculated: partial products and partial sums, and the
    same of the arguments of its calls. The value itself is the last."""
    if not isinstance(value, NumberExpression):
        if isinstance(value, int | Fraction | AttributeVariable):
            yield value
        return
    sums: list[Number] = [0]
    for monomial, factor in value.terms:
        products: list[Number] = [1]
        for unknown, power in monomial:
            if isinstance(unknown, NumberCall):
                for argument in unknown.arguments:
                    yield from parts_of(argument)
            step = _number({((unknown, 1 if power > 0 else -1),): Fraction(1)})
            for _ in range(abs(power)):
                further = [times(product, step) for product in products]
                products = list(dict.fromkeys((*products, *further)))[:MOST_TERMS]
        products += [times(product, factor) for product in products]
        yield from dict.fromkeys(products)
        own = _number({monomial: factor})
        sums += [plus(partial, own) for partial in sums][:MOST_TERMS]
    yield from dict.fromkeys(sums)


def _terms(value: Number) -> tuple[tuple[Monomial, Fraction], ...]:
    match value:
        case int() | Fraction():
            return (((), Fraction(value)),) if value else ()
        case AttributeVariable():
            return ((((value, 1),), Fraction(1)),)
        case NumberExpression():
            return value.terms
    raise IllTypedError(f"expected a number, got {value}")


def _number(total: Mapping[Monomial, Fraction]) -> Number:
    """The sum as a constant or a variable where it is one."""
    terms = sorted(((m, f) for m, f in total.items() if f), key=_position)
    if len(terms) > MOST_TERMS:
        raise IllTypedError(f"a sum of more than {MOST_TERMS} terms")
    match terms:
        case []:
            return 0
        case [((), factor)]:
            return int(factor) if factor.denominator == 1 else factor
        case [(((AttributeVariable() as variable, 1),), factor)] if factor == 1:
            return variable
        case _:
            return NumberExpression(tuple(terms))


def _position(term: tuple[Monomial, Fraction]) -> tuple[int, int, str]:
    """Products of many unknowns first, constants last."""
    monomial, _ = term
    return (not monomial, -sum(abs(power) for _, power in monomial), _monomial_text(monomial))


def _joined(one: Monomial, other: Monomial) -> Monomial:
    powers = dict(one)
    for unknown, power in other:
        powers[unknown] = powers.get(unknown, 0) + power
    kept = ((unknown, power) for unknown, power in powers.items() if power)
    return tuple(sorted(kept, key=lambda factor: _unknown_text(factor[0])))


def _reciprocal(value: Number) -> Number:
    terms = _terms(value)
    if not terms:
        raise IllTypedError("a number divides by 0")
    first, factor = terms[0]
    if len(terms) == 1:
        powers = [(unknown, power) for unknown, power in first]
        whole = [u for u, _ in powers if isinstance(u, NumberCall)]
        if not whole:
            return _number({tuple((u, -power) for u, power in powers): 1 / factor})
    scaled = times(value, 1 / factor)
    return _number({((NumberCall("reciprocal", (scaled,)), 1),): 1 / factor})


def _chosen(function: str, left: Number, right: Number) -> Number:
    if isinstance(left, int | Fraction) and isinstance(right, int | Fraction):
        return min(left, right) if function == "min" else max(left, right)
    if left == right:
        return left
    one, other = sorted((left, right), key=number_text)
    return _number({((NumberCall(function, (one, other)), 1),): Fraction(1)})


def _of_unknown(unknown: Unknown, values: Mapping[str, object]) -> Number:
    if isinstance(unknown, AttributeVariable):
        return _as_number(values.get(unknown.name, unknown))
    arguments = [_as_number(substituted_number(each, values)) for each in unknown.arguments]
    if unknown.function == "reciprocal":
        return _reciprocal(arguments[0])
    return FUNCTIONS[unknown.function](*arguments)


def _as_number(value: object) -> Number:
    if isinstance(value, int | Fraction | AttributeVariable | NumberExpression):
        return value
    raise IllTypedError(f"expected a number, got {value}")


def _power(base: Number, power: int) -> Number:
    factor = base if power > 0 else _reciprocal(base)
    return reduce(times, (factor,) * abs(power), 1)


def _sum(numbers: Iterable[Number]) -> Number:
    return reduce(plus, numbers, 0)


def _names_of_unknown(unknown: Unknown) -> frozenset[str]:
    if isinstance(unknown, AttributeVariable):
        return frozenset((unknown.name,))
    return frozenset[str]().union(*map(names_of, unknown.arguments))


def number_text(value: Number) -> str:
    """The number as it is written in an equation."""
    return value.name if isinstance(value, AttributeVariable) else str(value)


def _unknown_text(unknown: Unknown) -> str:
    if isinstance(unknown, AttributeVariable):
        return unknown.name
    inner = ", ".join(map(number_text, unknown.arguments))
    return f"1/({inner})" if unknown.function == "reciprocal" else f"{unknown.function}({inner})"


def _monomial_text(monomial: Monomial) -> str:
    """The product without its coefficient: ``a*b/c``; empty for 1."""
    above = [_unknown_text(u) for u, power in monomial for _ in range(max(power, 0))]
    below = [_unknown_text(u) for u, power in monomial for _ in range(max(-power, 0))]
    divided = [part[2:] for part in above if part.startswith("1/")] + below
    numerator = "*".join(part for part in above if not part.startswith("1/"))
    return "/".join((numerator or "1", *divided)) if numerator or divided else ""


def _product_text(monomial: Monomial, factor: Fraction) -> str:
    text = _monomial_text(monomial)
    if not text:
        return str(factor)
    if abs(factor.numerator) != 1 or text.startswith("1/"):
        rest = text.removeprefix("1") if text.startswith("1/") else f"*{text}"
        text = f"{factor.numerator}{rest}"
    elif factor < 0:
        text = f"-{text}"
    return text if factor.denominator == 1 else f"{text}/{factor.denominator}"
