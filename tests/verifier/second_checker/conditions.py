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
from tests.verifier.second_checker.typing_state import Alternatives, DeadError, Item, Outcome, State


class NotYetError(Exception):
    """Something is not known yet, or not seen."""


@dataclass(frozen=True)
class Quotient:
    """A number of groups that is not seen to divide yet: numerator over denominator."""

    numerator: Dimension
    denominator: Dimension


@dataclass(frozen=True)
class Scope:
    """What names in conditions stand for; both raise NotYetError where that is not known."""

    types: Callable[[str], TensorType]
    attributes: Callable[[str], object]

    def value(self, term: ConditionTerm) -> object:
        """What an operand is; raises DeadError where it means nothing."""
        match term:
            case ConditionName(name):
                return self.attributes(name)
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
                shape = self._shape(of)
                if not shape:
                    raise DeadError
                return shape[:-1]
            case "dim", (of, index):
                shape = self._shape(of)
                return shape[self._axis(index, len(shape))]
            case "axis", (of, index):
                return self._axis(index, len(self._shape(of)))
            case "channels", (of,):
                shape = self._shape(of)
                return shape[self._axis(1, len(shape))]
            case "groups", (data, weight):
                return self._groups(data, weight)
            case "outputs_per_group", (data, weight):
                groups = self._groups(data, weight)
                return _quotient(self._shape(weight)[0], groups)
            case "composed", (first, then):
                return self._composed(self.value(first), self.value(then))
            case "product", (one, other):
                return _product(self.value(one), self.value(other))
            case _:
                raise NotYetError(function)

    def _composed(self, first: object, then: object) -> tuple[object, ...]:
        """Axis i of what the first and then the other do is axis first[then[i]]."""
        if not isinstance(first, tuple) or not isinstance(then, tuple):
            raise DeadError
        places, order = cast("tuple[object, ...]", first), cast("tuple[int, ...]", then)
        if not places or sorted(order) != list(range(len(places))):
            raise DeadError
        return tuple(places[axis] for axis in order)

    def of_one_group(self, condition: Condition) -> tuple[Dimension, Dimension] | None:
        """The two sizes that ``groups(x, w) = 1`` makes equal; None for another condition."""
        call = condition.left
        if not isinstance(call, ConditionCall) or call.function != "groups":
            return None
        if (condition.relation, condition.right) != ("=", 1):
            return None
        data, weight = (self._shape(of) for of in call.arguments)
        return data[0 if len(data) == 1 else self._axis(1, len(data))], weight[self._axis(1, len(weight))]

    def _axis(self, index: ConditionTerm, rank: int) -> int:
        value = self.value(index)
        if not isinstance(value, int) or not -rank <= value < rank:
            raise DeadError
        return value % rank

    def _groups(self, data: ConditionTerm, weight: ConditionTerm) -> Dimension:
        both = self._shape(data), self._shape(weight)
        if len(both[1]) < 2:
            raise DeadError
        channels = both[0][0] if len(both[0]) == 1 else both[0][self._axis(1, len(both[0]))]
        return _quotient(channels, both[1][1])

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
    """Of two numbers, or of pairs for rows and columns."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        pairs = cast("tuple[Dimension, ...]", one), cast("tuple[Dimension, ...]", other)
        return tuple(a * b for a, b in zip(*pairs, strict=True))
    if isinstance(one, tuple) or isinstance(other, tuple):
        raise DeadError
    return cast("Dimension", one) * cast("Dimension", other)


def _quotient(numerator: Dimension, denominator: Dimension) -> Dimension:
    if denominator == 0:
        raise DeadError
    quotient = floor_divide(numerator, denominator)
    if quotient * denominator != numerator:
        raise NotYetError
    return quotient


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
    return False


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
    if _is_size(left) and _is_size(right):
        return state.equal(cast("Dimension", left), cast("Dimension", right))
    if left != right:
        raise DeadError
    return True


__all__ = ["NotYetError", "Quotient", "Scope", "assumed", "holds", "names_number", "relates_otherwise"]
