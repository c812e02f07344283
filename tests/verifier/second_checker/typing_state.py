"""Types of terms with symbols for sizes: what is known so far in one case, and what still waits.

A *universal* state splits into all cases in which everything is well-typed; an *existential* one looks for
sizes of flexible symbols that make everything well-typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeAlias

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.ir.dimensions import Dimension, SymbolicDimension, substitute, symbol
from superopt.ir.terms import Application, Term, Variable
from superopt.ir.types import ShardedType, TensorType
from superopt.ops import Operator, operator_from_attributes
from superopt.ops.attributes import substituted
from superopt.ops.base import attribute_names
from superopt.ops.shape import Reshape
from tests.verifier.second_checker.nodes import Complete, Leaf, Node, inferred
from tests.verifier.second_checker.numbers import names_in, value_of
from tests.verifier.second_checker.sizes import FLEXIBLE, Assignment, chosen, solutions

Key: TypeAlias = "tuple[str, Term]"
"""A term and the equation (or part of one) that it belongs to: equal terms of one are one term."""


class UnknownCasesError(Exception):
    """Not all cases are known."""


class DeadError(Exception):
    """There is no such case."""


class DivisibleSizes(Protocol):
    """Sizes that an operator may divide."""

    def has(self, size: Dimension) -> bool:
        """Whether the size is one of them."""
        ...

    def divides_as_one(self, size: Dimension) -> bool:
        """Whether the size is one of them with at most one symbol."""
        ...


Change: TypeAlias = "Callable[[State], None]"


@dataclass(frozen=True)
class Alternatives:
    """Changes of which one is made; those of a lower priority are tried first."""

    priority: int
    changes: Sequence[Change]


Outcome: TypeAlias = "bool | Alternatives | None"
"""Whether it is done; or what could be done; None is not done, and may be left undone."""
Item: TypeAlias = "Callable[[State], Outcome]"


@dataclass
class State:
    """One case as far as it is known."""

    ranks: range
    universal: bool
    names: Iterator[int]
    types: dict[Key, TensorType] = field(default_factory=dict["Key", TensorType])
    attributes: dict[tuple[str, str], object] = field(default_factory=dict[tuple[str, str], object])
    operators: dict[Key, Operator] = field(default_factory=dict["Key", Operator])
    implicit: dict[tuple[Key, str], object] = field(default_factory=dict[tuple["Key", str], object])
    cuts: dict[tuple[Key, int], Dimension] = field(default_factory=dict[tuple["Key", int], Dimension])
    leaves: dict[Key, Complete] = field(default_factory=dict["Key", Complete])
    positive: list[Dimension] = field(default_factory=list[Dimension])
    odd: set[Dimension] = field(default_factory=set[Dimension])
    known_ranks: dict[str, int] = field(default_factory=dict[str, int])
    equations: dict[int, tuple[Dimension, Dimension]] = field(
        default_factory=dict[int, tuple[Dimension, Dimension]]
    )
    sizes: dict[str, Dimension] = field(default_factory=dict[str, Dimension])
    aliases: dict[Key, Key] = field(default_factory=dict["Key", "Key"])
    attribute_names: frozenset[str] = frozenset()
    divisible: DivisibleSizes | None = None
    pending: list[Item] = field(default_factory=list["Item"])

    def copy(self) -> State:
        """Another state that can be changed by itself."""
        return State(
            self.ranks,
            self.universal,
            self.names,
            dict(self.types),
            dict(self.attributes),
            dict(self.operators),
            dict(self.implicit),
            dict(self.cuts),
            dict(self.leaves),
            list(self.positive),
            set(self.odd),
            dict(self.known_ranks),
            dict(self.equations),
            dict(self.sizes),
            dict(self.aliases),
            self.attribute_names,
            self.divisible,
            list(self.pending),
        )

    def fresh(self) -> SymbolicDimension:
        """A new symbol."""
        return symbol(f"{'n' if self.universal else FLEXIBLE}{next(self.names)}")

    def assign(self, assignment: Assignment) -> None:
        """Puts sizes for symbols everywhere."""
        if not assignment:
            return
        self.types = {key: type_.substitute(assignment) for key, type_ in self.types.items()}
        self.attributes = {key: substituted(value, assignment) for key, value in self.attributes.items()}
        self.implicit = {key: substituted(value, assignment) for key, value in self.implicit.items()}
        self.cuts = {key: substitute(value, assignment) for key, value in self.cuts.items()}
        self.positive = [substitute(value, assignment) for value in self.positive]
        self.positive += assignment.values()
        self.odd = {substitute(value, assignment) for value in self.odd}
        self.equations = {
            number: (substitute(left, assignment), substitute(right, assignment))
            for number, (left, right) in self.equations.items()
        }
        self.sizes = {name: substitute(value, assignment) for name, value in self.sizes.items()}
        self.sizes.update(assignment)
        # Operators are made anew from attributes where sizes in them change.
        self.operators = {
            key: self.operator(key) if _has_sizes(made) else made for key, made in self.operators.items()
        }

    def operator(self, key: Key) -> Operator:
        """The complete operator of an application whose attributes are all known; raises IllTypedError."""
        name, term = key
        assert isinstance(term, Application)
        values: dict[str, object] = {}
        for attribute in attribute_names(term.operator):
            value = term.attribute(attribute)
            if value is None and (key, attribute) in self.implicit:
                values[attribute] = self.implicit[key, attribute]
            elif value is not None:
                values[attribute] = self.value(name, value)
        return operator_from_attributes(term.operator, values)

    def value(self, name: str, value: object) -> object:
        """What an attribute is here: a constant, or what its variables stand for."""
        return value_of(value, {each: self.attributes[name, each] for each in names_in(value)})

    def equal(self, left: Dimension, right: Dimension) -> Outcome:
        """What makes two sizes equal."""
        if left == right:
            return True
        if not self.universal:
            found = chosen(left, right)
            if found is None and not _flexible(left) and not _flexible(right):
                raise DeadError
            return False if found is None else Alternatives(0, (_assigning(found),))
        if self.divisible is not None:
            are_known = all(map(self.divisible.has, (left, right)))
            as_one = all(map(self.divisible.divides_as_one, (left, right)))
            if not are_known or not (as_one or _is_symbol(left) or _is_symbol(right)):
                raise UnknownCasesError("sizes are compared that degrees divide in ways of their own")
        every = solutions(left, right, self.fresh)
        if every is None:
            return False
        return Alternatives(0, tuple(map(_assigning, every)))

    def complete(self, key: Key) -> Complete:
        """The term with all attributes."""
        key = self.aliases.get(key, key)
        if key in self.leaves:
            return self.leaves[key]
        name, term = key
        if isinstance(term, Variable):
            return Leaf(term.name)
        inputs = tuple(self.complete((name, child)) for child in term.inputs)
        return Node(self.operators[key], inputs)


def _has_sizes(operator: Operator) -> bool:
    return bool(operator.implicit) or any(
        name in ("kernel", "stride", "dilation", "shape", "padding", "size", "channels", "sizes")
        for name in attribute_names(operator.name)
    )


def _is_symbol(size: Dimension) -> bool:
    return not isinstance(size, int) and [c for m, c in size.terms if len(m) == 1] == [1] == [
        c for _, c in size.terms
    ]


def _flexible(size: Dimension) -> bool:
    return not isinstance(size, int) and any(name.startswith(FLEXIBLE) for name in size.symbols)


def _assigning(assignment: Assignment) -> Change:
    return lambda state: state.assign(assignment)


def every_case(state: State) -> Iterator[State]:
    """All states in which nothing waits; raises UnknownCasesError where they are not known."""
    while state.pending:
        choice: Alternatives | None = None
        waiting: list[Item] = []
        progress, required = False, False
        items, state.pending = state.pending, []
        try:
            for position, item in enumerate(items):
                outcome = item(state)
                if outcome is True:
                    progress = True
                    continue
                waiting.append(item)
                required = required or outcome is not None
                if isinstance(outcome, Alternatives):
                    if not outcome.changes:
                        return
                    if len(outcome.changes) == 1:
                        outcome.changes[0](state)
                        progress = True
                        waiting += items[position + 1 :]
                        break
                    if choice is None or outcome.priority < choice.priority:
                        choice = outcome
        except (DeadError, IllTypedError):
            return
        state.pending = waiting + state.pending
        if progress:
            continue
        if choice is None:
            if not required:
                break
            if state.universal:
                raise UnknownCasesError("an equation between sizes that stays open")
            return
        for change in choice.changes:
            other = state.copy()
            try:
                change(other)
            except (DeadError, IllTypedError):
                continue
            yield from every_case(other)
        return
    yield state


def new_state(ranks: range, *, universal: bool, names: Iterator[int] | None = None) -> State:
    """A state that knows nothing."""
    return State(ranks, universal, names or count())


def typed(state: State, key: Key, operator: Operator, types: tuple[TensorType, ...]) -> Outcome:
    """Infers the type of an application, or what its sizes must be for that; raises UnknownCasesError where
    it reshapes divided tensors."""
    if isinstance(operator, Reshape) and any(isinstance(type_, ShardedType) for type_ in types):
        raise UnknownCasesError("divided tensors are reshaped")
    try:
        result = inferred(operator, types)
    except DimensionMismatchError as error:
        return state.equal(error.left, error.right)
    state.types[key] = result
    state.operators[key] = operator
    return True


def same_types(one: Key, other: Key) -> Item:
    """That two terms have the same type."""

    def item(state: State) -> Outcome:
        if one not in state.types or other not in state.types:
            return False
        return equal_types(state, state.types[one], state.types[other])

    return item


def equal_types(state: State, left: TensorType, right: TensorType) -> Outcome:
    """What makes two types equal."""
    if type(left) is not type(right) or left.rank != right.rank or left.element is not right.element:
        raise DeadError
    if (
        isinstance(left, ShardedType)
        and isinstance(right, ShardedType)
        and (left.divisions, left.replicas) != (right.divisions, right.replicas)
    ):
        raise DeadError
    waits = False
    for a, b in zip(left.shape, right.shape, strict=True):
        outcome = state.equal(a, b)
        if isinstance(outcome, Alternatives):
            return outcome
        waits = waits or not outcome
    return not waits


__all__ = [
    "Alternatives",
    "Change",
    "DeadError",
    "Item",
    "Key",
    "Outcome",
    "State",
    "UnknownCasesError",
    "equal_types",
    "every_case",
    "new_state",
    "same_types",
    "typed",
]
