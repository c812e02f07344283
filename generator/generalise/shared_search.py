"""Searches for typings over shared types: the states of ``superopt.instances`` in the same order.

``TypingSearch`` makes every type anew for each size that it solves for, and asks operators again. Here a type
is a number, and what an operator infers is looked up, so that equations with common subterms share both.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.generator.generalise.shared_types import Mismatch, OperatorId, SharedTypes, TypeId
from superopt.instances.program import COMPUTING_WITH_SIZES, Implicit, Instruction
from superopt.instances.schemes import GeneralSearch, GroupedSearch
from superopt.instances.search import IMPLICIT, State, TypingSearch, solved_for_any, substituted
from superopt.ir.dimensions import Dimension, substitute, symbol
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Equation, Variable
from superopt.ir.types import TensorType
from superopt.ops.roles import Product
from superopt.ops.traits import HALVES, traits
from superopt.rewriting.typing import leaves_sizes_out

_MOST_SOLVED = 64
_STATES_APART = 200

Cuts = Mapping[tuple[int, int], Dimension]


@dataclass(frozen=True, slots=True)
class _Shared:
    """A ``State`` with types by number; all inputs have one."""

    types: tuple[TypeId, ...]
    implicit: tuple[Implicit, ...]
    cuts: Cuts


class _SharedSearch(TypingSearch):
    """A search in which types of all inputs and values of all attribute variables are given, and only the
    channels of convolutions may be decided."""

    shared: SharedTypes

    def leaves(self, most: int | None = None) -> Iterator[State]:
        """As ``TypingSearch.leaves``."""
        names = {name for step in self.program.steps for _, name in step.variables}
        if not names <= self._attributes.keys() or not self._types.keys() >= set(self.program.names):
            yield from super().leaves(most)
            return
        start = self.start()
        types = [self.shared.of(start.known(place)) for place in range(len(self.program.names))]
        paths: list[Iterator[_Shared]] = [iter((_Shared(tuple(types), (), {}),))]
        visited = 0
        while paths and (most is None or visited < most):
            state = next(paths[-1], None)
            if state is None:
                paths.pop()
                continue
            visited += 1
            following = self._followed(state)
            if isinstance(following, _Shared):
                yield self._state(following)
            else:
                paths.append(iter(following))

    def _state(self, state: _Shared) -> State:
        types = tuple([self.shared.type(number) for number in state.types])
        return State(types, self._attributes, state.implicit, state.cuts)

    def _followed(self, state: _Shared) -> _Shared | Iterable[_Shared]:
        """As ``TypingSearch.branches``."""
        inputs, steps = len(self.program.names), self.program.steps
        while len(state.types) - inputs < len(steps):
            step = steps[len(state.types) - inputs]
            if step.term.operator in COMPUTING_WITH_SIZES and not self._fits(step, state):
                return ()
            if traits(step.term.operator).product is Product.CONVOLUTION:
                numbers = self.numbers(step, self._state(state))
                if numbers is not None:
                    return self._each_solved(state, numbers)
            following = self._with_implicit(step, state)
            if not isinstance(following, _Shared):
                return following
            following = self._with_output(step, following)
            if not isinstance(following, _Shared):
                return following
            state = following
        return state

    def _fits(self, step: Instruction, state: _Shared) -> bool:
        """Whether the operator accepts inputs of these ranks."""
        ranks = tuple([self.shared.type(state.types[place]).rank for place in step.inputs])
        alike = tuple([step.inputs.index(place) for place in step.inputs])
        key = (step.term.operator, step.term.attributes, ranks, alike)
        if step.variables:
            return bool(self._fitting(step, self._state(state)))
        if key not in self.shared.fitting:
            self.shared.fitting[key] = bool(self._fitting(step, self._state(state)))
        return self.shared.fitting[key]

    def _each_solved(self, state: _Shared, choices: Iterable[Mapping[str, Dimension]]) -> Iterator[_Shared]:
        return (self._solved(state, sizes) for sizes in choices)

    def _solved(self, state: _Shared, assignment: Mapping[str, Dimension]) -> _Shared:
        """As ``State.solved``; values of attribute variables have no symbols."""
        if not assignment:
            return state
        changed = self.shared.substituted
        return _Shared(
            tuple([changed(number, assignment) for number in state.types]),
            tuple([values and substituted(values, assignment) for values in state.implicit]),
            {place: substitute(cut, assignment) for place, cut in state.cuts.items()},
        )

    def _with_implicit(self, step: Instruction, state: _Shared) -> _Shared | Iterator[_Shared]:
        """With symbols for implicit attributes; with one state for each rank of a shape."""
        if len(state.implicit) > len(state.types) - len(self.program.names):
            return state
        if not step.implicit:
            return _Shared(state.types, (*state.implicit, {}), state.cuts)
        (name,) = step.implicit
        if name == "shape":
            low = self.shared.type(state.types[step.inputs[0]]).rank if step.inputs else 0
            ranks = self.arranged(range(low, self.largest_rank + 1))
            return (
                _Shared(state.types, (*state.implicit, {name: _shape(step, rank)}), state.cuts)
                for rank in ranks
            )
        cuts, size = state.cuts, symbol(f"{IMPLICIT}{step.place}")
        place = self._place_of_cut(step, state)
        known = size if place is None else cuts.get(place, size)
        if place is not None:
            cuts = {**cuts, place: known}
        return _Shared(state.types, (*state.implicit, {name: known}), cuts)

    def _place_of_cut(self, step: Instruction, state: _Shared) -> tuple[int, int] | None:
        """What is cut and along which axis."""
        if step.term.operator not in HALVES:
            return None
        (whole,) = step.inputs
        rank, axis = self.shared.type(state.types[whole]).rank, self._axis_of(step)
        return (whole, axis % rank) if axis is not None and -rank <= axis < rank else None

    def _axis_of(self, step: Instruction) -> int | None:
        value = step.term.attribute("axis")
        axis = self._attributes[value.name] if isinstance(value, AttributeVariable) else value
        return axis if isinstance(axis, int) else None

    def _with_output(self, step: Instruction, state: _Shared) -> _Shared | Iterable[_Shared]:
        """With the type of the step's value, sizes solved for; the states after what must be decided; none
        where it is ill-typed."""
        for _ in range(_MOST_SOLVED):
            operator = self._operator_of(step, state)
            if operator is None:
                return ()
            output = self.shared.inferred(operator, tuple([state.types[place] for place in step.inputs]))
            if output is None:
                return ()
            if not isinstance(output, Mismatch):
                cuts = self._cuts_with(step, state)
                return _Shared((*state.types, output), state.implicit, cuts)
            assignment = solved_for_any(output.left, output.right)
            if not assignment:
                mismatch = DimensionMismatchError(output.left, output.right, step.term.operator)
                return self._each_solved(state, self.undecided(mismatch, self._state(state)))
            state = self._solved(state, assignment)
        return ()

    def _operator_of(self, step: Instruction, state: _Shared) -> OperatorId | None:
        implicit = state.implicit[-1]
        if implicit or step.variables:
            return self._made(step, implicit)
        key = (step.term.operator, step.term.attributes)
        if key not in self.shared.written:
            self.shared.written[key] = self._made(step, implicit)
        return self.shared.written[key]

    def _made(self, step: Instruction, implicit: Implicit) -> OperatorId | None:
        try:
            return self.shared.operator_id(self.program.operator(step, self._attributes, implicit))
        except IllTypedError:
            return None

    def _cuts_with(self, step: Instruction, state: _Shared) -> Cuts:
        if not traits(step.term.operator).joins or len(step.inputs) != 2:
            return state.cuts
        first, axis = self.shared.type(state.types[step.inputs[0]]), self._axis_of(step)
        if axis is None:
            return state.cuts
        return {**state.cuts, (step.place, axis % first.rank): first.shape[axis]}


class SharedGeneralSearch(_SharedSearch, GeneralSearch):
    """``GeneralSearch`` over shared types."""

    def __init__(
        self,
        shared: SharedTypes,
        equation: Equation,
        types: Mapping[str, TensorType],
        attributes: Mapping[str, object],
    ) -> None:
        self.shared = shared
        super().__init__(equation, types, attributes)

    def apart(self, state: State) -> Mapping[str, TensorType]:
        """As ``GeneralSearch.apart``."""
        equation, types = self.program.equation, self._types
        if not all(any(map(leaves_sizes_out, side)) for side in (equation.left, equation.right)):
            return self.inputs(state)
        for side in (equation.right, equation.left):
            outputs = (*side, *map(Variable, self.program.names))
            alone = replace(equation, left=outputs, right=outputs)
            search = SharedGeneralSearch(self.shared, alone, types, self._attributes)
            found = next(search.leaves(_STATES_APART), None)
            types = types if found is None else search.inputs(found)
        return types


class SharedGroupedSearch(_SharedSearch, GroupedSearch):
    """``GroupedSearch`` over shared types."""

    def __init__(
        self,
        shared: SharedTypes,
        equation: Equation,
        generator: random.Random,
        types: Mapping[str, TensorType],
        attributes: Mapping[str, object],
    ) -> None:
        self.shared = shared
        super().__init__(equation, generator, types, attributes)


def _shape(step: Instruction, rank: int) -> tuple[Dimension, ...]:
    """Symbols for an implicit shape."""
    return tuple([symbol(f"{IMPLICIT}{step.place}.{axis}") for axis in range(rank)])
