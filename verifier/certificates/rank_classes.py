"""Which tensors of a rule have the same rank, by its operators and conditions.

An operator gives its result the rank of its main operands (``same_rank``). A tensor is *low* if its rank is
fixed: those of images, numbers and vectors beside others, constants of a given shape, declared tensors. Of
any two other tensors around an operator that repeats no axes, the ranks are equal, or one is that of a
matrix. So if an axis variable is used at such tensors alone, an axis can be removed from all that hang
together, and the variable follows; if it is the axis of a low tensor, its value is a small number.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

from superopt.errors import IllTypedError
from superopt.ir.numbers import AttributeVariable, names_of
from superopt.ir.terms import (
    Application,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Equation,
    Term,
    Variable,
    applications,
)
from superopt.ops.base import OPERATORS
from superopt.verifier.certificates.condition_forms import calls_in, sides_of

_OF_SHAPES = ("rank", "shape", "leading")

_OF_MATRICES, _OF_IMAGES = 2, 4
"""Positions that operators on matrices, and on images and kernels, distinguish."""


class RankClasses:
    """The classes of equal ranks among terms, and among attribute variables that are shapes."""

    def __init__(self, terms: Sequence[Application], goal: Equation) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        self._near: list[tuple[Hashable, ...]] = []
        self._uses: dict[Hashable, list[Hashable]] = defaultdict(list)
        self._axis_of: dict[Hashable, list[Hashable]] = defaultdict(list)
        self._variables, self._shapes = set[str](), set[str]()
        self._axis_names, self._compared = set[str](), set[str]()
        self._low: set[Hashable] = {Variable(name) for name, _ in goal.types}
        for term in terms:
            self._read(term)
        for number, condition in enumerate(goal.conditions):
            self._compare(condition)
            self._use(condition, number)
        self._products = [
            term
            for term in terms
            if term.inputs and not same_rank(term) and not OPERATORS[term.operator].implicit
        ]
        while self._joined_alike():
            pass

    def require_axes_apart(self) -> None:
        """Raises IllTypedError for axis variables of tensors whose ranks may differ: one variable, or several
        that clauses compare."""
        near = {frozenset(map(self._class, pair)) for some in self._near for pair in _pairs(some)}
        low = {self._class(term) for term in self._low}
        places: dict[Hashable, set[Hashable]] = defaultdict(set)
        for name, used in self._uses.items():
            if low.isdisjoint(map(self._class, self._axis_of[name])):
                places[self._class(name)] |= {self._class(place) for place in used}
        if any(frozenset(pair) not in near for classes in places.values() for pair in _pairs(classes)):
            raise IllTypedError("a variable is an axis of tensors whose ranks may differ")

    def axes_of_one_rank(self) -> frozenset[str]:
        """Return the axis variables that are axes of tensors of one rank, in terms and conditions: a negative
        value means the same axis of all of them as the one that is counted from the front."""
        return frozenset(
            name
            for name in self._axis_names
            if name not in self._compared and len(set(map(self._class, self._uses[_axis(name)]))) == 1
        )

    def is_limited(self, term: Application) -> bool:
        """Whether a term has the rank of a variable or of another term that gives it."""
        own = self._class(term)
        given = (Variable(name) for name in self._variables)
        limited = itertools.chain(given, self._shapes, self._low, self._products)
        return any(self._class(node) == own for node in limited)

    def _read(self, term: Application) -> None:
        axis, shape = term.attribute("axis"), term.attribute("shape")
        self._variables |= {each.name for each in term.inputs if isinstance(each, Variable)}
        for operand in same_rank(term):
            self._join(term, operand)
        if not OPERATORS[term.operator].repeats:
            self._near.append((term, *term.inputs))
        self._low.update(_low_around(term))
        if isinstance(shape, AttributeVariable):
            self._shapes.add(shape.name)
            self._join(term, shape.name)
        if isinstance(axis, AttributeVariable):
            self._axis_names.add(axis.name)
            self._uses[_axis(axis.name)].append(term.inputs[0])
            self._axis_of[_axis(axis.name)].append(term.inputs[0])
        elif names_of(axis):
            raise IllTypedError("an axis is calculated")

    def _compare(self, condition: Condition) -> None:
        """Joins what has one rank where the clause holds; raises IllTypedError for another relation of
        ranks."""
        sides = list(sides_of(condition))
        calls = [s.function for s in sides if isinstance(s, ConditionCall) and s.function in _OF_SHAPES]
        ranked = [self._ranked(side) for side in sides]
        if None in ranked or len(ranked) == 1:
            if calls and not any(isinstance(side, int | tuple) for side in sides):
                raise IllTypedError("a condition relates a rank or a shape to what is none")
            return
        if condition.relation != "=" or calls not in ([], ["shape"], *([each] * 2 for each in _OF_SHAPES)):
            raise IllTypedError("a condition relates ranks or shapes of several tensors")
        self._join(*ranked)

    def _ranked(self, side: ConditionTerm) -> Hashable | None:
        """The tensor or shape that a side of a clause is, or gives the rank or the sizes of."""
        match side:
            case ConditionCall(function, (ConditionName(name),)) if function in _OF_SHAPES:
                return self._node(name)
            case ConditionName(name) if name in self._variables or name in self._shapes:
                return self._node(name)
            case _:
                return None

    def _use(self, condition: Condition, number: int) -> None:
        """Notes at which tensors axis variables are used, and joins those that the clause compares."""
        for call in calls_in(condition):
            match call:
                case ConditionCall("axis" | "dim", (ConditionName(tensor), ConditionName(axis))):
                    self._uses[_axis(axis)].append(self._node(tensor))
                case _:
                    pass
        sides = [self._axis_side(side) for side in sides_of(condition)]
        if len(sides) > 1 and all(sides):
            for names, tensors in (side for side in sides if side is not None):
                self._uses[number] += tensors
                for name in names:
                    self._join(_axis(name), number)

    def _axis_side(self, side: ConditionTerm) -> tuple[list[str], list[Hashable]] | None:
        """The axis variables and tensors of a side that is an axis; None for another side."""
        match side:
            case ConditionName(name) if _axis(name) in self._uses:
                self._compared.add(name)
                return [name], []
            case ConditionCall("axis", (ConditionName(tensor), axis)):
                return [axis.name] if isinstance(axis, ConditionName) else [], [self._node(tensor)]
            case _:
                return None

    def _joined_alike(self) -> bool:
        """Joins the results of an operator for operands of the same ranks; returns whether any were apart."""
        first: dict[Hashable, Application] = {}
        apart = False
        for term in self._products:
            like = first.setdefault((term.operator, *map(self._class, term.inputs)), term)
            if self._class(like) != self._class(term):
                self._join(like, term)
                apart = True
        return apart

    def _node(self, name: str) -> Hashable:
        return Variable(name) if name in self._variables else name

    def _join(self, one: Hashable, other: Hashable) -> None:
        self._parents[self._class(one)] = self._class(other)

    def _class(self, node: Hashable) -> Hashable:
        while (parent := self._parents.get(node, node)) != node:
            node = parent
        return node


def axes_of_one_rank(goal: Equation) -> frozenset[str]:
    """Return the axis variables of a rule whose tensors are known to have one rank."""
    try:
        return RankClasses([*applications(*goal.terms)], goal).axes_of_one_rank()
    except IllTypedError:
        return frozenset()


def _low_around(term: Application) -> Iterator[Term]:
    operator, shape = OPERATORS[term.operator], term.attribute("shape")
    if operator.positions == _OF_IMAGES:
        yield from (term, *term.inputs)
    if operator.side_inputs:
        yield from term.inputs[-operator.side_inputs :]
    if isinstance(shape, tuple):
        yield term


def _axis(name: str) -> Hashable:
    return "axis", name


def same_rank(term: Application) -> tuple[Term, ...]:
    """The operands that always have the rank of the result."""
    operator = OPERATORS[term.operator]
    moves_alone = operator.inputs == 1 and operator.positions == _OF_MATRICES
    if operator.repeats or not (operator.positions in (0, 1) or moves_alone):
        return ()
    return term.inputs[: len(term.inputs) - operator.side_inputs]


def _pairs(some: Iterable[Hashable]) -> Iterator[tuple[Hashable, Hashable]]:
    return itertools.combinations(some, 2)


__all__ = ["RankClasses", "axes_of_one_rank", "same_rank"]
