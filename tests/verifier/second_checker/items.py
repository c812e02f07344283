"""What has to be found of each term: ranks of variables, attributes, sizes that are left out, the type."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.ir.dimensions import Dimension, floor_divide, symbol
from superopt.ir.terms import Application, AttributeVariable, Term, Variable, VariableType, applications
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME, ElementType, ShardedType, TensorType
from superopt.ops import OPERATORS, Operator
from superopt.ops.shape import Half
from tests.verifier.second_checker.degrees import divided_sizes
from tests.verifier.second_checker.demands import PARALLEL, divided_variable
from tests.verifier.second_checker.numbers import names_in
from tests.verifier.second_checker.typing_state import (
    Alternatives,
    Change,
    Item,
    Key,
    Outcome,
    State,
    UnknownCasesError,
    typed,
)

WORDS = {
    "activation": ("none", "relu", "sigmoid", "tanh"),
    "approximate": ("none", "tanh"),
    "includes_padding": (0, 1),
}
PAIRS = ("kernel", "stride", "dilation")
SINGLE, ANY = "single", "any"
SOLVE, ATTRIBUTE, VARIABLE, IMPLICIT = range(4)


def variable(key: Key, declared: VariableType | None, terms: Sequence[Term]) -> Item:
    """The type of a variable of the rule: each rank, and divided as the operators right above it ask for."""
    _, term = key
    assert isinstance(term, Variable)
    name = term.name

    def item(state: State) -> Outcome:
        if key in state.types:
            return True
        return Alternatives(VARIABLE, tuple(_of_rank(rank) for rank in state.ranks))

    def _of_rank(rank: int) -> Change:
        def change(state: State) -> None:
            shape = tuple(symbol(f"{name}.{axis}") for axis in range(rank))
            state.types[key] = TensorType(ElementType.FLOAT, shape)

        return change

    def known(state: State) -> Outcome:
        """A declared type, which is that of an undivided tensor."""
        if key in state.types:
            return True
        assert declared is not None
        rank = len(declared.shape)
        made = divided_variable(name, rank, terms, lambda value: _attribute(state, key[0], value))
        if isinstance(made, AttributeVariable):
            settings = (_setting(key[0], made.name, axis) for axis in range(-rank, rank))
            return Alternatives(ATTRIBUTE, tuple(settings))
        if isinstance(made, ShardedType):
            raise UnknownCasesError("a tensor of declared sizes that must be divided")
        element = ELEMENT_TYPES_BY_SHORT_NAME[declared.element]
        shape = tuple(symbol(f"declared {d}") if isinstance(d, str) else d for d in declared.shape)
        state.types[key] = TensorType(element, shape)
        return True

    def divided(state: State) -> Outcome:
        """Waits for the attributes of what is right above; only then the type is there."""
        if key in state.types:
            return True
        known = state.known_ranks.get(name)
        if known is None:
            return Alternatives(VARIABLE, tuple(_ranked(rank) for rank in state.ranks))
        made = divided_variable(name, known, terms, lambda value: _attribute(state, key[0], value))
        if isinstance(made, AttributeVariable):
            wanted = made.name
            return Alternatives(
                ATTRIBUTE, tuple(_setting(key[0], wanted, axis) for axis in range(-known, known))
            )
        state.types[key] = made
        return True

    def _ranked(rank: int) -> Change:
        def change(state: State) -> None:
            state.known_ranks[name] = rank

        return change

    parallel = any(part.operator in PARALLEL for part in applications(*terms))
    return known if declared is not None else divided if parallel else item


def _attribute(state: State, name: str, value: object) -> object:
    if isinstance(value, AttributeVariable):
        return state.attributes.get((name, value.name), value)
    return value


def _setting(name: str, attribute: str, value: object) -> Change:
    def change(state: State) -> None:
        state.attributes[name, attribute] = value

    return change


def application(key: Key) -> Item:
    """The type of an application."""
    name, term = key
    assert isinstance(term, Application)
    children: tuple[Key, ...] = tuple((name, child) for child in term.inputs)
    operator_class = OPERATORS[term.operator]

    def item(state: State) -> Outcome:
        if any(child not in state.types for child in children):
            return False
        types = tuple(state.types[child] for child in children)
        for attribute, value in term.attributes:
            if isinstance(value, AttributeVariable) and (name, value.name) not in state.attributes:
                values = values_of(attribute, value.name, types, state)
                return Alternatives(ATTRIBUTE, tuple(_setting(name, value.name, v) for v in values))
            if any((name, each) not in state.attributes for each in names_in(value)):
                return False
        for attribute in operator_class.implicit:
            if term.attribute(attribute) is None and (key, attribute) not in state.implicit:
                return _left_out(state, key, attribute, types)
        operator = state.operator(key)
        if isinstance(operator, Half) and term.attribute("size") is None:
            outcome = _one_cut(state, key, types[0], operator.axis, operator.size)
            if outcome is not True:
                return outcome
        grouped = operator.grouped(*types) if state.universal else None
        if grouped is not None:
            if (key, " groups") not in state.implicit:
                return Alternatives(SOLVE, _groups(key, grouped, types))
            if not _divide(*grouped) or (
                state.implicit[key, " groups"] == SINGLE and grouped[0] != grouped[1]
            ):
                return False
        if term.operator == "broadcast":
            outcome = _broadcast(state, types[0], state.implicit.get((key, "shape"), operator.shape))
            if outcome is not True:
                return outcome
        if state.divisible is not None:
            outcome = _may_divide(state, operator, types)
            if outcome is not True:
                return outcome
        return typed(state, key, operator, types)

    return item


def _may_divide(state: State, operator: Operator, types: tuple[TensorType, ...]) -> Outcome:
    """Raises UnknownCasesError where degrees divide a size in a way of their own; before that, other sizes of
    the operator are solved for."""
    assert state.divisible is not None
    try:
        sizes = tuple(divided_sizes(operator, types))
    except DimensionMismatchError as error:
        return state.equal(error.left, error.right)
    if not all(map(state.divisible.divides_as_one, sizes)):
        raise UnknownCasesError("degrees divide a size that is no product of a symbol")
    return True


def values_of(attribute: str, name: str, types: Sequence[TensorType], state: State) -> Sequence[object]:
    """The values that an open attribute takes at inputs of these types."""
    if attribute in WORDS:
        return WORDS[attribute]
    if attribute in PAIRS:
        return ((symbol(f"{name}.rows"), symbol(f"{name}.columns")),)
    if attribute == "padding":
        margins = tuple(symbol(f"{name}.{side}") - 1 for side in ("top", "left", "bottom", "right"))
        return ("valid", "same", "same_upper", "same_lower", margins)
    if attribute == "axis":
        return range(-types[0].rank, types[0].rank)
    if attribute == "perm":
        return (*permutations(range(types[0].rank)), *([()] if types[0].rank >= 2 else []))
    if attribute == "shape":
        return tuple(tuple(symbol(f"{name}.{axis}") for axis in range(rank)) for rank in state.ranks)
    if attribute in ("size", "channels"):
        return (symbol(name),)
    raise IllTypedError(f"open {attribute}")


def _left_out(state: State, key: Key, attribute: str, types: Sequence[TensorType]) -> Outcome:
    _, term = key
    assert isinstance(term, Application)
    if attribute == "size" and types:
        return _first_cut(state, key, types[0])
    if attribute == "shape":
        return Alternatives(IMPLICIT, tuple(_shaped(key, rank) for rank in state.ranks))
    state.implicit[key, attribute] = state.fresh()
    return Alternatives(SOLVE, (lambda _: None,))


def _shaped(key: Key, rank: int) -> Change:
    def change(state: State) -> None:
        state.implicit[key, "shape"] = tuple(state.fresh() for _ in range(rank))

    return change


def _first_cut(state: State, key: Key, whole: TensorType) -> Outcome:
    name, term = key
    assert isinstance(term, Application)
    axis = state.value(name, term.attribute("axis"))
    if not isinstance(axis, int) or not -whole.rank <= axis < whole.rank:
        raise IllTypedError("no such axis")
    place = (name, term.inputs[0]), axis % whole.rank
    cut = state.cuts.get(place)
    if cut is None:
        cut = _operand(state, place[0], place[1])
    if cut is None:
        cut = state.fresh()
    state.cuts[place] = cut
    state.implicit[key, "size"] = cut
    return Alternatives(SOLVE, (lambda _: None,))


def _operand(state: State, key: Key, axis: int) -> Dimension | None:
    """Where the first of two joined tensors ends, if the term is a concat along that axis."""
    name, term = key
    if not isinstance(term, Application) or term.operator != "concat":
        return None
    own = state.value(name, term.attribute("axis"))
    first = state.types[name, term.inputs[0]]
    if not isinstance(own, int) or own % first.rank != axis:
        return None
    return first.shape[axis]


def _one_cut(state: State, key: Key, whole: TensorType, axis: int, size: Dimension) -> Outcome:
    name, term = key
    assert isinstance(term, Application)
    place = (name, term.inputs[0]), axis % whole.rank
    known = state.cuts.get(place)
    if known is None:
        known = _operand(state, place[0], place[1])
    if known is None:
        state.cuts[place] = size
        return True
    return state.equal(known, size)


def _divide(channels: Dimension, per_group: Dimension, outputs: Dimension) -> bool:
    """Whether the groups are seen to divide channels and outputs."""
    groups = floor_divide(channels, per_group)
    if groups == 0 or groups * per_group != channels:
        return False
    return floor_divide(outputs, groups) * groups == outputs


def _groups(
    key: Key, grouped: tuple[Dimension, Dimension, Dimension], types: Sequence[TensorType]
) -> tuple[Change, ...]:
    channels, per_group, outputs = grouped
    divided = any(isinstance(type_, ShardedType) for type_ in types)

    def general(state: State) -> None:
        state.implicit[key, " groups"] = ANY
        if _divide(channels, per_group, outputs):
            return
        groups = floor_divide(channels, per_group)
        if groups * per_group != channels:
            groups = state.fresh()
            state.pending.append(_equal(channels, groups * per_group, state))
        state.pending.append(_equal(outputs, groups * state.fresh(), state))

    def single(state: State) -> None:
        state.implicit[key, " groups"] = SINGLE
        state.pending.append(_equal(channels, per_group, state))

    return (single, general) if divided and channels != per_group else (general,)


def _equal(left: Dimension, right: Dimension, state: State) -> Item:
    """That two sizes are equal, whatever their symbols have become since."""
    number = next(state.names)
    state.equations[number] = (left, right)

    def item(state: State) -> Outcome:
        return state.equal(*state.equations[number])

    return item


def _broadcast(state: State, type_: TensorType, target: object) -> Outcome:
    assert isinstance(target, tuple)
    if type_.rank > len(target):
        raise IllTypedError("broadcast to a lower rank")
    waits = False
    for own, wanted in zip(reversed(type_.shape), reversed(target), strict=False):
        if own in (1, wanted):
            continue
        equal, one = state.equal(own, wanted), state.equal(own, 1) if state.universal else False
        changes: list[Change] = []
        for outcome in (equal, one):
            if isinstance(outcome, Alternatives):
                changes += outcome.changes
        if equal is False or (state.universal and one is False):
            waits = True
            continue
        return Alternatives(SOLVE, tuple(changes))
    return not waits


__all__ = ["application", "values_of", "variable"]
