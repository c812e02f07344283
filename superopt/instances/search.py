"""Typed instances of an equation by propagation: what must be decided, and what follows from it.

The terms are typed inputs first. Where an application meets variables without a type, their ranks are
decided; then the values of its attribute variables; then its own inference is asked, with symbols for sizes,
and each mismatch that it reports is solved for one symbol. Shapes of constants have each rank, cuts of halves
are symbols. A subclass says which choices there are, which sizes must be numbers before an application is
asked, and what to do with the state in which everything has a type.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.instances.program import COMPUTING_WITH_SIZES, Implicit, Instruction, Program
from superopt.instances.ranks import fitting_ranks
from superopt.instances.requirements import implied_sizes
from superopt.ir.dimensions import Dimension, solve, substitute, symbol, symbols_of
from superopt.ir.numbers import AttributeVariable, NumberExpression, substituted_number
from superopt.ir.terms import Condition, ConditionCall
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME, TensorType
from superopt.ops import attributes as written
from superopt.ops.base import Operator
from superopt.ops.traits import HALVES, traits
from superopt.rewriting.conditions import computed, holds, names_in

IMPLICIT = "?"
"""First character of the symbols for what the text leaves out."""

_MOST_SOLVED = 64
"""Sizes of one application; a mismatch of symbols that no type has would come again."""

T = TypeVar("T")
Solver = Callable[[Dimension, Dimension], "Mapping[str, Dimension] | None"]


@dataclass(frozen=True)
class State:
    """What is known half-way: types of values, values of attribute variables, implicit attributes, cuts.

    ``types`` has the inputs and then the applications typed so far, ``implicit`` may be one step ahead.
    ``decided`` has sizes that are not put in yet.
    """

    types: tuple[TensorType | None, ...]
    attributes: Mapping[str, object]
    implicit: tuple[Implicit, ...] = ()
    cuts: Mapping[tuple[int, int], Dimension] = field(default_factory=dict[tuple[int, int], Dimension])
    decided: Mapping[str, Dimension] = field(default_factory=dict[str, Dimension])

    @property
    def current(self) -> State:
        """The state with what was decided put in."""
        return self.solved(self.decided)

    def deciding(self, sizes: Mapping[str, Dimension]) -> State:
        """The state in which these sizes are decided."""
        return State(self.types, self.attributes, self.implicit, self.cuts, sizes)

    def solved(self, assignment: Mapping[str, Dimension]) -> State:
        """The state with sizes for symbols."""
        if not assignment:
            return self
        return State(
            tuple(type_ and type_.substitute(assignment) for type_ in self.types),
            {name: written.substituted(value, assignment) for name, value in self.attributes.items()},
            tuple(substituted(values, assignment) for values in self.implicit),
            {place: substitute(cut, assignment) for place, cut in self.cuts.items()},
        )

    def with_inputs(self, types: Mapping[int, TensorType]) -> State:
        """The state with types of these inputs."""
        found = tuple(types.get(place, type_) for place, type_ in enumerate(self.types))
        return replace(self, types=found)

    def known(self, place: int) -> TensorType:
        """The type of a value; raises IllTypedError when it has none yet."""
        type_ = self.types[place]
        if type_ is None:
            raise IllTypedError(f"the type of value {place} is not known yet")
        return type_


_ANY = 1
"""A number in place of calculated ones where only ranks matter, which do not depend on it."""


class TypingSearch(ABC):
    """The decisions of one equation; ``types`` of inputs and values of ``attributes`` may be given."""

    def __init__(
        self,
        program: Program,
        largest_rank: int,
        types: Mapping[str, TensorType] | None = None,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        self.program = program
        self.largest_rank = largest_rank
        self._types = types or {}
        self._attributes = attributes or {}
        conditions = program.equation.conditions
        self._about_ranks = [(c, names_in(c)) for c in conditions if _is_about_ranks(c)]

    @abstractmethod
    def fresh(self, name: str, rank: int, attributes: Mapping[str, object]) -> Sequence[TensorType]:
        """Types of that rank for an input, with symbols or numbers for sizes."""

    @abstractmethod
    def values(self, name: str, step: Instruction, attribute: str, state: State) -> Iterable[object]:
        """Values for an attribute variable, where the step is the first to have it."""

    def arranged(self, choices: Sequence[T]) -> Sequence[T]:
        """Ranks in the order in which they are to be tried."""
        return choices

    def numbers(self, step: Instruction, state: State) -> Iterable[Mapping[str, Dimension]] | None:
        """Sizes among which to decide before the step is typed; None when there is nothing to decide."""
        del step, state

    def undecided(self, mismatch: DimensionMismatchError, state: State) -> Iterable[Mapping[str, Dimension]]:
        """Sizes to try where a mismatch cannot be solved for a symbol."""
        del mismatch, state
        return ()

    def begun(self, state: State) -> State:
        """The state after types of inputs have been decided."""
        return state

    def start(self) -> State:
        """The state in which declared and given inputs have their types; raises IllTypedError for an unknown
        element type."""
        types: dict[str, TensorType] = {}
        for name, declared in self.program.equation.types:
            element = ELEMENT_TYPES_BY_SHORT_NAME.get(declared.element)
            if element is None:
                raise IllTypedError(f"{name}: unknown element type {declared.element}")
            shape = tuple(d if isinstance(d, int) else symbol(d) for d in declared.shape)
            types[name] = TensorType(element, shape)
        types |= self._types
        state = State(tuple(types.get(name) for name in self.program.names), self._attributes)
        return self.begun(state) if types else state

    def branches(self, state: State) -> State | Iterable[State]:
        """The states after each choice of the next decision; the state itself, with all that follows, when
        nothing is left to decide."""
        inputs, steps = len(self.program.names), self.program.steps
        state = state.current
        while len(state.types) - inputs < len(steps):
            step = steps[len(state.types) - inputs]
            unranked = any(state.types[place] is None for place in step.inputs)
            asked = unranked or step.term.operator in COMPUTING_WITH_SIZES
            ranks = self._fitting(step, state) if asked else ((),)
            if unranked or not ranks:
                return self._with_ranks(step.inputs, ranks, state)
            numbers = self.numbers(step, state)
            if numbers is not None:
                return map(state.deciding, numbers)
            state, undecided = self._valued(step, state)
            if undecided is not None:
                return undecided
            following = self._opened(step, state)
            if not isinstance(following, State):
                return following
            following = self._typed(step, following)
            if not isinstance(following, State):
                return following
            state = following
        missing = [place for place in range(inputs) if state.types[place] is None]
        if missing:
            every = range(self.largest_rank + 1)
            return self._with_ranks(missing, itertools.product(every, repeat=len(missing)), state)
        return state

    def leaves(self, most: int | None = None) -> Iterator[State]:
        """The states in which nothing is left to decide, depth first; looks at ``most`` states."""
        paths = [iter((self.start(),))]
        visited = 0
        while paths and (most is None or visited < most):
            state = next(paths[-1], None)
            if state is None:
                paths.pop()
                continue
            visited += 1
            following = self.branches(state)
            if isinstance(following, State):
                yield following
            else:
                paths.append(iter(following))

    def operators(self, state: State) -> list[Operator]:
        """The operators of all steps; raises IllTypedError for values that they do not take."""
        pairs = zip(self.program.steps, state.implicit, strict=True)
        return [self.program.operator(step, state.attributes, implicit) for step, implicit in pairs]

    def agreed(self, state: State, solution: Solver) -> tuple[State, bool]:
        """Sizes solved so that output types agree, as far as that is found, and whether they can."""
        for left, right in self.program.outputs:
            rank = state.known(left).rank
            if rank != state.known(right).rank:
                return state, False
            for index in range(rank):
                one, two = state.known(left).shape[index], state.known(right).shape[index]
                found = solution(one, two)
                if found is None and isinstance(one - two, int):
                    return state, False
                state = state.solved(found or {})
        return state, True

    def is_agreed(self, state: State) -> bool:
        """Whether all output types agree."""
        return all(state.known(left) == state.known(right) for left, right in self.program.outputs)

    def has_equal_shapes(self, state: State) -> bool:
        """Whether all output shapes agree."""
        return all(
            state.known(left).shape == state.known(right).shape for left, right in self.program.outputs
        )

    def inputs(self, state: State) -> dict[str, TensorType]:
        """The types of all inputs; raises IllTypedError when one has none yet."""
        return {name: state.known(place) for place, name in enumerate(self.program.names)}

    def with_implied_sizes(self, state: State) -> State:
        """With the sizes that conditions ask to be equal solved for."""
        conditions = self.program.equation.conditions
        if not conditions:
            return state
        return state.solved(implied_sizes(conditions, self._named(state), state.attributes))

    def _named(self, state: State) -> dict[str, TensorType]:
        types = zip(self.program.names, state.types, strict=False)
        return {name: type_ for name, type_ in types if type_ is not None}

    def _fitting(self, step: Instruction, state: State) -> tuple[tuple[int, ...], ...]:
        """The ranks that the step allows for its inputs without a type."""
        places: dict[int, int] = {}
        pattern: list[tuple[int, int | None]] = []
        for place in step.inputs:
            type_ = state.types[place]
            pattern.append((places.setdefault(place, len(places)), None if type_ is None else type_.rank))
        known = tuple(
            (
                name,
                _ANY if isinstance(value, NumberExpression) else substituted_number(value, state.attributes),
            )
            for name, value in step.term.attributes
        )
        return fitting_ranks(step.term.operator, known, tuple(pattern), self.largest_rank)

    def _with_ranks(
        self, places: Sequence[int], choices: Iterable[tuple[int, ...]], state: State
    ) -> Iterator[State]:
        missing = [place for place in dict.fromkeys(places) if state.types[place] is None]
        for ranks in self.arranged(tuple(choices)):
            fresh = [
                self.fresh(self.program.names[place], rank, state.attributes)
                for place, rank in zip(missing, ranks, strict=True)
            ]
            for types in itertools.product(*fresh):
                typed = state.with_inputs(dict(zip(missing, types, strict=True)))
                named = self._named(typed) if self._about_ranks else {}
                if all(holds(c, named, {}) for c, names in self._about_ranks if names <= named.keys()):
                    yield self.begun(typed)

    def _valued(self, step: Instruction, state: State) -> tuple[State, Iterator[State] | None]:
        """The state with the values that conditions compute; those of the next variable that has none."""
        if all(name in state.attributes for _, name in step.variables):
            return state, None
        conditions = self.program.equation.conditions
        known = {**state.attributes, **computed(conditions, state.attributes)}
        state = State(state.types, known, state.implicit, state.cuts)
        for attribute, name in step.variables:
            if name not in known:
                values = self.values(name, step, attribute, state)
                return state, (
                    State(state.types, {**known, name: value}, state.implicit, state.cuts) for value in values
                )
        return state, None

    def _opened(self, step: Instruction, state: State) -> State | Iterator[State]:
        """With symbols for implicit attributes; with one state for each rank of a shape."""
        if len(state.implicit) > len(state.types) - len(self.program.names):
            return state
        if not step.implicit:
            return State(state.types, state.attributes, (*state.implicit, {}), state.cuts)
        (name,) = step.implicit
        if name == "shape":
            low = state.known(step.inputs[0]).rank if step.inputs else 0
            shapes = (
                tuple(symbol(f"{IMPLICIT}{step.place}.{axis}") for axis in range(rank))
                for rank in self.arranged(range(low, self.largest_rank + 1))
            )
            return (
                State(state.types, state.attributes, (*state.implicit, {name: shape}), state.cuts)
                for shape in shapes
            )
        cuts, size = state.cuts, cast("Dimension", symbol(f"{IMPLICIT}{step.place}"))
        place = self._cut_place(step, state)
        if place is not None:
            size = cuts.get(place, size)
            cuts = {**cuts, place: size}
        return State(state.types, state.attributes, (*state.implicit, {name: size}), cuts)

    def _cut_place(self, step: Instruction, state: State) -> tuple[int, int] | None:
        """What is cut and along which axis; the halves of a concat along its own axis are its operands."""
        if step.term.operator not in HALVES:
            return None
        (whole,) = step.inputs
        rank = state.known(whole).rank
        axis = _axis(step, state)
        return (whole, axis % rank) if axis is not None and -rank <= axis < rank else None

    def _typed(self, step: Instruction, state: State) -> State | Iterable[State]:
        """The state with the type of the step's value, sizes solved for; else those after what must be
        decided, none when it is ill-typed."""
        for _ in range(_MOST_SOLVED):
            try:
                operator = self.program.operator(step, state.attributes, state.implicit[-1])
                (output,) = operator.infer(*(state.known(place) for place in step.inputs))
            except DimensionMismatchError as mismatch:
                assignment = solved_for_any(mismatch.left, mismatch.right)
                if not assignment:
                    return map(state.deciding, self.undecided(mismatch, state))
                state = state.solved(assignment)
            except IllTypedError:
                return ()
            else:
                return State(
                    (*state.types, output), state.attributes, state.implicit, _cuts_after(step, state)
                )
        return ()


def substituted(values: Implicit, assignment: Mapping[str, Dimension]) -> Implicit:
    """Implicit attributes with sizes for symbols."""
    return {
        name: tuple(substitute(size, assignment) for size in value)
        if isinstance(value, tuple)
        else substitute(value, assignment)
        for name, value in values.items()
    }


def solved_for_implicit(left: Dimension, right: Dimension) -> Mapping[str, Dimension] | None:
    """A symbol for what the text leaves out, so that both sizes are equal."""
    if left == right:
        return {}
    names = symbols_of(left) | symbols_of(right)
    own = frozenset(name for name in names if not name.startswith(IMPLICIT))
    return solve(left, right, own) if len(own) < len(names) else None


def solved_for_any(left: Dimension, right: Dimension) -> Mapping[str, Dimension] | None:
    """A symbol, so that both sizes are equal; one for what the text leaves out if there is one."""
    return solved_for_implicit(left, right) or solve(left, right)


def implicit_symbols(state: State) -> frozenset[str]:
    """The symbols in implicit attributes."""
    parts = (part for values in state.implicit for part in values.values())
    sizes = itertools.chain.from_iterable(part if isinstance(part, tuple) else (part,) for part in parts)
    return frozenset(name for size in sizes for name in symbols_of(size))


def _is_about_ranks(condition: Condition) -> bool:
    sides = (condition.left, condition.right)
    calls = [side for side in sides if isinstance(side, ConditionCall)]
    return bool(calls) and all(
        isinstance(side, int) or (isinstance(side, ConditionCall) and side.function == "rank")
        for side in sides
    )


def _axis(step: Instruction, state: State) -> int | None:
    value = step.term.attribute("axis")
    axis = state.attributes[value.name] if isinstance(value, AttributeVariable) else value
    return axis if isinstance(axis, int) else None


def _cuts_after(step: Instruction, state: State) -> Mapping[tuple[int, int], Dimension]:
    if not traits(step.term.operator).joins or len(step.inputs) != 2:
        return state.cuts
    first, axis = state.known(step.inputs[0]), _axis(step, state)
    if axis is None:
        return state.cuts
    return {**state.cuts, (step.place, axis % first.rank): first.shape[axis]}
