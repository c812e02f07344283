"""Complete case analysis of a rule: finitely many cases that cover all of its typings.

A case gives every variable a rank and a shape of polynomials over symbols, and every attribute variable a
value, which may be a symbol. The cases are complete: ranks go up to a bound above which no new failure is
possible (``rank_bound``); an equation between sizes is replaced by all of its solutions (``size_equations``);
the number of groups of a convolution is a symbol, with the channels as its multiples; a broadcast axis is
either 1 or has the size of its target; keywords take each of their values; degrees take each pattern of
divisibility. If completeness cannot be shown, an error is raised and there is no proof.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.instances.instance import Instance
from superopt.ir.dimensions import Dimension, substitute, symbol
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
    applications,
    variables,
)
from superopt.ir.types import TensorType
from superopt.ops.base import OPERATORS, Operator
from superopt.rewriting.conditions import Decision, as_declared, decide, names_in
from superopt.rewriting.divisions import DIVIDING, divisions_needed, variable_type
from superopt.rewriting.typing import Typing, leaves_shape_out, leaves_sizes_out
from superopt.verifier.certificates.attribute_cases import attribute_cases
from superopt.verifier.certificates.case_operators import explicit_attributes, operator_of
from superopt.verifier.certificates.degree_cases import OpenDegrees
from superopt.verifier.certificates.dropped_cases import require_refused, require_unfit, ways_to_fit
from superopt.verifier.certificates.groups import Groups, groups_of
from superopt.verifier.certificates.partial_typing import PartialTyping, UndecidedCasesError, declared_types
from superopt.verifier.certificates.rank_bound import highest_rank
from superopt.verifier.certificates.rank_choices import fitting_ranks
from superopt.verifier.certificates.size_equations import (
    Solution,
    UndecidedSizesError,
    never_positive,
    numbered,
    solutions,
)

MOST_CASES = 10_000
MOST_STEPS = 80_000
"""Maximum number of steps of typing one operator or choosing ranks; few rules need over 35,000."""
_IMPLICIT = "implicit "


def cases_of(
    goal: Equation,
    largest_rank: int,
    whole: Equation | None = None,
    *,
    degrees: OpenDegrees | None = None,
) -> Iterator[Instance]:
    """Yield every case of the rule with tensors of at most that rank. For a part of a ``whole`` rule, tensors
    are divided as the whole rule requires, and all its attribute variables have values. ``degrees`` are those
    of the whole rule with the chain for which the cases are.

    Raises UndecidedCasesError if the cases may be incomplete, and IllTypedError if the sides of the rule are
    well-typed but of different ranks.
    """
    search = _Search(goal, largest_rank, whole or goal, degrees or OpenDegrees(whole or goal))
    for number, case in enumerate(search.cases()):
        if number == MOST_CASES:
            raise UndecidedCasesError(f"there are more than {MOST_CASES} cases")
        yield case


class _Search:
    def __init__(self, goal: Equation, largest_rank: int, whole: Equation, degrees: OpenDegrees) -> None:
        self._goal, self._whole, self._degrees = goal, whole, degrees
        self._largest_rank, self._highest_rank = largest_rank, highest_rank(whole, largest_rank)
        self._terms = goal.terms
        self._order = tuple(applications(*self._terms))
        self._names = variables(*self._terms)
        self._fresh = numbered(_IMPLICIT)
        self._part = numbered("part ")
        self._steps = 0
        self._chosen: Mapping[str, object] = {}
        self._divides = any(term.operator in DIVIDING for term in self._order)

    def cases(self) -> Iterator[Instance]:
        unequal, equal = set[object](), set[object]()
        declared = declared_types(self._goal)
        if self._divides and any(OPERATORS[term.operator].positions is None for term in self._order):
            raise UndecidedCasesError(
                "how a divided tensor lies that is reshaped depends on which sizes are 1"
            )
        for attributes in attribute_cases(self._whole, self._largest_rank, self._highest_rank, self._degrees):
            self._chosen = attributes
            self._require_undivided(declared)
            for state in self._extended(PartialTyping(attributes, declared), 0):
                ranks = tuple((n, state.types[Variable(n)].rank) for n in self._names), repr(attributes)
                if all(state.types[a].rank == state.types[b].rank for a, b in self._pairs()):
                    equal.add(ranks)
                    yield from self._finished(state)
                else:
                    unequal.add(ranks)
        if not unequal <= equal:
            raise IllTypedError("the sides are well-typed at different ranks")

    def _require_undivided(self, declared: Mapping[Term, TensorType]) -> None:
        """Raises UndecidedCasesError if a tensor of declared sizes must be divided: whether its parts are
        equal is not known."""
        ranks = {term.name: type_.rank for term, type_ in declared.items() if isinstance(term, Variable)}
        if self._divides and divisions_needed(self._whole, ranks, self._chosen):
            raise UndecidedCasesError("a tensor of declared sizes is combined, which must be divided before")

    def _count(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise UndecidedCasesError(f"to find all cases takes more than {MOST_STEPS} steps")

    def _pairs(self) -> Iterator[tuple[Term, Term]]:
        return zip(self._goal.left, self._goal.right, strict=True)

    def _extended(self, state: PartialTyping, position: int) -> Iterator[PartialTyping]:
        """Yield all ways to type the applications from that position on."""
        if position == len(self._order):
            yield from self._with_lonely(state)
            return
        term = self._order[position]
        for ranked in self._with_ranks(term, state):
            for shaped in self._with_shape(term, ranked):
                for typed in self._typed(term, shaped):
                    for fulfilled in self._fulfilled(typed):
                        yield from self._extended(fulfilled, position + 1)

    def _fulfilled(self, state: PartialTyping) -> Iterator[PartialTyping]:
        """Yield the states in which the conditions hold that can already be decided."""
        types = {name: state.types[Variable(name)] for name in self._names if Variable(name) in state.types}
        known = types.keys() | state.attributes.keys()
        for condition in self._goal.conditions:
            if not names_in(condition) <= known:
                continue
            decision = decide(condition, types, state.attributes)
            if decision is Decision.FAILS:
                return
            if isinstance(decision, tuple):
                try:
                    found = self._all(*decision)
                except UndecidedSizesError:
                    continue  # decided when more is known, or at the end
                for solution in found:
                    yield from self._fulfilled(state.solved(solution))
                return
        yield state

    def _with_lonely(self, state: PartialTyping) -> Iterator[PartialTyping]:
        """Assign types to variables that no application uses, then type the waiting applications."""
        open_ = [name for name in self._names if Variable(name) not in state.types]
        for ranks in itertools.product(range(self._largest_rank + 1), repeat=len(open_)):
            yield from self._settled(self._given(state, dict(zip(open_, ranks, strict=True))))

    def _with_ranks(self, term: Application, state: PartialTyping) -> Iterator[PartialTyping]:
        """Yield states with types for the untyped variables among the inputs."""
        open_ = [
            c.name for c in dict.fromkeys(term.inputs) if isinstance(c, Variable) and c not in state.types
        ]
        if not open_:
            yield state
            return
        choices: Iterable[tuple[int, ...]]
        if leaves_shape_out(term) or any(child in state.waiting for child in term.inputs):
            choices = itertools.product(range(self._largest_rank + 1), repeat=len(open_))
        elif term.operator in DIVIDING:
            choices = ((rank,) for rank in self._ranks_above(term, state))
        else:
            choices = self._fitting(term, state)
        for ranks in choices:
            yield self._given(state, dict(zip(open_, ranks, strict=True)))

    def _fitting(self, term: Application, state: PartialTyping) -> tuple[tuple[int, ...], ...]:
        """Return the ranks that the operator may accept for its untyped inputs."""
        known: dict[Term, int] = {}
        pattern = tuple(
            (known.setdefault(c, len(known)), state.types[c].rank if c in state.types else -1)
            for c in term.inputs
        )
        attributes = tuple((n, cast("AttributeTerm", v)) for n, v in explicit_attributes(term, state).items())
        return fitting_ranks(term.operator, attributes, pattern, self._largest_rank)

    def _ranks_above(self, term: Application, state: PartialTyping) -> Iterable[int]:
        """Return the ranks that the readers of a term accept, followed through operators that only divide
        it."""
        users = [each for each in self._order if term in each.inputs]
        if not users or OPERATORS[users[0].operator].positions is None or leaves_shape_out(users[0]):
            return range(self._largest_rank + 1)
        if users[0].operator in DIVIDING:
            return self._ranks_above(users[0], state)
        untyped = [child for child in dict.fromkeys(users[0].inputs) if child not in state.types]
        place = untyped.index(term)
        return dict.fromkeys(ranks[place] for ranks in self._fitting(users[0], state))

    def _with_shape(self, term: Application, state: PartialTyping) -> Iterator[PartialTyping]:
        """Yield states with a shape of each rank for a constant or a broadcast with an omitted shape."""
        if not leaves_shape_out(term):
            yield state
            return
        for rank in range(self._highest_rank + 1):
            yield state.with_implicit(term, tuple(self._fresh() for _ in range(rank)))

    def _given(self, state: PartialTyping, ranks: Mapping[str, int]) -> PartialTyping:
        """Return the state with new types of these ranks for variables."""
        self._count()
        for name, rank in ranks.items():
            needed = divisions_needed(self._whole, {name: rank}, state.attributes)
            type_ = variable_type(name, [symbol(f"{name}.{axis}") for axis in range(rank)], needed)
            state = state.typed(Variable(name), type_)
        return state

    def _settled(self, state: PartialTyping) -> Iterator[PartialTyping]:
        """Yield all ways to type the waiting applications; raises UndecidedCasesError if none can be
        typed."""
        if not state.waiting:
            yield state
            return
        for term in state.waiting:
            if all(child in state.types for child in term.inputs):
                after = list(self._typed(term, state))
                if all(term not in each.waiting for each in after):
                    for each in after:
                        yield from self._settled(each)
                    return
        raise UndecidedCasesError(f"at which sizes {state.waiting[0].operator} is well-typed is not known")

    def _typed(self, term: Application, state: PartialTyping) -> Iterator[PartialTyping]:
        """Yield the states in which the term has a type, or waits for one."""
        self._count()
        if any(child not in state.types for child in term.inputs):
            yield state.postponed(term)
            return
        inputs = [state.types[child] for child in term.inputs]
        if term.operator in DIVIDING:
            axis = explicit_attributes(term, state).get("axis")
            self._degrees.require_known_parts(inputs[0], axis, self._chosen)
        try:
            state, operator = operator_of(term, state, self._fresh)
        except IllTypedError:
            return
        groups = groups_of(operator, inputs)
        one_group = groups.one_group if groups and self._divides else []
        yield from self._alternatives(term, state, one_group)
        if groups is not None and groups.are_open:
            yield from self._grouped(term, state, groups)
            return
        try:
            found = operator.infer(*inputs)
        except DimensionMismatchError as mismatch:
            pairs = ways_to_fit(operator, mismatch)
            require_unfit(operator, inputs, pairs)
            yield from self._alternatives(term, state, pairs)
        except IllTypedError as refusal:
            require_refused(operator, inputs, refusal, one_group)
        else:
            if len(found) == 1:
                yield state.typed(term, found[0])

    def _grouped(self, term: Application, state: PartialTyping, groups: Groups) -> Iterator[PartialTyping]:
        """Yield the states in which a convolution has a symbolic number of groups, or one if that is a case
        of its own."""
        for number in self._numbers_of_groups(term):
            for one in self._solutions(term, state, groups.channels, number * groups.per_group):
                if isinstance(one, PartialTyping):
                    yield one
                    continue
                solved = state.solved(one)
                left, right = substitute(groups.outputs, one), substitute(number, one) * self._part()
                for other in self._solutions(term, solved, left, right):
                    if isinstance(other, PartialTyping):
                        yield other
                    else:
                        yield from self._typed(term, solved.solved(other))

    def _numbers_of_groups(self, term: Application) -> Sequence[Dimension]:
        """A symbol; if tensors are divided, 1 is a case of its own, and the only one if the rule says so."""
        if not self._divides:
            return (self._part(),)
        names = [ConditionName(child.name) for child in term.inputs if isinstance(child, Variable)]
        is_one = Condition(ConditionCall("groups", tuple(names)), "=", 1) in self._goal.conditions
        return (1,) if is_one else (1, self._part())

    def _alternatives(
        self, term: Application, state: PartialTyping, pairs: Sequence[tuple[Dimension, Dimension]]
    ) -> Iterator[PartialTyping]:
        for left, right in pairs:
            for solution in self._solutions(term, state, left, right):
                if isinstance(solution, PartialTyping):
                    yield solution
                    return
                yield from self._typed(term, state.solved(solution))

    def _solutions(
        self, term: Application, state: PartialTyping, left: Dimension, right: Dimension
    ) -> Sequence[Solution | PartialTyping]:
        """Return all solutions, or the state in which the term waits until other terms simplify the
        equation."""
        try:
            return self._all(left, right)
        except UndecidedSizesError:
            return (state.postponed(term),)

    def _finished(self, state: PartialTyping) -> Iterator[Instance]:
        """Yield the cases of a state in which everything has a type, restricted by the conditions of the
        rule. One that stays open restricts nothing: more is shown than the rule claims."""
        for pair in (pair for pair in self._pairs() if any(map(leaves_sizes_out, pair))):
            for left, right in zip(*(state.types[term].shape for term in pair), strict=True):
                if left != right:
                    for solution in self._all(left, right):
                        yield from self._finished(state.solved(solution))
                    return
        types = {name: state.types[Variable(name)] for name in self._names}
        for condition in self._goal.conditions:
            decision = decide(condition, types, state.attributes)
            if isinstance(decision, tuple):
                for solution in self._all(*decision):
                    yield from self._finished(state.solved(solution))
                return
            if decision is Decision.FAILS:
                return
        yield from self._checked(state, types)

    def _all(self, left: Dimension, right: Dimension) -> Sequence[Solution]:
        """Return all solutions, solved first for omitted sizes; raises UndecidedSizesError. Where degrees are
        open, the values that stand for all must do so for these sizes."""
        try:
            if self._divides:
                self._degrees.require_comparable(left, right, self._chosen)
            found = solutions(left, right, self._part, _is_implicit)
            for solution in found:
                self._degrees.require_single(solution, self._chosen)
        except UndecidedCasesError as undecided:
            raise UndecidedSizesError(left, right) from undecided
        else:
            return found

    def _checked(self, state: PartialTyping, types: Mapping[str, TensorType]) -> Iterator[Instance]:
        """Type the case again as a whole and yield it; yield refined cases if new equations were solved, and
        none if a size cannot be positive."""
        if not as_declared(self._goal.types, types):
            raise UndecidedCasesError("declared sizes are bound by others")
        known: dict[Term, TensorType] = {Variable(name): type_ for name, type_ in types.items()}
        operators: dict[Application, Operator] = {}
        for term in self._order:
            inputs = [known[child] for child in term.inputs]
            try:
                _, operator = operator_of(term, state, self._fresh)
            except IllTypedError:
                return
            groups = groups_of(operator, inputs)
            if groups is not None and groups.are_open:
                raise UndecidedCasesError(f"how many groups {term.operator} has is not known")
            try:
                (known[term],) = operator.infer(*inputs)
            except DimensionMismatchError as mismatch:
                pairs = ways_to_fit(operator, mismatch)
                require_unfit(operator, inputs, pairs)
                for left, right in pairs:
                    for solution in self._all(left, right):
                        yield from self._finished(state.solved(solution))
                return
            except IllTypedError as refusal:
                one_group = groups.one_group if groups and self._divides else []
                require_refused(operator, inputs, refusal, one_group)
                return
            operators[term] = operator
            if known[term] != state.types[term]:
                state = state.typed(term, known[term])
        sizes = [size for type_ in known.values() for size in type_.shape]
        if not any(never_positive(size) for size in sizes):
            for type_ in known.values():
                self._degrees.require_known_divisions(type_, self._chosen)
            yield Instance(types, state.attributes, Typing(known, operators, {}))


def _is_implicit(name: str) -> bool:
    return name.startswith(_IMPLICIT)


__all__ = ["UndecidedCasesError", "cases_of"]
