"""Exhaustive enumeration of the cases of an equation up to a bound.

Operators that compute with sizes (windows, groups, numbers of elements) get numbers first. At the end numbers
are put in for the symbols that are left, every operator is asked again, and the conditions are checked: what
comes out is well-typed whatever happened before.

Implicit attributes (cuts of halves, shapes of constants) range over the bound; with given types of inputs
they are those for which the types of both sides agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from superopt.errors import IllTypedError
from superopt.instances.divided import divided_forms
from superopt.instances.program import COMPUTING_WITH_SIZES, Case, Implicit, Instruction, Program
from superopt.instances.search import (
    State,
    TypingSearch,
    implicit_symbols,
    solved_for_implicit,
    substituted,
)
from superopt.instances.values import Bound
from superopt.ir.dimensions import Dimension, symbol
from superopt.ir.numbers import AttributeVariable
from superopt.ir.types import ElementType, TensorType
from superopt.rewriting.conditions import holds

Sizes = Mapping[tuple[str, int], Sequence[int]]


class ExhaustiveSearch(TypingSearch):
    """Restrictions of the bound: ``sizes`` of single axes of inputs, ``choices`` of attribute variables,
    ``ranks`` of inputs.
    """

    def __init__(
        self,
        program: Program,
        bound: Bound,
        sizes: Sizes | None = None,
        choices: Mapping[str, Sequence[object]] | None = None,
        ranks: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(program, bound.max_rank)
        self._bound = bound
        self._sizes = sizes or {}
        self._choices = choices or {}
        self._ranks = ranks or {}

    def cases(self) -> Iterator[Case]:
        """All well-typed cases in which the conditions hold, in an order that depends on nothing else."""
        for state in self.leaves():
            if not self._is_spelled_otherwise(state):
                yield from self._cases_of(state)

    def fresh(self, name: str, rank: int, attributes: Mapping[str, object]) -> Sequence[TensorType]:
        """One with a symbol for each size that is open; divided where the equation asks for that."""
        del attributes
        if self._ranks.get(name, rank) != rank:
            return ()
        sizes: list[Dimension] = []
        for axis in range(rank):
            allowed = self._sizes.get((name, axis), ())
            sizes.append(allowed[0] if len(allowed) == 1 else symbol(f"{name}.{axis}"))
        type_ = TensorType(ElementType.FLOAT, tuple(sizes))
        operators = self.program.demanding.get(name)
        return tuple(divided_forms(type_, operators)) if operators else (type_,)

    def values(self, name: str, step: Instruction, attribute: str, state: State) -> Iterable[object]:
        """All of the bound."""
        inputs = [state.known(place) for place in step.inputs]
        return self._choices.get(name) or self._bound.values(step.term.operator, attribute, inputs)

    def numbers(self, step: Instruction, state: State) -> Iterable[Mapping[str, Dimension]] | None:
        """All sizes of the inputs of what computes with them."""
        if step.term.operator not in COMPUTING_WITH_SIZES:
            return None
        symbols = frozenset[str]().union(*(state.known(place).symbols for place in step.inputs))
        return self._numbers(symbols) if symbols else None

    def case(
        self, types: tuple[TensorType, ...], attributes: Mapping[str, object], implicit: Sequence[Implicit]
    ) -> Case | None:
        """The case with these types; None when it is ill-typed or a condition does not hold."""
        try:
            operators = self.operators(State(types, attributes, tuple(implicit)))
            inferred = self.program.inferred(types, operators)
        except IllTypedError:
            return None
        if not all(type_.is_sized for type_ in inferred):
            return None
        named = dict(zip(self.program.names, types, strict=True))
        if not all(holds(condition, named, attributes) for condition in self.program.equation.conditions):
            return None
        outputs = [(inferred[left], inferred[right]) for left, right in self.program.outputs]
        return Case(
            types,
            attributes,
            tuple(operators),
            tuple(left for left, _ in outputs),
            all(left == right for left, right in outputs),
        )

    def _numbers(self, symbols: Iterable[str]) -> Iterator[dict[str, Dimension]]:
        ordered = sorted(symbols)
        ranges = [self._range(name) for name in ordered]
        return (dict(zip(ordered, numbers, strict=True)) for numbers in itertools.product(*ranges))

    def _range(self, name: str) -> Sequence[int]:
        variable, _, axis = name.rpartition(".")
        allowed = self._sizes.get((variable, int(axis))) if axis.isdecimal() and variable else None
        return self._bound.sizes if allowed is None else allowed

    def _cases_of(self, state: State) -> Iterator[Case]:
        """Numbers for the symbols that are left."""
        solved, possible = self.agreed(state, solved_for_implicit)
        inputs = cast("tuple[TensorType, ...]", solved.types[: len(self.program.names)])
        own = frozenset[str]().union(*(type_.symbols for type_ in inputs))
        implicit = implicit_symbols(solved) - own
        for numbers in self._numbers(own):
            cases = self._with_implicit(solved, inputs, numbers, implicit)
            yield from cases if possible else itertools.islice(cases, 1)

    def _with_implicit(
        self,
        state: State,
        inputs: Sequence[TensorType],
        numbers: Mapping[str, Dimension],
        symbols: frozenset[str],
    ) -> Iterator[Case]:
        types = tuple(type_.substitute(numbers) for type_ in inputs)
        if not self._within_bound(types):
            return
        for further in self._numbers(symbols):
            all_numbers = {**numbers, **further}
            implicit = [substituted(values, all_numbers) for values in state.implicit]
            case = self.case(types, state.attributes, implicit)
            if case is not None:
                yield case

    def _is_spelled_otherwise(self, state: State) -> bool:
        """Whether a negative axis, or a swap without a permutation, means what another value means too."""
        for name, value in state.attributes.items():
            if value != () and not (isinstance(value, int) and value < 0):
                continue
            uses = [step for step in self.program.steps if AttributeVariable(name) in _axis_values(step)]
            if uses and len({state.known(step.inputs[0]).rank for step in uses}) == 1:
                return True
        return False

    def _within_bound(self, types: Sequence[TensorType]) -> bool:
        for name, type_ in zip(self.program.names, types, strict=True):
            for axis, size in enumerate(type_.shape):
                if size not in self._sizes.get((name, axis), self._bound.sizes):
                    return False
        return True


def _axis_values(step: Instruction) -> tuple[object, object]:
    return step.term.attribute("axis"), step.term.attribute("perm")
