"""Schemes of an equation: random ranks and attribute values, symbols for sizes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.ir.dimensions import Dimension, as_symbol, solve, substitute, symbol
from superopt.ir.terms import Equation, Term, Variable, applications
from superopt.ir.types import ElementType, TensorType
from superopt.ops.attributes import substituted
from superopt.ops.roles import Product
from superopt.ops.traits import traits
from superopt.rewriting.divisions import divisions_needed, variable_type
from superopt.rewriting.typing import Typing, infer_terms, leaves_shape_out
from superopt.verifier.instances.divided import divided_forms
from superopt.verifier.instances.program import Instruction, Program
from superopt.verifier.instances.requirements import solve_rounded
from superopt.verifier.instances.search import (
    IMPLICIT,
    State,
    TypingSearch,
    solved_for_implicit,
)
from superopt.verifier.instances.values import likely_values

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

    @property
    def kind(self) -> tuple[object, ...]:
        """What tells schemes apart: types and attribute values."""
        return (
            *(f"{name}: {type_}" for name, type_ in sorted(self.types.items())),
            *((name, repr(value)) for name, value in sorted(self.attributes.items())),
        )


class SchemeSearch(TypingSearch):
    """Random schemes of one equation, the same for the same generator."""

    def __init__(self, equation: Equation, generator: random.Random) -> None:
        swapped = replace(equation, left=equation.right, right=equation.left)
        self._programs = (Program(equation), Program(swapped))
        super().__init__(self._programs[0], LARGEST_RANK)
        self._random = generator
        self._counter = itertools.count()

    def __iter__(self) -> Iterator[Scheme]:
        """Different schemes; gives up when eight searches in a row find nothing new."""
        met: set[object] = set()
        failures = 0
        while failures < _FAILURES:
            self.program = self._random.choice(self._programs)
            state = next(self.leaves(_STATES_PER_SCHEME), None)
            scheme = None if state is None else self._scheme(state)
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

    def undecided(self, mismatch: DimensionMismatchError, state: State) -> Iterable[Mapping[str, Dimension]]:
        """Equal operands of equal divisions."""
        del state
        solution = solve_rounded(mismatch.left, mismatch.right)
        return (solution,) if solution else ()

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

    def _scheme(self, state: State) -> Scheme | None:
        """With output types unified, without touching the sizes of inputs where that can be."""
        required = self.with_implied_sizes(state)
        state, _ = self.agreed(required, solved_for_implicit)
        names, steps = self.program.names, self.program.steps
        if any(state.known(left) != state.known(right) for left, right in self.program.outputs):
            given = {name: required.known(place) for place, name in enumerate(names)}
            return self._disagreeing(given, required.attributes)
        inputs = {name: state.known(place) for place, name in enumerate(names)}
        types: dict[Term, TensorType] = {Variable(name): type_ for name, type_ in inputs.items()}
        try:
            operators = self.operators(state)
        except IllTypedError:
            return None
        types |= {step.term: state.known(step.place) for step in steps}
        typing = Typing(types, dict(zip((step.term for step in steps), operators, strict=True)), {})
        return Scheme(inputs, state.attributes, typing)

    def _disagreeing(
        self, types: Mapping[str, TensorType], attributes: Mapping[str, object]
    ) -> Scheme | None:
        """Typed anew, with nothing decided of what the text leaves out.

        Where output types are equal only for other sizes of inputs although both sides are well-typed, an
        equation that says all sizes claims that values of different types are equal, and the instances must
        show it. One that leaves shapes of constants out claims nothing there.
        """
        equation = self.program.equation
        terms = (*equation.left, *equation.right)
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
