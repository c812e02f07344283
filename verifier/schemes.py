"""Schemes of an equation: ranks and attribute values under which both sides are well-typed, sizes as symbols.

Depth first over the applications, inputs first: ranks for the variables met, values for the attribute
variables met, then the operator's own inference on the types of its inputs, solving for symbols where sizes
must agree. Which ranks an operator accepts is asked once for all equations.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.ir.dimensions import Dimension, solve, substitute, symbol
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Equation,
    Term,
    Variable,
    applications,
    variables,
)
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME, ElementType, TensorType
from superopt.ops.attributes import substituted
from superopt.ops.base import OPERATORS, attributes_of
from superopt.ops.roles import Product
from superopt.ops.terms import application
from superopt.ops.traits import HALVES, traits
from superopt.rewriting.conditions import computed
from superopt.rewriting.divisions import divisions_needed, variable_type
from superopt.rewriting.typing import FRESH, Typing, infer_terms, leaves_shape_out
from superopt.verifier.attributes import plausible_values
from superopt.verifier.divided import demanding, divided_forms
from superopt.verifier.ranks import MISSING, RANKS, UNKNOWN, fitting_ranks
from superopt.verifier.requirements import impose, solve_rounded

_GROUPS = ((2, 1, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1), (3, 1, 2), (2, 2, 2))
_TRIES_PER_SCHEME = 200
_AS_ASKED = 0.6
_FAILURES = 8
_VALUES_PER_ATTRIBUTE = 4


@dataclass(frozen=True)
class Scheme:
    """Ranks and attribute values under which both sides are well-typed; sizes are symbols."""

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    typing: Typing

    @property
    def kind(self) -> tuple[object, ...]:
        """What tells schemes apart: types and attribute values."""
        return (
            *(f"{name}: {type_}" for name, type_ in sorted(self.types.items())),
            *((name, repr(value)) for name, value in sorted(self.attributes.items())),
        )


@dataclass(frozen=True)
class _State:
    """What is known half-way: types of variables and of applications, values, cuts of halves by axis."""

    types: Mapping[Term, TensorType]
    attributes: Mapping[str, object]
    cuts: Mapping[tuple[Term, int], Dimension]

    def solved(self, assignment: Mapping[str, Dimension]) -> _State:
        if not assignment:
            return self
        return _State(
            {term: type_.substitute(assignment) for term, type_ in self.types.items()},
            {name: substituted(value, assignment) for name, value in self.attributes.items()},
            {place: substitute(cut, assignment) for place, cut in self.cuts.items()},
        )


class SchemeSearch:
    """Random schemes of one equation, the same for the same generator."""

    def __init__(self, equation: Equation, generator: random.Random) -> None:
        self._equation = equation
        self._random = generator
        self._terms = (*equation.left, *equation.right)
        self._orders = (
            tuple(applications(*self._terms)),
            tuple(applications(*equation.right, *equation.left)),
        )
        self._order = self._orders[0]
        self._names = variables(*self._terms)
        self._demanding = demanding(equation)
        self._tries = 0
        self._counter = itertools.count()

    def __iter__(self) -> Iterator[Scheme]:
        """Different schemes; gives up when eight searches in a row find nothing new."""
        met: set[object] = set()
        failures = 0
        while failures < _FAILURES:
            self._tries = _TRIES_PER_SCHEME
            self._order = self._random.choice(self._orders)
            scheme = self._extend(_State(self._declared(), {}, {}), 0)
            if scheme is None or scheme.kind in met:
                failures += 1
            else:
                failures = 0
                met.add(scheme.kind)
                yield scheme

    def _declared(self) -> dict[Term, TensorType]:
        types: dict[Term, TensorType] = {}
        for name, declared in self._equation.types:
            element = ELEMENT_TYPES_BY_SHORT_NAME.get(declared.element)
            if element is None:
                raise IllTypedError(f"{name}: unknown element type {declared.element}")
            sizes = tuple(d if isinstance(d, int) else symbol(d) for d in declared.shape)
            types[Variable(name)] = TensorType(element, sizes)
        return types

    def _extend(self, state: _State, position: int) -> Scheme | None:
        if position == len(self._order):
            return self._complete(state)
        term = self._order[position]
        for ranked in self._with_ranks(term, state):
            for chosen in self._with_values(term, ranked):
                self._tries -= 1
                if self._tries < 0:
                    return None
                typed = self._typed(term, chosen)
                found = None if typed is None else self._extend(typed, position + 1)
                if found is not None:
                    return found
        return None

    def _with_ranks(self, term: Application, state: _State) -> Iterator[_State]:
        """States with types of fresh ranks for the variables that the term meets first, in random order."""
        known: dict[Term, int] = {}
        pattern: list[tuple[int, int]] = []
        for child in term.inputs:
            type_ = state.types.get(child)
            absent = MISSING if isinstance(child, Variable) else UNKNOWN
            rank = absent if type_ is None else type_.rank
            pattern.append((known.setdefault(child, len(known)), rank))
        missing = [child for child in known if isinstance(child, Variable) and child not in state.types]
        if not missing:
            yield state
            return
        attributes = tuple((name, _value(value, state.attributes)) for name, value in term.attributes)
        choices = list(fitting_ranks(term.operator, attributes, tuple(pattern)))
        self._random.shuffle(choices)
        for ranks in choices:
            fresh = {
                child: self._fresh_type(child.name, rank, state.attributes)
                for child, rank in zip(missing, ranks, strict=True)
            }
            yield _State({**state.types, **fresh}, state.attributes, state.cuts)

    def _with_values(self, term: Application, state: _State) -> Iterator[_State]:
        known = computed(self._equation.conditions, state.attributes)
        if known:
            state = _State(state.types, {**state.attributes, **known}, state.cuts)
        open_names = [
            (attribute, value.name)
            for attribute, value in term.attributes
            if isinstance(value, AttributeVariable) and value.name not in state.attributes
        ]
        if not open_names:
            yield state
            return
        inputs = [state.types[child] for child in term.inputs if child in state.types]
        pools = [plausible_values(attribute, inputs) for attribute, _ in open_names]
        if not all(pools):
            return
        for _ in range(_VALUES_PER_ATTRIBUTE):
            values = {
                name: self._random.choice(pool) for (_, name), pool in zip(open_names, pools, strict=True)
            }
            yield _State(state.types, {**state.attributes, **values}, state.cuts)

    def _typed(self, term: Application, state: _State) -> _State | None:
        """The state with the type of the term, sizes solved for; None when nothing makes it well-typed.

        The type of a constant or a broadcast is left to what uses it.
        """
        if leaves_shape_out(term):
            return state
        if traits(term.operator).product is Product.CONVOLUTION and self._random.random() < 0.5:
            state = self._grouped(term, state) or state
        skeleton = _skeleton(term, state.types)
        place = self._place(term, state)
        for _ in range(3):
            cuts = {} if place is None else self._cut(place, skeleton, state)
            types = {name: state.types[child] for name, child in skeleton.children}
            try:
                typing = infer_terms((skeleton.term,), types, state.attributes, cuts=cuts)
            except DimensionMismatchError as mismatch:
                solution = solve_rounded(mismatch.left, mismatch.right)
                if not solution:
                    return None
                state = state.solved(solution)
            except IllTypedError:
                return None
            else:
                return self._with_type(term, state, skeleton, typing, place)
        return None

    def _with_type(
        self,
        term: Application,
        state: _State,
        skeleton: _Skeleton,
        typing: Typing,
        place: tuple[Term, int] | None,
    ) -> _State:
        constants = [own for own in applications(skeleton.term) if leaves_shape_out(own)]
        if constants and (typing.unresolved or any(typing.types[own].rank == 0 for own in constants)):
            return state
        named = {name: symbol(f"cut{next(self._counter)}") for name in typing.unresolved}
        assignment = {
            name: substitute(value, named)
            for name, value in typing.assignment.items()
            if not name.startswith(FRESH)
        }
        solved = state.solved(assignment)
        cuts = solved.cuts
        if place is not None:
            (implicit,) = OPERATORS[term.operator].implicit
            cut = attributes_of(typing.operators[skeleton.term])[implicit]
            cuts = {**cuts, place: substitute(cast("Dimension", cut), named)}
        type_ = typing.types[skeleton.term].substitute(named)
        return _State({**solved.types, term: type_}, solved.attributes, cuts)

    def _place(self, term: Application, state: _State) -> tuple[Term, int] | None:
        """What a half is cut from and along which axis; None for other operators."""
        whole = state.types.get(term.inputs[0]) if term.operator in HALVES else None
        axis = _value(term.attribute("axis"), state.attributes)
        if whole is None or not isinstance(axis, int) or not -whole.rank <= axis < whole.rank:
            return None
        return term.inputs[0], axis % whole.rank

    def _cut(
        self, place: tuple[Term, int], skeleton: _Skeleton, state: _State
    ) -> dict[tuple[Term, int], Dimension]:
        """Where the halves are cut when that is known: as before, or between the operands of a concat."""
        whole, axis = place
        cut = state.cuts.get(place)
        if cut is None and isinstance(whole, Application) and traits(whole.operator).joins:
            first = state.types.get(whole.inputs[0])
            own = _value(whole.attribute("axis"), state.attributes)
            if first is not None and isinstance(own, int) and own % first.rank == axis:
                cut = first.shape[axis]
        (name,) = (name for name, child in skeleton.children if child == whole)
        return {} if cut is None else {(Variable(name), axis): cut}

    def _grouped(self, term: Application, state: _State) -> _State | None:
        """Sizes that make a convolution grouped, numbers or symbols; unification alone makes it plain."""
        inputs = [state.types.get(child) for child in term.inputs]
        if any(type_ is None or type_.rank != 4 for type_ in inputs):
            return None
        data, weight = cast("list[TensorType]", inputs)
        groups, per_group, multiple = self._random.choice(_GROUPS)
        wanted: tuple[tuple[Dimension, Dimension], ...]
        if self._random.random() < 0.5:
            number = next(self._counter)
            g, c, m = (symbol(f"{letter}{number}") for letter in ("groups", "channels", "outputs"))
            wanted = ((data.shape[1], g * c), (weight.shape[1], c), (weight.shape[0], g * m))
        else:
            wanted = (
                (data.shape[1], groups * per_group),
                (weight.shape[1], per_group),
                (weight.shape[0], groups * multiple),
            )
        assignment: dict[str, Dimension] = {}
        for dimension, size in wanted:
            solution = solve(substitute(dimension, assignment), substitute(size, assignment))
            if solution is None:
                return None
            assignment = {n: substitute(d, solution) for n, d in assignment.items()} | solution
        return state.solved(assignment)

    def _fresh_type(self, name: str, rank: int, attributes: Mapping[str, object]) -> TensorType:
        """Any form of a divided variable, or the one that the attributes known by then ask for."""
        ones = [self._random.random() < 0.06 for _ in range(rank)]
        sizes = [1 if one else symbol(f"{name}.{axis}") for axis, one in enumerate(ones)]
        forms = tuple(
            divided_forms(TensorType(ElementType.FLOAT, tuple(sizes)), self._demanding.get(name, frozenset()))
        )
        needed = divisions_needed(self._equation, {name: rank}, attributes)
        if not forms or (needed and self._random.random() < _AS_ASKED):
            return variable_type(name, sizes, needed)
        return self._random.choice(forms)

    def _complete(self, state: _State) -> Scheme | None:
        """Both sides typed together.

        Output types are unified, but first without touching the sizes of variables: where that fails although
        both sides are well-typed, the equation may claim equality of values of different types, and the
        instances must show it.
        """
        types = {
            name: state.types.get(Variable(name))
            or self._fresh_type(name, self._random.choice(RANKS), state.attributes)
            for name in self._names
        }
        imposed = impose(self._equation.conditions, types, state.attributes)
        own = frozenset[str]().union(*(type_.symbols for type_ in imposed.values()))
        pairs = list(zip(self._equation.left, self._equation.right, strict=True))
        typing = _infer(self._terms, imposed, state.attributes, pairs, own)
        if typing is None:
            typing = _infer(self._terms, imposed, state.attributes)
            if typing is None or typing.unresolved:
                typing = _infer(self._terms, imposed, state.attributes, pairs)
        if typing is None:
            return None
        solved = {name: type_.substitute(typing.assignment) for name, type_ in imposed.items()}
        attributes = {name: substituted(value, typing.assignment) for name, value in state.attributes.items()}
        return Scheme(solved, attributes, typing)


@dataclass(frozen=True)
class _Skeleton:
    """An application with a variable for each input whose type is known; ``children`` says which is which."""

    term: Application
    children: tuple[tuple[str, Term], ...]


def _skeleton(term: Application, types: Mapping[Term, TensorType]) -> _Skeleton:
    if all(child in types for child in term.inputs):
        return _flat_skeleton(term)
    children: dict[Term, str] = {}
    return _Skeleton(
        _abstracted(term, types, children), tuple((name, child) for child, name in children.items())
    )


@lru_cache(maxsize=4096)
def _flat_skeleton(term: Application) -> _Skeleton:
    children: dict[Term, str] = {}
    replaced = _abstracted(term, frozenset(term.inputs), children)
    return _Skeleton(replaced, tuple((name, child) for child, name in children.items()))


def _abstracted(term: Application, typed: Container[Term], children: dict[Term, str]) -> Application:
    inputs = [
        Variable(children.setdefault(child, f"i{len(children)}"))
        if child in typed or isinstance(child, Variable)
        else _abstracted(child, typed, children)
        for child in term.inputs
    ]
    return application(term.operator, dict(term.attributes), *inputs)


def _value(value: AttributeTerm | None, chosen: Mapping[str, object]) -> AttributeTerm:
    if isinstance(value, AttributeVariable):
        return cast("AttributeTerm", chosen.get(value.name, value))
    return cast("AttributeTerm", value)


def _infer(
    terms: Sequence[Term],
    types: Mapping[str, TensorType],
    attributes: Mapping[str, object],
    equal: Sequence[tuple[Term, Term]] = (),
    fixed: frozenset[str] = frozenset(),
) -> Typing | None:
    needed = {name: types[name] for name in variables(*terms) if name in types}
    try:
        return infer_terms(terms, needed, attributes, equal=equal, fixed=fixed)
    except IllTypedError:
        return None
