"""Real numbers as Z3 expressions: symbolic execution of an operator gives a formula over its inputs.

The inverse of a polynomial is a separate variable, one of the ``inverses``; the inverse of a product is the
product of inverses, so that quotients are equal where they are equal as polynomials. ``needs`` are the
divisors so far; they are nonzero where the values are defined. ``arguments`` is what holds of those of
logarithms, which are positive there, and of roots, which are not negative. Order becomes if-then-else;
functions outside the ring are uninterpreted, and laws that are simple enough to be always given are kept in
``facts`` (an exponential is positive, a number times its inverse is 1), those of roots and logarithms in
``laws``. Operands of comparisons are given names, so that a question about maxima does not involve products;
``definitions`` maps the names to their expressions, for callers that need them.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# z3 has no parameter types.

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from math import prod
from typing import cast

import numpy as np
import z3

from superopt.domains.base import Array
from superopt.domains.objects import ObjectDomain

_MOST_FACTORS = 6
_PARITIES = {"cos": 1, "erf": -1, "sin": -1}
"""1 for functions that are even, -1 for those that are odd."""


class SymbolicDomain(ObjectDomain):
    """Z3 real expressions. An instance belongs to one Z3 context and one query."""

    def __init__(self, context: z3.Context) -> None:
        super().__init__()
        self._context = context
        self.facts: list[z3.BoolRef] = []
        self.laws: list[z3.BoolRef] = []
        self.definitions: list[z3.BoolRef] = []
        self.needs: list[z3.BoolRef] = []
        self.arguments: list[z3.BoolRef] = []
        self.inverses: list[tuple[z3.ArithRef, z3.ArithRef]] = []
        self._names: dict[int, tuple[z3.ArithRef, z3.ArithRef]] = {}
        self._inverses: dict[int, tuple[z3.ArithRef, z3.ArithRef]] = {}

    def variables(self, name: str, shape: tuple[int, ...]) -> Array:
        """Fresh real variables ``name_i_j`` as a stack of length 1."""
        result = np.empty((1, *shape), object)
        for index in np.ndindex(shape):
            label = "_".join((name, *(str(i) for i in index)))
            result[(0, *index)] = z3.Real(label, self._context)
        return result

    def number(self, value: Fraction) -> object:
        """The rational number as a Z3 value."""
        return z3.Q(value.numerator, value.denominator, self._context)

    def reciprocal(self, array: Array) -> Array:
        """1/x as the product of the inverses of x's factors."""
        return self._each(array, self._inverse)

    def _inverse(self, value: z3.ArithRef) -> z3.ArithRef:
        result: z3.ArithRef = z3.RealVal(1, self._context)
        for own in _factors(self._normal(value)):
            exponent, factor = self._without_common_exponentials(own)
            if not factor.eq(own):
                result = _number(result * self._exponential(_number(-exponent)) * self._inverse(factor))
                continue
            inverse = result / factor if z3.is_rational_value(factor) else result * self._inverted(factor)
            result = _number(inverse)
            if factor.decl().name() != "exp":
                self.needs.append(cast("z3.BoolRef", factor != z3.RealVal(0, self._context)))
        return result

    def without_cancelling_exponentials(self, value: z3.ArithRef) -> z3.ArithRef:
        """The polynomial in which no exponential is multiplied by its inverse."""
        polynomial = self._normal(value)
        summands = cast("list[z3.ArithRef]", polynomial.children()) if z3.is_add(polynomial) else [polynomial]
        total: z3.ArithRef = z3.RealVal(0, self._context)
        for summand in summands:
            product, powers, bases = self._powers_of_exponentials(summand)
            for key, power in powers.items():
                base = bases[key] if power > 0 else self._inverted(bases[key])
                product = reduce(_times, [base] * abs(power), product)
            total = _number(total + product)
        return self._normal(total)

    def _powers_of_exponentials(
        self, monomial: z3.ArithRef
    ) -> tuple[z3.ArithRef, Counter[int], dict[int, z3.ArithRef]]:
        """The product of the other factors, and the power of each exponential, which is negative for its
        inverse; exponentials by the key of their powers."""
        product, powers = _number(z3.RealVal(1, self._context)), Counter[int]()
        bases: dict[int, z3.ArithRef] = {}
        for factor in _factors(monomial):
            found = self._exponential_in(factor)
            if found is None:
                product = _number(product * factor)
            else:
                base, power = found
                bases[base.get_id()] = base
                powers[base.get_id()] += power
        return product, powers, bases

    def _exponential_in(self, factor: z3.ArithRef) -> tuple[z3.ArithRef, int] | None:
        """An exponential with the power 1, or with -1 if the factor is its inverse; None for others."""
        inverted = self._inverse_of(factor)
        base = factor if inverted is None else inverted
        return (base, 1 if inverted is None else -1) if base.decl().name() == "exp" else None

    def _inverted(self, factor: z3.ArithRef) -> z3.ArithRef:
        """The variable for an inverse, unconstrained where the inverse does not exist."""
        key = factor.get_id()
        if key not in self._inverses:
            name = z3.Real(f"inverse_{len(self._inverses)}", self._context)
            self._inverses[key] = (factor, name)
            self.inverses.append((factor, name))
            fact = cast("z3.BoolRef", factor * name == 1)
            if factor.decl().name() != "exp":
                fact = cast("z3.BoolRef", z3.Or(factor == z3.RealVal(0, self._context), fact))
            self.facts.append(fact)
        return self._inverses[key][1]

    def maximum(self, left: Array, right: Array) -> Array:
        """``b + (a - b if a - b >= 0 else 0)``: common parts of both arguments stay outside the condition and
        cancel as polynomials, as in softmax."""
        first, second = np.broadcast_arrays(left, right)
        result = np.empty(first.shape, object)
        zero = z3.RealVal(0, self._context)
        for index in np.ndindex(first.shape):
            a, b = self._real(first[index]), self._real(second[index])
            excess = self._named(_number(a - b))
            result[index] = b + z3.If(excess >= 0, excess, zero)
        return result

    def select(self, condition: Array, left: Array, right: Array) -> Array:
        """An if-then-else for every element."""
        conditions, first, second = np.broadcast_arrays(condition, left, right)
        result = np.empty(first.shape, object)
        for index in np.ndindex(first.shape):
            named = self._named(conditions[index])
            result[index] = z3.If(named > 0, self._real(first[index]), self._real(second[index]))
        return result

    def exp(self, array: Array) -> Array:
        """An uninterpreted function with positive values; for a sum of a few linear terms the product of its
        values for the terms, so that exp(x + y) = exp(x) exp(y) and exp(-x) = 1 / exp(x) hold."""
        return self._each(array, self._exponential)

    def _exponential(self, value: z3.ArithRef) -> z3.ArithRef:
        polynomial = self._normal(value)
        terms = _linear_terms(polynomial)
        if terms is None or len(terms) > _MOST_FACTORS:
            return self._of_half(polynomial)
        result: z3.ArithRef = z3.RealVal(1, self._context)
        for coefficient, term in terms:
            factor = self._positive(term)
            for _ in range(abs(coefficient)):
                result = _number(result * (factor if coefficient > 0 else self._inverse(factor)))
        return result

    def _of_half(self, argument: z3.ArithRef) -> z3.ArithRef:
        """The exponential of what has no small whole coefficients; its square is that of twice the
        argument."""
        value, twice = self._positive(argument), self._normal(2 * argument)
        if _linear_terms(twice) is not None:
            self.laws.append(cast("z3.BoolRef", value * value == self._exponential(twice)))
        return value

    def _positive(self, argument: z3.ArithRef) -> z3.ArithRef:
        """The exponential of what is no sum; that of a logarithm is the argument of the logarithm."""
        if argument.decl().name() == "log":
            return cast("z3.ArithRef", argument.arg(0))
        value = self._function("exp", argument)
        self.facts.append(value > 0)
        return value

    def sqrt(self, array: Array) -> Array:
        """An uninterpreted function; it is not negative, and its square is the argument."""
        return self._each(array, self._root)

    def _root(self, value: z3.ArithRef) -> z3.ArithRef:
        argument = self._normal(value)
        root = self._function("sqrt", argument)
        self.arguments.append(argument >= 0)
        law = z3.Or(argument < 0, z3.And(root >= 0, root * root == argument))
        self.laws.append(cast("z3.BoolRef", law))
        return root

    def apply(self, function: str, array: Array, parameters: tuple[Fraction, ...] = ()) -> Array:
        """An uninterpreted function for every name and its parameters. The logarithm of a product is a sum
        of logarithms: of exponentials always, of other factors where all of them are positive. ``erf`` and
        ``sin`` are odd, ``cos`` is even."""
        if function == "log":
            return self._each(array, self._logarithm)
        if function in _PARITIES:
            return self._each(array, lambda x: self._odd_or_even(function, x))
        name = "_".join((function, *(str(p) for p in parameters)))
        return self._each(array, lambda x: self._function(name, self._normal(x)))

    def _odd_or_even(self, function: str, value: z3.ArithRef) -> z3.ArithRef:
        argument = self._normal(value)
        if _is_negative(argument):
            of_positive = self._function(function, self._normal(-argument))
            return _number(_PARITIES[function] * of_positive)
        return self._function(function, argument)

    def _logarithm(self, value: z3.ArithRef) -> z3.ArithRef:
        argument = self._normal(value)
        self.arguments.append(argument > 0)
        return self._logarithm_of(argument)

    def _logarithm_of(self, argument: z3.ArithRef) -> z3.ArithRef:
        """The exponents of all factors that are exponentials, and the logarithm of the others."""
        result: z3.ArithRef = z3.RealVal(0, self._context)
        if argument.eq(z3.RealVal(1, self._context)):
            return result
        others: list[z3.ArithRef] = []
        for factor in _factors(argument):
            found = self._exponential_in(factor)
            if found is None:
                others.append(factor)
            else:
                base, power = found
                result = _number(result + power * cast("z3.ArithRef", base.arg(0)))
        if len(others) > 1:
            return _number(result + self._logarithm_of_product(others))
        for other in others:
            common, rest = self._without_common_exponentials(other)
            result = _number(result + common + self._logarithm_of_factor(rest))
        return result

    def _logarithm_of_product(self, factors: list[z3.ArithRef]) -> z3.ArithRef:
        """A function of the product; the sum of all logarithms where all factors are positive."""
        product, total = (z3.RealVal(number, self._context) for number in (1, 0))
        for factor in factors:
            product, total = _number(product * factor), _number(total + self._logarithm_of(factor))
        value = self._function("log", self._normal(product))
        law = z3.Or(*(factor <= 0 for factor in factors), value == total)
        self.laws.append(cast("z3.BoolRef", law))
        return value

    def _logarithm_of_factor(self, factor: z3.ArithRef) -> z3.ArithRef:
        """That of an inverse is the negative one, that of a root the half."""
        inverted = self._inverse_of(factor)
        if inverted is not None:
            return _number(-self._logarithm_of(inverted))
        if factor.decl().name() == "sqrt":
            return _number(self._logarithm_of(cast("z3.ArithRef", factor.arg(0))) / 2)
        return self._function("log", factor)

    def _inverse_of(self, name: z3.ArithRef) -> z3.ArithRef | None:
        """What the variable is the inverse of; None if it is none."""
        return next((factor for factor, own in self.inverses if own.eq(name)), None)

    def _without_common_exponentials(self, polynomial: z3.ArithRef) -> tuple[z3.ArithRef, z3.ArithRef]:
        """An exponent and the rest of a sum that is the product of its exponential and the rest, in which no
        inverse of an exponential occurs, and no exponential in all summands."""
        exponent: z3.ArithRef = z3.RealVal(0, self._context)
        if not z3.is_add(polynomial):
            return exponent, polynomial
        bases: dict[int, z3.ArithRef] = {}
        products: list[tuple[z3.ArithRef, Counter[int]]] = []
        for summand in cast("list[z3.ArithRef]", polynomial.children()):
            product, powers, own = self._powers_of_exponentials(summand)
            bases |= own
            products.append((product, powers))
        rest: z3.ArithRef = z3.RealVal(0, self._context)
        least = {key: min(powers[key] for _, powers in products) for key in bases}
        for product, powers in products:
            left = [bases[key] for key in bases for _ in range(powers[key] - least[key])]
            rest = _number(rest + reduce(_times, left, product))
        for key, power in least.items():
            exponent = _number(exponent + power * cast("z3.ArithRef", bases[key].arg(0)))
        return exponent, self._normal(rest)

    def _function(self, name: str, argument: z3.ArithRef) -> z3.ArithRef:
        real = z3.RealSort(self._context)
        return _number(z3.Function(name, real, real)(argument))

    def _each(self, array: Array, function: Callable[[z3.ArithRef], z3.ArithRef]) -> Array:
        result = np.empty(array.shape, object)
        for index in np.ndindex(array.shape):
            result[index] = function(self._real(array[index]))
        return result

    def _named(self, value: object) -> z3.ArithRef:
        """A variable for a polynomial with products, the same for equal polynomials."""
        polynomial = self._normal(value)
        parts = cast("list[z3.ExprRef]", polynomial.children())
        if not any(map(_is_product, (polynomial, *parts))):
            return polynomial
        key = polynomial.get_id()
        if key not in self._names:
            name = z3.Real(f"named_{len(self._names)}", self._context)
            self._names[key] = (polynomial, name)
            self.definitions.append(cast("z3.BoolRef", name == polynomial))
        return self._names[key][1]

    def _normal(self, value: object) -> z3.ArithRef:
        """The polynomial as a sorted sum of monomials."""
        return cast("z3.ArithRef", z3.simplify(self._real(value), som=True, sort_sums=True))

    def _real(self, value: object) -> z3.ArithRef:
        """An empty sum is a plain integer."""
        return value if isinstance(value, z3.ArithRef) else z3.RealVal(value, self._context)


def _is_product(expression: z3.ExprRef) -> bool:
    if not z3.is_mul(expression):
        return False
    parts = cast("list[z3.ExprRef]", expression.children())
    return sum(not z3.is_rational_value(part) for part in parts) > 1


def _factors(polynomial: z3.ArithRef) -> list[z3.ArithRef]:
    """The factors of a monomial, with powers expanded; any other polynomial is its own factor."""
    if z3.is_mul(polynomial):
        return [own for part in cast("list[z3.ArithRef]", polynomial.children()) for own in _factors(part)]
    if polynomial.decl().kind() == z3.Z3_OP_POWER:
        base, exponent = cast("list[z3.ArithRef]", polynomial.children())
        if z3.is_rational_value(exponent):
            power = cast("z3.RatNumRef", exponent).as_fraction()
            if power.denominator == 1 and 0 < power <= _MOST_FACTORS:
                return _factors(base) * int(power)
    return [polynomial]


def _linear_terms(polynomial: z3.ArithRef) -> list[tuple[int, z3.ArithRef]] | None:
    """(coefficient, term) for each term of a sum without products and with small integer coefficients, else
    None."""
    summands = cast("list[z3.ArithRef]", polynomial.children()) if z3.is_add(polynomial) else [polynomial]
    found: list[tuple[int, z3.ArithRef]] = []
    for summand in summands:
        coefficient, term = Fraction(1), summand
        if z3.is_mul(summand):
            parts = cast("list[z3.ArithRef]", summand.children())
            if len(parts) != 2 or not z3.is_rational_value(parts[0]):
                return None
            coefficient, term = cast("z3.RatNumRef", parts[0]).as_fraction(), parts[1]
        if z3.is_rational_value(summand) and cast("z3.RatNumRef", summand).as_fraction() == 0:
            continue
        if coefficient.denominator != 1 or abs(coefficient) > _MOST_FACTORS:
            return None
        found.append((int(coefficient), term))
    return found


def _is_negative(polynomial: z3.ArithRef) -> bool:
    """Whether one summand has a negative coefficient: the same one of a polynomial and of its negative."""
    summands = cast("list[z3.ArithRef]", polynomial.children()) if z3.is_add(polynomial) else [polynomial]
    coefficients: dict[tuple[int, ...], Fraction] = {}
    for summand in summands:
        parts = cast("list[z3.ArithRef]", summand.children()) if z3.is_mul(summand) else [summand]
        numbers = [cast("z3.RatNumRef", part).as_fraction() for part in parts if z3.is_rational_value(part)]
        monomial = tuple(part.get_id() for part in parts if not z3.is_rational_value(part))
        coefficients[monomial] = prod(numbers, start=Fraction(1))
    return coefficients[max(coefficients)] < 0


def _times(left: z3.ArithRef, right: z3.ArithRef) -> z3.ArithRef:
    return _number(left * right)


def _number(expression: object) -> z3.ArithRef:
    return cast("z3.ArithRef", expression)
