"""All cases of an equation up to a bound, found by unification: ranks and values are tried, sizes solved for.

Depth first over the applications, inputs first. Ranks are tried for the inputs that an application meets
first, values for its attribute variables; then its own inference is asked, with a symbol for every size, and
each mismatch that it reports is solved for one symbol. Operators that compute with sizes (windows, groups,
numbers of elements) get numbers first. At the end numbers are put in for the symbols that are left, every
operator is asked again, and the conditions are checked: what comes out is well-typed whatever happened
before.

Implicit attributes (cuts of halves, shapes of constants) range over the bound; with given types of inputs
they are those for which the types of both sides agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from superopt.errors import DimensionMismatchError, IllTypedError, RankMismatchError
from superopt.ir.dimensions import Dimension, solve, substitute, symbol, symbols_of
from superopt.ir.terms import AttributeVariable
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME, ElementType, TensorType
from superopt.ops.traits import HALVES, named, traits
from superopt.rewriting.conditions import computed, holds
from superopt.verifier.divided import divided_forms
from superopt.verifier.exhaustive.parameters import Bound
from superopt.verifier.exhaustive.program import Case, Implicit, Instruction, Program

IMPLICIT = "?"
_NUMBERS_FIRST = named(
    lambda operator: (
        operator.windowed
        or operator.kernel_input is not None
        or operator.repeats
        or operator.positions is None
    )
)

Sizes = Mapping[tuple[str, int], Sequence[int]]


@dataclass(frozen=True)
class _State:
    """What is known half-way: types of values, values of attribute variables, implicit attributes, cuts."""

    types: tuple[TensorType | None, ...]
    attributes: Mapping[str, object]
    implicit: tuple[Implicit, ...] = ()
    cuts: Mapping[tuple[int, int], Dimension] = field(default_factory=dict[tuple[int, int], Dimension])

    def solved(self, assignment: Mapping[str, Dimension]) -> _State:
        if not assignment:
            return self
        return _State(
            tuple(t and t.substitute(assignment) for t in self.types),
            self.attributes,
            tuple(substituted(values, assignment) for values in self.implicit),
            {place: substitute(cut, assignment) for place, cut in self.cuts.items()},
        )

    def with_input(self, place: int, type_: TensorType) -> _State:
        types = (*self.types[:place], type_, *self.types[place + 1 :])
        return _State(types, self.attributes, self.implicit, self.cuts)


@dataclass(frozen=True)
class TypingSearch:
    """Restrictions of the bound: ``sizes`` of single axes of inputs, ``values`` of attribute variables,
    ``ranks`` of inputs.
    """

    program: Program
    bound: Bound
    sizes: Sizes = field(default_factory=dict[tuple[str, int], Sequence[int]])
    values: Mapping[str, Sequence[object]] = field(default_factory=dict[str, Sequence[object]])
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])

    def cases(self) -> Iterator[Case]:
        """All well-typed cases in which the conditions hold, in an order that depends on nothing else."""
        yield from self._extend(_State(self._declared(), {}), 0)

    def _declared(self) -> tuple[TensorType | None, ...]:
        types: dict[str, TensorType] = {}
        for name, declared in self.program.equation.types:
            element = ELEMENT_TYPES_BY_SHORT_NAME.get(declared.element)
            if element is None:
                raise IllTypedError(f"{name}: unknown element type {declared.element}")
            shape = tuple(d if isinstance(d, int) else symbol(d) for d in declared.shape)
            types[name] = TensorType(element, shape)
        return tuple(types.get(name) for name in self.program.names)

    def _extend(self, state: _State, index: int) -> Iterator[Case]:
        if index == len(self.program.steps):
            yield from self._completed(state)
            return
        step = self.program.steps[index]
        for ranked in self._ranked(step.inputs, state):
            if self._ranks_fit(step, ranked):
                for typed in self._all_typed(step, ranked):
                    yield from self._extend(typed, index + 1)

    def _ranks_fit(self, step: Instruction, state: _State) -> bool:
        """False when the operator refuses the ranks, whatever the sizes: asked once, before numbers."""
        if step.term.operator not in _NUMBERS_FIRST:
            return True
        valued = next(self._valued(step, state), None)
        opened = None if valued is None else next(self._opened(step, valued), None)
        if opened is None:
            return True
        try:
            operator = self.program.operator(step, opened.attributes, opened.implicit[-1])
            operator.infer(*(_known(state, place) for place in step.inputs))
        except RankMismatchError:
            return False
        except IllTypedError:
            pass
        return True

    def _all_typed(self, step: Instruction, state: _State) -> Iterator[_State]:
        for sized in self._with_numbers(step, state):
            for valued in self._valued(step, sized):
                for opened in self._opened(step, valued):
                    typed = self._typed(step, opened)
                    if typed is not None:
                        yield typed

    def _ranked(self, places: Iterable[int], state: _State) -> Iterator[_State]:
        missing = [place for place in dict.fromkeys(places) if state.types[place] is None]
        for types in itertools.product(*(self._all_fresh(self.program.names[place]) for place in missing)):
            ranked = state
            for place, type_ in zip(missing, types, strict=True):
                ranked = ranked.with_input(place, type_)
            yield ranked

    def _all_fresh(self, name: str) -> list[TensorType]:
        """Types of an input of all ranks; divided where the equation asks for that."""
        operators = self.program.demanding.get(name)
        whole = [self._fresh(name, rank) for rank in self._ranks(name)]
        return [form for type_ in whole for form in divided_forms(type_, operators)] if operators else whole

    def _ranks(self, name: str) -> Sequence[int]:
        known = self.ranks.get(name)
        return range(self.bound.max_rank + 1) if known is None else (known,)

    def _fresh(self, name: str, rank: int) -> TensorType:
        sizes: list[Dimension] = []
        for axis in range(rank):
            allowed = self.sizes.get((name, axis), ())
            sizes.append(allowed[0] if len(allowed) == 1 else symbol(f"{name}.{axis}"))
        return TensorType(ElementType.FLOAT, tuple(sizes))

    def _with_numbers(self, step: Instruction, state: _State) -> Iterator[_State]:
        if step.term.operator not in _NUMBERS_FIRST:
            yield state
            return
        symbols = frozenset[str]().union(*(_known(state, place).symbols for place in step.inputs))
        for numbers in self._numbers(symbols):
            yield state.solved(numbers)

    def _numbers(self, symbols: Iterable[str]) -> Iterator[dict[str, Dimension]]:
        ordered = sorted(symbols)
        ranges = [self._range(name) for name in ordered]
        return (dict(zip(ordered, numbers, strict=True)) for numbers in itertools.product(*ranges))

    def _range(self, name: str) -> Sequence[int]:
        variable, _, axis = name.rpartition(".")
        allowed = self.sizes.get((variable, int(axis))) if axis.isdecimal() and variable else None
        return self.bound.sizes if allowed is None else allowed

    def _valued(self, step: Instruction, state: _State) -> Iterator[_State]:
        given = {**state.attributes, **computed(self.program.equation.conditions, state.attributes)}
        unknown = [
            (attribute, value.name)
            for attribute, value in step.term.attributes
            if isinstance(value, AttributeVariable) and value.name not in given
        ]
        inputs = [_known(state, place) for place in step.inputs]
        pools = [
            self.values.get(name) or self.bound.values(step.term.operator, attribute, inputs)
            for attribute, name in unknown
        ]
        for values in itertools.product(*pools):
            chosen = dict(zip((name for _, name in unknown), values, strict=True))
            attributes = {**given, **chosen}
            yield _State(state.types, attributes, state.implicit, state.cuts)

    def _opened(self, step: Instruction, state: _State) -> Iterator[_State]:
        """States with symbols for implicit attributes; shapes at every rank."""
        if not step.implicit:
            yield _State(state.types, state.attributes, (*state.implicit, {}), state.cuts)
            return
        (name,) = step.implicit
        if name == "shape":
            low = _known(state, step.inputs[0]).rank if step.inputs else 0
            for rank in range(low, self.bound.max_rank + 1):
                shape = tuple(symbol(f"{IMPLICIT}{step.place}.{axis}") for axis in range(rank))
                yield _State(state.types, state.attributes, (*state.implicit, {name: shape}), state.cuts)
            return
        cuts, size = state.cuts, cast("Dimension", symbol(f"{IMPLICIT}{step.place}"))
        place = self._cut_place(step, state)
        if place is not None:
            size = cuts.get(place, size)
            cuts = {**cuts, place: size}
        yield _State(state.types, state.attributes, (*state.implicit, {name: size}), cuts)

    def _cut_place(self, step: Instruction, state: _State) -> tuple[int, int] | None:
        """What is cut and along which axis; the halves of a concat along its own axis are its operands."""
        if step.term.operator not in HALVES:
            return None
        (whole,) = step.inputs
        rank = _known(state, whole).rank
        axis = self._axis(step, state)
        return (whole, axis % rank) if axis is not None and -rank <= axis < rank else None

    def _axis(self, step: Instruction, state: _State) -> int | None:
        value = step.term.attribute("axis")
        axis = state.attributes[value.name] if isinstance(value, AttributeVariable) else value
        return axis if isinstance(axis, int) else None

    def _typed(self, step: Instruction, state: _State) -> _State | None:
        """The state with the type of the step's value, sizes solved for; None when it is ill-typed."""
        while True:
            try:
                operator = self.program.operator(step, state.attributes, state.implicit[-1])
                types = [_known(state, place) for place in step.inputs]
                (output,) = operator.infer(*types)
            except DimensionMismatchError as mismatch:
                assignment = _solution(mismatch)
                if not assignment:
                    return None
                state = state.solved(assignment)
            except IllTypedError:
                return None
            else:
                return _State(
                    (*state.types, output), state.attributes, state.implicit, self._cuts(step, state)
                )

    def _cuts(self, step: Instruction, state: _State) -> Mapping[tuple[int, int], Dimension]:
        if not traits(step.term.operator).joins or len(step.inputs) != 2:
            return state.cuts
        first, axis = _known(state, step.inputs[0]), self._axis(step, state)
        if axis is None:
            return state.cuts
        return {**state.cuts, (step.place, axis % first.rank): first.shape[axis]}

    def _completed(self, state: _State) -> Iterator[Case]:
        """Numbers for the symbols that are left."""
        if self._is_spelled_otherwise(state):
            return
        for ranked in self._ranked(range(len(self.program.names)), state):
            solved, possible = self._outputs_solved(ranked)
            inputs = cast("tuple[TensorType, ...]", solved.types[: len(self.program.names)])
            own = frozenset[str]().union(*(type_.symbols for type_ in inputs))
            implicit = frozenset[str]().union(*map(_symbols, solved.implicit)) - own
            for numbers in self._numbers(own):
                cases = self._with_implicit(solved, inputs, numbers, implicit)
                yield from cases if possible else itertools.islice(cases, 1)

    def _is_spelled_otherwise(self, state: _State) -> bool:
        """Whether a negative axis, or a swap without a permutation, means what another value means too."""
        for name, value in state.attributes.items():
            if value != () and not (isinstance(value, int) and value < 0):
                continue
            uses = [step for step in self.program.steps if AttributeVariable(name) in _axis_values(step)]
            if uses and len({_known(state, step.inputs[0]).rank for step in uses}) == 1:
                return True
        return False

    def _with_implicit(
        self,
        state: _State,
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

    def _outputs_solved(self, state: _State) -> tuple[_State, bool]:
        """Implicit sizes solved so that output types agree, and whether they can; sizes of inputs stay."""
        for left, right in self.program.outputs:
            rank = _known(state, left).rank
            if rank != _known(state, right).rank:
                return state, False
            for index in range(rank):
                one, two = _known(state, left).shape[index], _known(state, right).shape[index]
                own = (name for name in symbols_of(one) | symbols_of(two) if not name.startswith(IMPLICIT))
                solution = solve(one, two, frozenset(own))
                if solution is None and isinstance(one - two, int):
                    return state, False
                state = state.solved(solution or {})
        return state, True

    def case(
        self, types: tuple[TensorType, ...], attributes: Mapping[str, object], implicit: Sequence[Implicit]
    ) -> Case | None:
        """The case with these types; None when it is ill-typed or a condition does not hold."""
        try:
            operators = [
                self.program.operator(step, attributes, values)
                for step, values in zip(self.program.steps, implicit, strict=True)
            ]
            inferred = self.program.inferred(types, operators)
        except IllTypedError:
            return None
        if not all(size > 0 for type_ in inferred for size in cast("tuple[int, ...]", type_.shape)):
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

    def _within_bound(self, types: Sequence[TensorType]) -> bool:
        for name, type_ in zip(self.program.names, types, strict=True):
            for axis, size in enumerate(type_.shape):
                if size not in self.sizes.get((name, axis), self.bound.sizes):
                    return False
        return True


def substituted(values: Implicit, assignment: Mapping[str, Dimension]) -> Implicit:
    """Implicit attributes with symbols replaced."""
    return {
        name: tuple(substitute(size, assignment) for size in value)
        if isinstance(value, tuple)
        else substitute(value, assignment)
        for name, value in values.items()
    }


def _symbols(values: Implicit) -> frozenset[str]:
    parts = (value if isinstance(value, tuple) else (value,) for value in values.values())
    return frozenset(name for part in parts for size in part for name in symbols_of(size))


def _axis_values(step: Instruction) -> tuple[object, object]:
    return step.term.attribute("axis"), step.term.attribute("perm")


def _known(state: _State, place: int) -> TensorType:
    type_ = state.types[place]
    if type_ is None:
        raise IllTypedError(f"the type of value {place} is not known yet")
    return type_


def _solution(mismatch: DimensionMismatchError) -> Mapping[str, Dimension] | None:
    """Implicit symbols are solved for first."""
    left, right = mismatch.left, mismatch.right
    own = (name for name in symbols_of(left) | symbols_of(right) if not name.startswith(IMPLICIT))
    return solve(left, right, frozenset(own)) or solve(left, right)
