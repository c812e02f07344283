"""Schemes of an equation, with symbols for sizes: the most general one for given ranks and attribute values,
and random ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeVar, cast

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.instances.channels import Sizes, channel_sizes
from superopt.instances.divided import divided_forms
from superopt.instances.instance import Instance
from superopt.instances.program import Instruction, Program
from superopt.instances.requirements import solve_rounded
from superopt.instances.search import (
    IMPLICIT,
    State,
    TypingSearch,
    solved_for_any,
    solved_for_implicit,
)
from superopt.instances.values import likely_values
from superopt.ir.dimensions import Dimension, as_symbol, solve, substitute, symbol
from superopt.ir.terms import Application, Equation, Term, Variable, applications, variables
from superopt.ir.types import ElementType, TensorType
from superopt.ops.attributes import substituted
from superopt.ops.roles import Product
from superopt.ops.traits import traits
from superopt.rewriting.concrete import operator_symbols, with_numbers
from superopt.rewriting.conditions import holds
from superopt.rewriting.divisions import divisions_needed, variable_type
from superopt.rewriting.typing import Typing, infer_terms, leaves_shape_out, leaves_sizes_out

LARGEST_RANK = 5
_GROUPS = ((2, 1, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1), (3, 1, 2), (2, 2, 2))
_STATES_PER_SCHEME = 200
_AS_ASKED = 0.6
_FAILURES = 8
_VALUES_PER_ATTRIBUTE = 4

T = TypeVar("T")


@dataclass(frozen=True)
class Scheme:
    """Ranks and attribute values under which both sides are well-typed; sizes are symbols."""

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    typing: Typing

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The symbols in its types and in attributes of its operators."""
        named = [type_.symbols for type_ in self.typing.types.values()]
        named.extend(operator_symbols(operator) for operator in self.typing.operators.values())
        return frozenset[str]().union(*named)

    @cached_property
    def is_empty(self) -> bool:
        """Whether a tensor has no elements."""
        return any(size == 0 for type_ in self.typing.types.values() for size in type_.shape)

    @property
    def kind(self) -> tuple[object, ...]:
        """What tells schemes apart: types and attribute values."""
        return (
            *(f"{name}: {type_}" for name, type_ in sorted(self.types.items())),
            *((name, repr(value)) for name, value in sorted(self.attributes.items())),
        )

    def at(self, equation: Equation, numbers: Mapping[str, Dimension]) -> Instance | None:
        """The instance with these numbers for symbols; None when they make a side ill-typed or break a
        condition."""
        try:
            typing = with_numbers(self.typing, equation.applications, self.types, numbers)
        except IllTypedError:
            return None
        types = {name: typing.types[Variable(name)] for name in equation.variables}
        attributes = {name: substituted(value, numbers) for name, value in self.attributes.items()}
        if not all(holds(condition, types, attributes) for condition in equation.conditions):
            return None
        return Instance(types, attributes, typing)

    def sized(self, equation: Equation, numbers: Mapping[str, Dimension], largest: int) -> Instance | None:
        """As ``at``; None too where a size is not positive or a tensor has more than ``largest`` elements."""
        instance = self.at(equation, numbers)
        types = instance.typing.types.values() if instance else ()
        fits = all(type_.is_sized and cast("int", type_.elements) <= largest for type_ in types)
        return instance if fits else None


def symbolic_types(
    equation: Equation,
    ranks: Mapping[str, int],
    attributes: Mapping[str, object],
    sizes: Mapping[str, int] | None = None,
) -> Mapping[str, TensorType]:
    """Types of variables of these ranks, with symbols ``x.0`` for the sizes of x that are not given.

    Sizes are those of parts where parallel operators need divided tensors.
    """
    needed, known = divisions_needed(equation, ranks, attributes), sizes or {}
    return {
        name: variable_type(
            name, [known.get(f"{name}.{n}", symbol(f"{name}.{n}")) for n in range(rank)], needed
        )
        for name, rank in ranks.items()
    }


class GeneralSearch(TypingSearch):
    """The most general scheme for given types of all inputs and values of all attribute variables."""

    def __init__(
        self, equation: Equation, types: Mapping[str, TensorType], attributes: Mapping[str, object]
    ) -> None:
        self._programs = _programs(equation)
        super().__init__(self._programs[0], LARGEST_RANK, types, attributes)

    def general(self) -> tuple[State, Scheme] | None:
        """The state at which each side is typed, and the scheme at which both have the same shape; None when
        there is no such scheme. They may be divided in different ways.

        What is typed first may leave a size of 0 for the rest: the side that comes first is then another.
        """
        first: tuple[State, Scheme] | None = None
        for program in reversed(self._programs):
            self.program = program
            for state in self.leaves(_STATES_PER_SCHEME):
                together, _ = self.agreed(state, solved_for_any)
                scheme = self.scheme(together) if self.has_equal_shapes(together) else None
                if scheme is not None and not scheme.is_empty:
                    return state, scheme
                first = first or (scheme and (state, scheme))
            if first is None:
                return None
        self.program = self._programs[1]
        return first

    def apart(self, state: State) -> Mapping[str, TensorType]:
        """Types of inputs at which each side is typed: those of the state, unless the text leaves out sizes
        on both sides, which may then differ."""
        equation, types = self.program.equation, self._types
        if not all(any(map(leaves_sizes_out, side)) for side in (equation.left, equation.right)):
            return self.inputs(state)
        for side in (equation.right, equation.left):
            outputs = (*side, *map(Variable, self.program.names))
            search = GeneralSearch(replace(equation, left=outputs, right=outputs), types, self._attributes)
            found = next(search.leaves(_STATES_PER_SCHEME), None)
            types = types if found is None else search.inputs(found)
        return types

    def fresh(self, name: str, rank: int, attributes: Mapping[str, object]) -> Sequence[TensorType]:
        """None: all are given."""
        del name, rank, attributes
        return ()

    def values(self, name: str, step: Instruction, attribute: str, state: State) -> Iterable[object]:
        """None: all are given."""
        del name, step, attribute, state
        return ()

    def arranged(self, choices: Sequence[T]) -> Sequence[T]:
        """The ranks of inputs first, large ones before small ones."""
        ranks = {type_.rank for type_ in self._types.values()}
        return (
            *(choice for choice in reversed(choices) if choice in ranks),
            *(choice for choice in choices if choice not in ranks),
        )

    def undecided(self, mismatch: DimensionMismatchError, state: State) -> Iterable[Mapping[str, Dimension]]:
        """Equal operands of equal divisions."""
        del state
        solution = solve_rounded(mismatch.left, mismatch.right)
        return (solution,) if solution else ()

    def begun(self, state: State) -> State:
        """With the sizes that conditions ask to be equal."""
        return self.with_implied_sizes(state)

    def scheme(self, state: State) -> Scheme | None:
        """The scheme with the types of a state; None when an operator does not take its attributes."""
        steps, inputs = self.program.steps, self.inputs(state)
        types: dict[Term, TensorType] = {Variable(name): type_ for name, type_ in inputs.items()}
        try:
            operators = self.operators(state)
        except IllTypedError:
            return None
        types |= {step.term: state.known(step.place) for step in steps}
        typing = Typing(types, dict(zip((step.term for step in steps), operators, strict=True)), {})
        return Scheme(inputs, state.attributes, typing)


class SchemeSearch(GeneralSearch):
    """Random schemes of one equation, the same for the same generator; what is not given is drawn."""

    def __init__(
        self,
        equation: Equation,
        generator: random.Random,
        types: Mapping[str, TensorType] | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(equation, types or {}, attributes or {})
        self._random = generator
        self._counter = itertools.count()

    def __iter__(self) -> Iterator[Scheme]:
        """Different schemes; gives up when eight searches in a row find nothing new."""
        met: set[object] = set()
        failures = 0
        while failures < _FAILURES:
            self.program = self._random.choice(self._programs)
            state = next(self.leaves(_STATES_PER_SCHEME), None)
            scheme = None if state is None else self._unified(state)
            if scheme is None or scheme.kind in met:
                failures += 1
            else:
                failures = 0
                met.add(scheme.kind)
                yield scheme

    def arranged(self, choices: Sequence[T]) -> Sequence[T]:
        """In random order."""
        return self._random.sample(choices, len(choices))

    def fresh(self, name: str, rank: int, attributes: Mapping[str, object]) -> Sequence[TensorType]:
        """One: any form of a divided variable, or the one that the attributes known by then ask for."""
        ones = [self._random.random() < 0.06 for _ in range(rank)]
        sizes = [1 if one else symbol(f"{name}.{axis}") for axis, one in enumerate(ones)]
        demanding = self.program.demanding.get(name, frozenset())
        forms = tuple(divided_forms(TensorType(ElementType.FLOAT, tuple(sizes)), demanding))
        needed = divisions_needed(self.program.equation, {name: rank}, attributes)
        if not forms or (needed and self._random.random() < _AS_ASKED):
            return (variable_type(name, sizes, needed),)
        return (self._random.choice(forms),)

    def values(self, name: str, step: Instruction, attribute: str, state: State) -> Iterable[object]:
        """A few of those that are likely."""
        del name
        pool = likely_values(attribute, [state.known(place) for place in step.inputs])
        return self._random.choices(pool, k=_VALUES_PER_ATTRIBUTE) if pool else ()

    def numbers(self, step: Instruction, state: State) -> Iterable[Mapping[str, Dimension]] | None:
        """Sizes that make a convolution grouped, now and then; unification alone makes it plain."""
        types = [state.known(place) for place in step.inputs]
        if traits(step.term.operator).product is not Product.CONVOLUTION or any(
            type_.rank != 4 for type_ in types
        ):
            return None
        data, weight = types
        if data.shape[1] == weight.shape[1] or as_symbol(weight.shape[1]) is None:
            return None
        whole = isinstance(data.shape[1], int)
        if not whole and as_symbol(data.shape[1]) is None:
            return None
        sizes = self._grouped(data, weight) if self._random.random() < 0.5 else None
        return None if sizes is None else (sizes,)

    def begun(self, state: State) -> State:
        """The state itself: conditions are solved at the end."""
        return state

    def _grouped(self, data: TensorType, weight: TensorType) -> Mapping[str, Dimension] | None:
        """Groups and channels in numbers or as symbols."""
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
        return assignment

    def _unified(self, state: State) -> Scheme | None:
        """With output types unified, without touching the sizes of inputs where that can be."""
        required = self.with_implied_sizes(state)
        state, _ = self.agreed(required, solved_for_implicit)
        if self.is_agreed(state):
            return self.scheme(state)
        return self._disagreeing(self.inputs(required), required.attributes)

    def _disagreeing(
        self, types: Mapping[str, TensorType], attributes: Mapping[str, object]
    ) -> Scheme | None:
        """Typed anew, with nothing decided of what the text leaves out.

        Where output types are equal only for other sizes of inputs although both sides are well-typed, an
        equation that says all sizes claims that values of different types are equal, and the instances must
        show it. One that leaves shapes of constants out claims nothing there.
        """
        equation = self.program.equation
        terms = equation.terms
        pairs = list(zip(equation.left, equation.right, strict=True))
        own = frozenset[str]().union(*(type_.symbols for type_ in types.values()))
        named = {name: symbol(f"implicit{name}") for name in own if name.startswith(IMPLICIT)}
        types = {name: type_.substitute(named) for name, type_ in types.items()}
        own = own - named.keys() | {f"implicit{name}" for name in named}
        for equal, fixed in ((pairs, own), ([], frozenset[str]()), (pairs, frozenset[str]())):
            if not equal and any(map(leaves_shape_out, applications(*terms))):
                continue
            try:
                typing = infer_terms(terms, types, attributes, equal=equal, fixed=fixed)
            except IllTypedError:
                continue
            if equal or not typing.unresolved:
                solved = {name: type_.substitute(typing.assignment) for name, type_ in types.items()}
                values = {name: substituted(value, typing.assignment) for name, value in attributes.items()}
                return Scheme(solved, values, typing)
        return None


class GroupedSearch(SchemeSearch):
    """Random schemes with small numbers for the channels of convolutions, in any number of groups."""

    sizes: Sizes = Sizes(plain=(2, 4), outputs=(2, 4))

    def numbers(self, step: Instruction, state: State) -> Iterable[Mapping[str, Dimension]] | None:
        """One size of the channels of a convolution."""
        if traits(step.term.operator).product is not Product.CONVOLUTION:
            return None
        found = channel_sizes([state.known(place) for place in step.inputs], self.sizes)
        return found and self.arranged(found)


@lru_cache(maxsize=256)
def _programs(equation: Equation) -> tuple[Program, Program]:
    """The equation, with the left or the right side first."""
    return Program(equation), Program(replace(equation, left=equation.right, right=equation.left))


@lru_cache(maxsize=1024)
def _names_and_applications(equation: Equation) -> tuple[tuple[str, ...], tuple[Application, ...]]:
    terms = equation.terms
    return tuple(variables(*terms)), tuple(applications(*terms))
