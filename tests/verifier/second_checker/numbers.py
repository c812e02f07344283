"""Calculated numbers: an own canonical form, what it divides by, and its value.

A form is a sum of products of unknowns. Unknowns are variables, ``min`` and ``max`` of two forms, and the
reciprocal of a sum; variables may have negative powers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, cast

from superopt.errors import IllTypedError
from superopt.ir.numbers import NumberCall, NumberExpression, Unknown
from superopt.ir.terms import AttributeVariable

Factor: TypeAlias = "str | Called"


@dataclass(frozen=True)
class Called:
    """A function of forms; the arguments of min and max have no order."""

    function: str
    arguments: frozenset[Form]


Product: TypeAlias = "frozenset[tuple[Factor, int]]"


@dataclass(frozen=True)
class Form:
    """Products with coefficients other than 0; equal forms are equal numbers."""

    terms: frozenset[tuple[Product, Fraction]]

    def __str__(self) -> str:
        return " + ".join(sorted(f"{coefficient} {sorted(p, key=repr)}" for p, coefficient in self.terms))


ZERO = Form(frozenset())
Values: TypeAlias = "Mapping[str, object]"


def form_of(value: object, values: Values | None = None) -> Form:
    """The form of an attribute value, with values for its variables; raises IllTypedError for the divisor 0,
    and where it is no number."""
    known = values or {}
    match value:
        case bool():
            raise IllTypedError(f"{value} is no number")
        case int() | Fraction():
            return _collected([(frozenset(), Fraction(value))])
        case AttributeVariable(name):
            return form_of(known[name]) if name in known else _single(name)
        case Form():
            return value
        case NumberExpression():
            return _sum(
                _product((_constant(factor), *(_powered(u, power, known) for u, power in monomial)))
                for monomial, factor in value.terms
            )
        case _:
            raise IllTypedError(f"{value} is no number")


def is_open(value: object) -> bool:
    """Whether an attribute value is, or has in it, a variable."""
    return isinstance(value, AttributeVariable | NumberExpression) and bool(names(form_of(value)))


def names(form: Form) -> frozenset[str]:
    """The variables of a form."""
    factors = [factor for product, _ in form.terms for factor, _ in product]
    own = frozenset(factor for factor in factors if isinstance(factor, str))
    called = [factor for factor in factors if isinstance(factor, Called)]
    return own.union(*(names(argument) for factor in called for argument in factor.arguments))


def names_in(value: object) -> frozenset[str]:
    """The variables of an attribute value."""
    return names(form_of(value)) if isinstance(value, AttributeVariable | NumberExpression) else frozenset()


def divided_by(form: Form) -> Iterator[Form]:
    """Everything by which a form divides."""
    for product, _ in form.terms:
        for factor, power in product:
            if isinstance(factor, Called):
                for argument in factor.arguments:
                    yield from divided_by(argument)
                    if factor.function == "reciprocal":
                        yield argument
            elif power < 0:
                yield _single(factor)


def simplest(form: Form) -> Form | int | Fraction | AttributeVariable:
    """The form, or the constant or the variable that it is."""
    match list(form.terms):
        case []:
            return 0
        case [(product, coefficient)] if not product:
            return int(coefficient) if coefficient.denominator == 1 else coefficient
        case [(product, coefficient)] if coefficient == 1 and len(product) == 1:
            ((factor, power),) = product
            return AttributeVariable(factor) if isinstance(factor, str) and power == 1 else form
        case _:
            return form


def value_of(value: object, values: Values) -> object:
    """An attribute value with a value for each variable; raises IllTypedError."""
    if isinstance(value, AttributeVariable):
        return values[value.name]
    if not isinstance(value, NumberExpression):
        return value
    found = simplest(form_of(value, values))
    if not isinstance(found, int | Fraction):
        raise IllTypedError(f"{value} is not known")
    return found


def _powered(unknown: Unknown, power: int, values: Values) -> Form:
    base = _called(unknown, values) if isinstance(unknown, NumberCall) else form_of(unknown, values)
    return _product((base if power > 0 else _reciprocal(base),) * abs(power))


def _called(call: NumberCall, values: Values) -> Form:
    arguments = [form_of(argument, values) for argument in call.arguments]
    if call.function == "reciprocal" and len(arguments) == 1:
        return _reciprocal(arguments[0])
    if call.function not in ("min", "max") or len(arguments) != len(("one", "other")):
        raise IllTypedError(f"unknown function {call.function}")
    if arguments[0] == arguments[1]:
        return arguments[0]
    constants = [simplest(argument) for argument in arguments]
    if all(isinstance(each, int | Fraction) for each in constants):
        numbers = cast("list[Fraction]", constants)
        return _constant(min(numbers) if call.function == "min" else max(numbers))
    return _single(Called(call.function, frozenset(arguments)))


def _reciprocal(form: Form) -> Form:
    if form == ZERO:
        raise IllTypedError("a number divides by 0")
    if len(form.terms) == 1:
        ((product, coefficient),) = form.terms
        if all(isinstance(factor, str) for factor, _ in product):
            inverse = frozenset((factor, -power) for factor, power in product)
            return _collected([(inverse, 1 / coefficient)])
    # Sums that differ by a factor have one reciprocal: the first coefficient, in any fixed order, becomes 1.
    _, first = min(form.terms, key=lambda term: _order(term[0]))
    whole = _times(form, _constant(1 / first))
    return _times(_single(Called("reciprocal", frozenset((whole,)))), _constant(1 / first))


def _order(product: Product) -> str:
    return " ".join(sorted(f"{_text(factor)}^{power}" for factor, power in product))


def _text(factor: Factor) -> str:
    """Equal texts only for equal factors, the same in every process."""
    if isinstance(factor, str):
        return factor
    inner = (
        "+".join(sorted(f"{c}*({_order(product)})" for product, c in argument.terms))
        for argument in factor.arguments
    )
    return f"{factor.function}({','.join(sorted(inner))})"


def _constant(number: Fraction | int) -> Form:
    return _collected([(frozenset(), Fraction(number))])


def _single(factor: Factor) -> Form:
    return Form(frozenset({(frozenset({(factor, 1)}), Fraction(1))}))


def _sum(forms: Iterable[Form]) -> Form:
    return _collected(term for form in forms for term in form.terms)


def _product(forms: Iterable[Form]) -> Form:
    total = _constant(1)
    for form in forms:
        total = _times(total, form)
    return total


def _times(one: Form, other: Form) -> Form:
    return _collected((_joined(p, q), c * d) for p, c in one.terms for q, d in other.terms)


def _joined(one: Product, other: Product) -> Product:
    powers = dict(one)
    for factor, power in other:
        powers[factor] = powers.get(factor, 0) + power
    return frozenset((factor, power) for factor, power in powers.items() if power)


def _collected(terms: Iterable[tuple[Product, Fraction]]) -> Form:
    total: dict[Product, Fraction] = {}
    for product, coefficient in terms:
        total[product] = total.get(product, Fraction(0)) + coefficient
    return Form(frozenset((product, c) for product, c in total.items() if c))


__all__ = ["Form", "divided_by", "form_of", "is_open", "names_in", "simplest", "value_of"]
