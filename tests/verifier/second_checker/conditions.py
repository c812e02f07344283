"""What ``where`` says, of types with symbols for sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from superopt.ir.dimensions import Dimension, SymbolicDimension, floor_divide
from superopt.ir.numbers import NumberExpression
from superopt.ir.terms import Condition, ConditionCall, ConditionName, ConditionTerm
from superopt.ir.types import TensorType
from tests.verifier.second_checker.numbers import names_in, value_of
from tests.verifier.second_checker.sizes import is_positive
from tests.verifier.second_checker.typing_state import (
    Alternatives,
    DeadError,
    Item,
    Outcome,
    State,
    equal_types,
)


class NotYetError(Exception):
    """Something is not known yet, or not seen."""


@dataclass(frozen=True)
class Scope:
    """What names in conditions stand for; both raise NotYetError where that is not known."""

    types: Callable[[str], TensorType]
    attributes: Callable[[str], object]

    def value(self, term: ConditionTerm) -> object:
        """What an operand is; raises DeadError where it means nothing."""
        match term:
            case ConditionName(name):
                try:
                    return self.attributes(name)
                except KeyError:
                    return self.types(name)
            case ConditionCall(function, arguments):
                return self._call(function, arguments)
            case NumberExpression():
                return value_of(term, {name: self.attributes(name) for name in names_in(term)})
            case _:
                return term

    def _call(self, function: str, arguments: tuple[ConditionTerm, ...]) -> object:
        match function, arguments:
            case "rank", (of,):
                return len(self._shape(of))
            case "shape", (of,):
                return self._shape(of)
            case "leading", (of,):
                return self._shape(of)[:-1]
            case "dim", (of, index):
                return self._dim(of, self._number(index))
            case "axis", (of, index):
                axis, rank = self._number(index), len(self._shape(of))
                return axis % rank if -rank <= axis < rank else -1
            case "channels", (of,):
                return self._dim(of, 1)
            case "groups", (data, weight):
                return self._groups(data, weight)
            case "outputs_per_group", (data, weight):
                groups = self._groups(data, weight)
                return 0 if groups == 0 else _quotient(self._shape(weight)[0], groups)
            case "composed", (first, then):
                return self._composed(self.value(first), self.value(then))
            case "product", (one, other):
                return _product(self.value(one), self.value(other))
            case _:
                raise NotYetError(function)

    def _composed(self, first: object, then: object) -> object:
        """Axis i of what the first and then the other do is axis first[then[i]]; 0 if there is none."""
        if not isinstance(first, tuple) or not isinstance(then, tuple):
            return 0
        places, order = cast("tuple[object, ...]", first), cast("tuple[object, ...]", then)
        if not places or len(places) != len(order):
            return 0
        axes = [axis for axis in order if isinstance(axis, int) and axis < len(places)]
        return tuple(places[axis] for axis in axes) if len(axes) == len(order) else 0

    def of_one_group(self, condition: Condition) -> tuple[Dimension, Dimension] | None:
        """The two sizes that ``groups(x, w) = 1`` makes equal; None for another condition; raises DeadError
        where there are no groups."""
        call = condition.left
        if not isinstance(call, ConditionCall) or call.function != "groups":
            return None
        if (condition.relation, condition.right) != ("=", 1):
            return None
        channels, per_group = (self._dim(of, 1) for of in call.arguments)
        if channels == 0 or per_group == 0:
            raise DeadError
        return channels, per_group

    def _dim(self, of: ConditionTerm, axis: int) -> Dimension:
        """The size of an axis; 0 if there is no such axis."""
        shape = self._shape(of)
        return shape[axis] if -len(shape) <= axis < len(shape) else 0

    def _number(self, index: ConditionTerm) -> int:
        value = self.value(index)
        if not isinstance(value, int):
            raise NotYetError
        return value

    def _groups(self, data: ConditionTerm, weight: ConditionTerm) -> Dimension:
        """Channels by channels of a group; 0 if that is not whole."""
        channels, per_group = self._dim(data, 1), self._dim(weight, 1)
        return 0 if channels == 0 or per_group == 0 else _quotient(channels, per_group)

    def _shape(self, of: ConditionTerm) -> tuple[Dimension, ...]:
        if not isinstance(of, ConditionName):
            raise NotYetError
        try:
            value = self.attributes(of.name)
        except KeyError:
            return self.types(of.name).shape
        if not isinstance(value, tuple):
            raise DeadError
        return cast("tuple[Dimension, ...]", value)


def _product(one: object, other: object) -> object:
    """Of two numbers, or of pairs for rows and columns; 0 if there is none."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        left, right = cast("tuple[Dimension, ...]", one), cast("tuple[Dimension, ...]", other)
        return tuple(a * b for a, b in zip(left, right, strict=True)) if len(left) == len(right) else 0
    if _is_size(one) and _is_size(other):
        return cast("Dimension", one) * cast("Dimension", other)
    return 0


def _quotient(numerator: Dimension, denominator: Dimension) -> Dimension:
    """The quotient; 0 where it is not whole; raises NotYetError where that is not known."""
    quotient = floor_divide(numerator, denominator)
    if quotient * denominator == numerator:
        return quotient
    if isinstance(numerator, int) and isinstance(denominator, int):
        return 0
    raise NotYetError


def holds(condition: Condition, scope: Scope, positive: Sequence[Dimension], odd: set[Dimension]) -> bool:
    """Whether the condition is seen to hold."""
    try:
        if not condition.relation:
            return _holds_alone(condition.left, scope, odd)
        assert condition.right is not None
        left, right = scope.value(condition.left), scope.value(condition.right)
    except (NotYetError, DeadError):
        return False
    return _related(left, condition.relation, right, positive)


def _holds_alone(term: ConditionTerm, scope: Scope, odd: set[Dimension]) -> bool:
    if not isinstance(term, ConditionCall) or term.function not in ("odd", "even"):
        return False
    value = scope.value(term.arguments[0])
    numbers = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    wanted = int(term.function == "odd")
    for number in numbers:
        if isinstance(number, int):
            if number % 2 != wanted:
                return False
        elif not (isinstance(number, SymbolicDimension) and wanted and number in odd):
            return False
    return True


def _related(left: object, relation: str, right: object, positive: Sequence[Dimension]) -> bool:
    if relation == "=":
        return _same(left, right)
    if isinstance(left, int | Fraction) and isinstance(right, int | Fraction):
        return _compared(Fraction(left), relation, Fraction(right))
    if _is_size(left) and _is_size(right):
        difference = cast("Dimension", right) - cast("Dimension", left)
        match relation:
            case "<":
                return is_positive(difference, positive)
            case "<=":
                return difference == 0 or is_positive(difference + 1, positive)
            case ">":
                return is_positive(-difference, positive)
            case ">=":
                return difference == 0 or is_positive(1 - difference, positive)
            case _:
                return is_positive(difference, positive) or is_positive(-difference, positive)
    if relation == "!=" and not _symbolic(left) and not _symbolic(right):
        return left != right
    return False


def _same(left: object, right: object) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left == right
    return left == right


def _symbolic(value: object) -> bool:
    if isinstance(value, TensorType):
        return True
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return any(isinstance(part, SymbolicDimension) for part in parts)


def _is_size(value: object) -> bool:
    return isinstance(value, int | SymbolicDimension)


def _compared(left: Fraction, relation: str, right: Fraction) -> bool:
    match relation:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case _:
            return left != right


def assumed(
    condition: Condition, scope_of: Callable[[State], Scope], numbers: Mapping[str, Fraction]
) -> Item:
    """A condition of the rule, which cuts cases down to those in which it holds."""

    def item(state: State) -> Outcome:
        if names_number(condition, numbers):
            return True
        scope = scope_of(state)
        try:
            if not condition.relation:
                return _assumed_alone(condition, scope, state)
            assert condition.right is not None
            pair = scope.of_one_group(condition)
            if pair is not None:
                return state.equal(*pair)
            left, right = scope.value(condition.left), scope.value(condition.right)
        except NotYetError:
            return False
        return _assumed(left, condition.relation, right, state)

    return item


def names_number(condition: Condition, numbers: Mapping[str, Fraction]) -> bool:
    """Whether a condition is about an open number and a number: of no consequence for types."""
    sides = (condition.left, condition.right)
    named = [_number_names(side) for side in sides]
    return any(named) and all(
        each <= numbers.keys() if each else isinstance(side, int | Fraction)
        for side, each in zip(sides, named, strict=True)
    )


def _number_names(side: ConditionTerm | None) -> frozenset[str]:
    return frozenset((side.name,)) if isinstance(side, ConditionName) else names_in(side)


def relates_otherwise(condition: Condition, names: Collection[str]) -> bool:
    """Whether a condition relates one of these attributes to more than numbers."""
    waiting: list[ConditionTerm | None] = [condition.left, condition.right]
    found: list[ConditionTerm] = []
    while waiting:
        term = waiting.pop()
        if term is not None:
            found.append(term)
        if isinstance(term, ConditionCall):
            waiting += term.arguments
    named = [_number_names(term) for term in found]
    return any(each & set(names) for each in named) and not all(
        each <= set(names) if each else isinstance(term, int | Fraction)
        for term, each in zip(found, named, strict=True)
    )


def _assumed_alone(condition: Condition, scope: Scope, state: State) -> Outcome:
    term = condition.left
    if not isinstance(term, ConditionCall) or term.function not in ("odd", "even"):
        return False
    value = scope.value(term.arguments[0])
    for number in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
        if isinstance(number, int):
            if number % 2 != int(term.function == "odd"):
                raise DeadError
        elif isinstance(number, SymbolicDimension):
            if term.function == "odd":
                state.odd.add(number)
        else:
            raise DeadError
    return True


def _assumed(left: object, relation: str, right: object, state: State) -> Outcome:
    if relation == "=":
        return _made_equal(left, right, state)
    if not _symbolic(left) and not _symbolic(right):
        if _related(left, relation, right, ()):
            return True
        raise DeadError
    if _related(left, relation, right, state.positive):
        return True
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}.get(relation)
    if opposite is not None and _related(left, opposite, right, state.positive):
        raise DeadError
    return None


def _made_equal(left: object, right: object, state: State) -> Outcome:
    if isinstance(left, tuple) and isinstance(right, tuple):
        ours, theirs = cast("tuple[object, ...]", left), cast("tuple[object, ...]", right)
        if len(ours) != len(theirs):
            raise DeadError
        waits = False
        for a, b in zip(ours, theirs, strict=True):
            outcome = _made_equal(a, b, state)
            if isinstance(outcome, Alternatives):
                return outcome
            waits = waits or not outcome
        return not waits
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        return equal_types(state, left, right)
    if _is_size(left) and _is_size(right):
        return state.equal(cast("Dimension", left), cast("Dimension", right))
    if left != right:
        raise DeadError
    return True


__all__ = ["NotYetError", "Scope", "assumed", "holds", "names_number", "relates_otherwise"]
