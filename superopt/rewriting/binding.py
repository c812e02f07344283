"""Variable bindings of a partial match, and comparison of rule attributes with node attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Value
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, AttributeTerm, Term
from superopt.ops.attributes import normalise_attribute
from superopt.ops.base import attribute_defaults, attribute_names
from superopt.ops.matrix import permutation_of


@dataclass(frozen=True, slots=True)
class Bundle:
    """A concat of some adjacent operands of a larger concat; it is built only if a rewrite needs it."""

    axis: int
    values: tuple[Value, ...]


Binding: TypeAlias = "Value | Bundle"


class State(NamedTuple):
    """Bindings of variables and attribute variables, matched terms, and cut positions of halved terms along
    an axis."""

    values: Mapping[str, Binding]
    attributes: Mapping[str, object]
    terms: Mapping[Term, Value]
    cuts: Mapping[tuple[Term, int], Dimension]

    def with_value(self, name: str, binding: Binding) -> State:
        """The state with an additional variable binding."""
        return State({**self.values, name: binding}, self.attributes, self.terms, self.cuts)

    def with_attribute(self, name: str, value: object) -> State:
        """The state with an additional attribute variable binding."""
        return State(self.values, {**self.attributes, name: value}, self.terms, self.cuts)

    def with_term(self, term: Term, value: Value) -> State:
        """The state with an additional matched term."""
        return State(self.values, self.attributes, {**self.terms, term: value}, self.cuts)

    def with_cut(self, key: tuple[Term, int], cut: Dimension) -> State:
        """The state with an additional cut position."""
        return State(self.values, self.attributes, self.terms, {**self.cuts, key: cut})


NOTHING = State({}, {}, {}, {})


def is_free(name: str, binding: Binding, state: State) -> bool:
    """Whether the variable is unbound, or bound to the same value."""
    return state.values.get(name, binding) == binding


def bind(state: State, name: str, pattern: AttributeTerm | None, value: object, rank: int) -> State | None:
    """The state in which the attribute equals the rule's; None where that is impossible."""
    if isinstance(pattern, AttributeVariable):
        bound = state.attributes.get(pattern.name)
        if bound is None:
            return state.with_attribute(pattern.name, value)
        return state if _equal(name, bound, value, rank) else None
    return state if _equal(name, pattern, value, rank) else None


def _equal(name: str, left: object, right: object, rank: int) -> bool:
    if name == "axis" and isinstance(left, int) and isinstance(right, int) and rank > 0:
        return -rank <= left < rank and left % rank == right % rank
    return left == right or left == normalise_attribute(name, right)


def as_permutation(pattern: AttributeTerm, rank: int) -> AttributeTerm:
    """The pattern as a full permutation, if it is one."""
    if not isinstance(pattern, tuple):
        return pattern
    try:
        return permutation_of(pattern, rank)
    except IllTypedError:
        return pattern


@lru_cache(maxsize=4096)
def patterns(term: Application) -> tuple[tuple[str, AttributeTerm], ...]:
    """The required value of every attribute, defaults included, except those determined by types."""
    wanted = dict(term.attributes)
    for name, value in attribute_defaults(term.operator).items():
        wanted.setdefault(name, cast("AttributeTerm", normalise_attribute(name, value)))
    return tuple((name, wanted[name]) for name in attribute_names(term.operator) if name in wanted)
