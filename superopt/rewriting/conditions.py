"""Evaluate ``where`` clauses over attributes, ranks and dimensions; undecidable means not fulfilled."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from fractions import Fraction
from typing import TypeAlias, cast

from superopt.errors import IllTypedError, InvalidEquationError
from superopt.ir.dimensions import Dimension, SymbolicDimension, floor_divide, symbol
from superopt.ir.numbers import NumberExpression, names_of, substituted_number
from superopt.ir.terms import (
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    VariableType,
)
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME, TensorType

_PARITY = "parity of "
_QUOTIENT = "quotient of "
Quantity: TypeAlias = "Dimension | Fraction | str | tuple[Dimension, ...] | TensorType"


def holds(condition: Condition, types: Mapping[str, TensorType], attributes: Mapping[str, object]) -> bool:
    """Whether the clause holds; an undecidable one about symbols does not, nor one that divides by 0. Raises
    InvalidEquationError for an unknown name or function."""
    try:
        return _holds(condition, types, attributes)
    except IllTypedError:
        return False


def _holds(condition: Condition, types: Mapping[str, TensorType], attributes: Mapping[str, object]) -> bool:
    left = _quantity(condition.left, types, attributes)
    if condition.right is None:
        return left == 1
    right = _quantity(condition.right, types, attributes)
    if condition.relation == "=":
        return left == right
    if isinstance(left, int | Fraction) and isinstance(right, int | Fraction):
        return _ORDER[condition.relation](left, right)
    if isinstance(left, int | SymbolicDimension) and isinstance(right, int | SymbolicDimension):
        difference = left - right
        return isinstance(difference, int) and _ORDER[condition.relation](difference, 0)
    if isinstance(left, str) != isinstance(right, str):
        return condition.relation == "!="
    return condition.relation == "!=" and left != right and not _is_symbolic(left) and not _is_symbolic(right)


class Decision(enum.Enum):
    """Decision of a clause for symbolic sizes. ``OPEN`` is one that may hold for some sizes only, which is
    not said by equal sizes."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


def decide(
    condition: Condition, types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> Decision | tuple[Dimension, Dimension]:
    """Whether the clause holds for all values of its symbols, or two sizes that must be equal for it to hold.
    Raises InvalidEquationError for an unknown name or function."""
    if holds(condition, types, attributes):
        return Decision.HOLDS
    if _is_about_parity(condition, types, attributes):
        return Decision.OPEN
    match condition:
        case Condition(
            ConditionCall("groups", (ConditionName(data), ConditionName(weight))), "=", int(number)
        ) if number > 0:
            if types[data].rank > 1 and types[weight].rank > 1:
                channels, per_group = types[data].shape[1], types[weight].shape[1] * number
                return Decision.FAILS if isinstance(channels - per_group, int) else (channels, per_group)
        case _:
            pass
    left = _quantity(condition.left, types, attributes)
    right = 1 if condition.right is None else _quantity(condition.right, types, attributes)
    if condition.relation in ("", "="):
        return _equality(left, right)
    return Decision.OPEN if _is_symbolic(left) or _is_symbolic(right) else Decision.FAILS


def _is_about_parity(
    condition: Condition, types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> bool:
    """Whether the clause asks if a size that is a symbol is odd or even."""
    sides = [condition.left] if condition.right is None else [condition.left, condition.right]
    values = (_quantity(side, types, attributes) for side in sides)
    numbers = (part for value in values for part in (value if isinstance(value, tuple) else (value,)))
    return any(_has_symbol(number, _PARITY) for number in numbers)


def _equality(left: Quantity, right: Quantity) -> Decision | tuple[Dimension, Dimension]:
    """The decision of an equality that does not hold for all values of its symbols: two sizes that must be
    equal for it to hold, or that it holds for none."""
    if isinstance(left, TensorType) and isinstance(right, TensorType) and left.element is right.element:
        left, right = left.shape, right.shape
    if isinstance(left, tuple) != isinstance(right, tuple):
        return Decision.FAILS
    ours: tuple[object, ...] = left if isinstance(left, tuple) else (left,)
    theirs: tuple[object, ...] = right if isinstance(right, tuple) else (right,)
    unequal = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
    if len(ours) != len(theirs) or not unequal:
        return Decision.FAILS
    one, other = unequal[0]
    if not isinstance(one, int | SymbolicDimension) or not isinstance(other, int | SymbolicDimension):
        return Decision.FAILS
    if _has_symbol(one, _QUOTIENT) or _has_symbol(other, _QUOTIENT):
        return Decision.OPEN  # where it is not whole, there are 0 groups
    return Decision.FAILS if isinstance(one, int) and isinstance(other, int) else (one, other)


def _has_symbol(size: object, prefix: str) -> bool:
    return isinstance(size, SymbolicDimension) and any(name.startswith(prefix) for name in size.symbols)


def odd_sizes(
    conditions: Iterable[Condition], types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> Iterator[Dimension]:
    """The sizes that clauses require to be odd."""
    for condition in conditions:
        match condition:
            case Condition(ConditionCall("odd", (argument,)), "", None):
                yield from _numbers(_quantity(argument, types, attributes))
            case _:
                pass


def as_declared(declarations: Iterable[tuple[str, VariableType]], types: Mapping[str, TensorType]) -> bool:
    """Whether the variables' types match an equation's declarations; equal names are equal sizes."""
    sizes: dict[str, Dimension] = {}
    for name, declared in declarations:
        type_ = types.get(name)
        if type_ is None:
            continue
        if type_.element is not ELEMENT_TYPES_BY_SHORT_NAME.get(declared.element):
            return False
        if type_.rank != len(declared.shape):
            return False
        for size, dimension in zip(declared.shape, type_.shape, strict=True):
            expected = size if isinstance(size, int) else sizes.setdefault(size, dimension)
            if expected != dimension:
                return False
    return True


def why_undecidable(condition: Condition, names: Set[str]) -> str | None:
    """Why the clause is meaningless if only these names are known; None if it is not."""
    for operand in (condition.left, condition.right):
        reason = None if operand is None else _why_undecidable(operand, names)
        if reason is not None:
            return reason
    return None


def _why_undecidable(term: ConditionTerm, names: Set[str]) -> str | None:
    match term:
        case ConditionName(name):
            return None if name in names else f"the condition names {name}, which the source does not have"
        case ConditionCall(function, arguments):
            arity = _ARITIES.get(function)
            if arity is None:
                return f"unknown function {function} in a condition; known: {', '.join(sorted(FUNCTIONS))}"
            if len(arguments) != arity:
                return f"{function} takes {arity} arguments in a condition, got {len(arguments)}"
            return next((reason for a in arguments if (reason := _why_undecidable(a, names))), None)
        case NumberExpression():
            missing = sorted(names_of(term) - names)
            return f"the condition names {missing[0]}, which the source does not have" if missing else None
        case _:
            return None


def is_computation(condition: Condition) -> bool:
    """Whether the clause defines an attribute by others: ``r = composed(q, p)``."""
    return isinstance(condition.right, ConditionCall) and condition.right.function in COMPUTING


def computed(conditions: Iterable[Condition], attributes: Mapping[str, object]) -> dict[str, object]:
    """Values of unassigned names that clauses define by other attributes."""
    found: dict[str, object] = {}
    for condition in conditions:
        match condition:
            case Condition(ConditionName(name), "=", ConditionCall() as call) if is_computation(condition):
                known = name not in attributes and _names(call) <= attributes.keys()
                value = _quantity(call, {}, attributes) if known else 0
                if value != 0:
                    found[name] = value
            case _:
                pass
    return found


def names_in(condition: Condition) -> frozenset[str]:
    """All names of tensors and attributes in the clause."""
    operands = [condition.left] if condition.right is None else [condition.left, condition.right]
    return frozenset[str]().union(*(_names(operand) for operand in operands))


def _names(term: ConditionTerm) -> frozenset[str]:
    match term:
        case ConditionName(name):
            return frozenset((name,))
        case ConditionCall(_, arguments):
            return frozenset[str]().union(*(_names(argument) for argument in arguments))
        case _:
            return names_of(term)


def _is_symbolic(quantity: Quantity) -> bool:
    parts = quantity if isinstance(quantity, tuple) else (quantity,)
    return any(isinstance(part, SymbolicDimension | TensorType) for part in parts)


def _quantity(
    term: ConditionTerm, types: Mapping[str, TensorType], attributes: Mapping[str, object]
) -> Quantity:
    match term:
        case ConditionName(name):
            if name in types:
                return types[name]
            if name in attributes:
                return cast("Quantity", attributes[name])
            raise InvalidEquationError(f"where: unknown name {name}")
        case ConditionCall(function, arguments):
            implementation = FUNCTIONS.get(function)
            if implementation is None:
                raise InvalidEquationError(
                    f"where: unknown function {function}; known: {', '.join(sorted(FUNCTIONS))}"
                )
            return implementation(*(_quantity(argument, types, attributes) for argument in arguments))
        case NumberExpression():
            missing = sorted(names_of(term) - attributes.keys())
            if missing:
                raise InvalidEquationError(f"where: unknown number {missing[0]}")
            return cast("Quantity", substituted_number(term, attributes))
        case _:
            return term


def _rank(*arguments: Quantity) -> Quantity:
    return _tensor("rank", arguments, 0).rank


def _shape(*arguments: Quantity) -> Quantity:
    """The sizes of a tensor, or of a shape attribute: ``shape(x) = s``."""
    return arguments[0] if isinstance(arguments[0], tuple) else _tensor("shape", arguments, 0).shape


def _leading(*arguments: Quantity) -> Quantity:
    """All sizes but the last."""
    return cast("tuple[Dimension, ...]", _shape(*arguments))[:-1]


def _dim(*arguments: Quantity) -> Quantity:
    sizes, axis = cast("tuple[Dimension, ...]", _shape(*arguments)), arguments[1]
    if not isinstance(axis, int):
        raise InvalidEquationError(f"where: dim takes an axis, got {axis}")
    return sizes[axis] if -len(sizes) <= axis < len(sizes) else 0


def _axis(*arguments: Quantity) -> Quantity:
    """An axis of a tensor as a non-negative number, for comparison; -1 if out of range."""
    tensor, axis = _tensor("axis", arguments, 0), arguments[1]
    return axis % tensor.rank if isinstance(axis, int) and -tensor.rank <= axis < tensor.rank else -1


def _channels(*arguments: Quantity) -> Quantity:
    tensor = _tensor("channels", arguments, 0)
    return tensor.shape[1] if tensor.rank > 1 else 0


def _groups(*arguments: Quantity) -> Quantity:
    """The number of groups: channels divided by channels per group; 0 if not whole."""
    data, weight = _tensor("groups", arguments, 0), _tensor("groups", arguments, 1)
    if data.rank < 2 or weight.rank < 2 or weight.shape[1] == 0:
        return 0
    return _quotient(data.shape[1], weight.shape[1])


def _outputs_per_group(*arguments: Quantity) -> Quantity:
    """The outputs per group of a convolution; 0 if there are no groups."""
    groups = cast("Dimension", _groups(*arguments))
    return 0 if groups == 0 else _quotient(_tensor("outputs_per_group", arguments, 1).shape[0], groups)


def _quotient(numerator: Dimension, denominator: Dimension) -> Dimension:
    """The quotient; 0 where sizes are numbers and it is not whole. Where it is not known to be whole, a
    symbol of its own, which equals no other."""
    quotient = floor_divide(numerator, denominator)
    if quotient * denominator == numerator:
        return quotient
    numbers = isinstance(numerator, int) and isinstance(denominator, int)
    return 0 if numbers else symbol(f"{_QUOTIENT}{numerator} by {denominator}")


def _composed(*arguments: Quantity) -> Quantity:
    """The composition of two permutations; 0 if there is none."""
    first, then = arguments
    if not isinstance(first, tuple) or not isinstance(then, tuple) or len(first) != len(then) or not first:
        return 0
    if not all(isinstance(axis, int) and axis < len(first) for axis in then):
        return 0
    return tuple(first[cast("int", axis)] for axis in then)


def _product(*arguments: Quantity) -> Quantity:
    """The product of two numbers, or of two pairs for rows and columns; 0 if there is none."""
    one, other = arguments
    if isinstance(one, tuple) and isinstance(other, tuple):
        pairs = zip(one, other, strict=True) if len(one) == len(other) else ()
        return tuple(a * b for a, b in pairs) or 0
    if not isinstance(one, int | SymbolicDimension) or not isinstance(other, int | SymbolicDimension):
        return 0
    return one * other


def _odd(*arguments: Quantity) -> Quantity:
    return _all_leave(1, arguments[0])


def _even(*arguments: Quantity) -> Quantity:
    return _all_leave(0, arguments[0])


def _all_leave(remainder: int, quantity: Quantity) -> Quantity:
    """Return 1 or 0. For symbolic sizes, return a symbol of their own, which equals no other."""
    numbers = _numbers(quantity)
    if all(isinstance(number, int) for number in numbers):
        return int(all(cast("int", number) % 2 == remainder for number in numbers))
    return symbol(f"{_PARITY}{', '.join(map(str, numbers))} as {remainder}")


def _numbers(quantity: Quantity) -> tuple[Dimension, ...]:
    if isinstance(quantity, tuple):
        return quantity
    if isinstance(quantity, Fraction | str | TensorType):
        raise InvalidEquationError(f"where: expected a whole number, got {quantity}")
    return (quantity,)


def _tensor(function: str, arguments: tuple[Quantity, ...], index: int) -> TensorType:
    if index >= len(arguments) or not isinstance(arguments[index], TensorType):
        raise InvalidEquationError(f"where: {function} takes a tensor as argument {index + 1}")
    return cast("TensorType", arguments[index])


FUNCTIONS: Mapping[str, Callable[..., Quantity]] = {
    "axis": _axis,
    "channels": _channels,
    "composed": _composed,
    "dim": _dim,
    "even": _even,
    "groups": _groups,
    "leading": _leading,
    "odd": _odd,
    "outputs_per_group": _outputs_per_group,
    "product": _product,
    "rank": _rank,
    "shape": _shape,
}

_ARITIES: Mapping[str, int] = {
    "axis": 2,
    "channels": 1,
    "composed": 2,
    "dim": 2,
    "even": 1,
    "groups": 2,
    "leading": 1,
    "odd": 1,
    "outputs_per_group": 2,
    "product": 2,
    "rank": 1,
    "shape": 1,
}

COMPUTING = frozenset(("composed", "product"))
"""Functions of attributes only: a clause ``r = composed(q, p)`` defines r."""

_ORDER: Mapping[str, Callable[[int | Fraction, int | Fraction], bool]] = {
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
