"""Type inference for terms by unification: constraints come from the operators' own ``infer``.

Where inference meets two dimensions that differ, it raises DimensionMismatchError; the equation is solved for
one symbol, the solution is substituted everywhere, and inference restarts. Attributes that a rule omits
because its types determine them (the position of a split, the shape of a constant) are fresh symbols.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.ir.dimensions import Dimension, solve, substitute, symbol, symbols_of
from superopt.ir.numbers import AttributeVariable, names_of, substituted_number
from superopt.ir.terms import (
    Application,
    Equation,
    Term,
    Variable,
    applications,
)
from superopt.ir.types import TensorType
from superopt.ops.attributes import substituted
from superopt.ops.base import OPERATORS, Operator, attributes_of, known_operator, same_element
from superopt.ops.traits import HALVES, traits

FRESH = "?"
"""First character of symbols for implicit attributes."""

MAX_CONSTANT_RANK = 5


@dataclass(frozen=True, slots=True)
class Typing:
    """Types and resolved operators of all subterms; ``assignment`` is the result of unification."""

    types: Mapping[Term, TensorType]
    operators: Mapping[Application, Operator]
    assignment: Mapping[str, Dimension]

    @property
    def unresolved(self) -> frozenset[str]:
        """Fresh symbols without a value."""
        named = itertools.chain.from_iterable(_operator_symbols(op) for op in self.operators.values())
        return frozenset(name for name in named if name.startswith(FRESH))


def infer_terms(
    terms: Sequence[Term],
    types: Mapping[str, TensorType],
    attributes: Mapping[str, object] | None = None,
    *,
    equal: Sequence[tuple[Term, Term | TensorType]] = (),
    fixed: frozenset[str] = frozenset(),
    cuts: Mapping[tuple[Term, int], Dimension] | None = None,
) -> Typing:
    """Types every subterm for given types of variables and values of attribute variables. ``equal`` requires
    terms to have the same type as another term or a given type. Symbols in ``fixed`` are not solved for.
    ``cuts`` gives the cut positions of halved terms along an axis, where known. Raises IllTypedError when
    there is no typing."""
    ordered = _ordered(tuple(terms))
    shapeless = [term for term in ordered if leaves_shape_out(term)]
    failure: IllTypedError | None = None
    given = (*types.values(), *(other for _, other in equal if isinstance(other, TensorType)))
    for ranks in _rank_choices(len(shapeless), [type_.rank for type_ in given]):
        chosen = dict(zip(shapeless, ranks, strict=True))
        unifier = _Unifier(ordered, types, attributes or {}, chosen, fixed, cuts or {})
        try:
            return unifier.run(equal)
        except IllTypedError as error:
            failure = failure or error
    raise failure or IllTypedError("no ranks of constants fit")


def type_equation(
    equation: Equation,
    types: Mapping[str, TensorType],
    attributes: Mapping[str, object] | None = None,
    *,
    fixed: frozenset[str] = frozenset(),
) -> Typing:
    """Types both sides with equal output types; raises IllTypedError."""
    return infer_terms(
        equation.terms,
        types,
        attributes,
        equal=list(zip(equation.left, equation.right, strict=True)),
        fixed=fixed,
    )


class _Unifier:
    def __init__(
        self,
        ordered: Sequence[Application],
        types: Mapping[str, TensorType],
        attributes: Mapping[str, object],
        ranks: Mapping[Application, int],
        fixed: frozenset[str],
        cuts: Mapping[tuple[Term, int], Dimension],
    ) -> None:
        self._ordered = ordered
        self._variables = types
        self._attributes = attributes
        self._ranks = ranks
        self._fixed = fixed
        self._assignment: dict[str, Dimension] = {}
        self._cuts: dict[tuple[Term, object], Dimension] = {**cuts}
        self._fresh = itertools.count()
        self._given = {term: self._explicit_attributes(term) for term in ordered if _is_open(term)}

    def run(self, equal: Sequence[tuple[Term, Term | TensorType]]) -> Typing:
        for _ in range(1 + 8 * (len(self._ordered) + len(equal) + 1)):
            try:
                return self._infer(equal)
            except DimensionMismatchError as mismatch:
                self._solve(mismatch)
        raise IllTypedError("unification does not end")

    def _infer(self, equal: Sequence[tuple[Term, Term | TensorType]]) -> Typing:
        types: dict[Term, TensorType] = {
            Variable(name): type_.substitute(self._assignment) for name, type_ in self._variables.items()
        }
        operators: dict[Application, Operator] = {}
        for term in self._ordered:
            inputs = [self._type_of(child, types) for child in term.inputs]
            operator = self._operator(term, types)
            operators[term] = operator
            outputs = operator.infer(*inputs)
            if len(outputs) != 1:
                raise IllTypedError(f"{term.operator} has {len(outputs)} outputs; a term is one tensor")
            types[term] = outputs[0]
        for term, other in equal:
            required = other if isinstance(other, TensorType) else self._type_of(other, types)
            _require_equal(self._type_of(term, types), required.substitute(self._assignment))
        return Typing(types, operators, dict(self._assignment))

    def _type_of(self, term: Term, types: Mapping[Term, TensorType]) -> TensorType:
        found = types.get(term)
        if found is None:
            name = term.name if isinstance(term, Variable) else term.operator
            raise IllTypedError(f"the type of {name} is not given")
        return found

    def _explicit_attributes(self, term: Application) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, value in term.attributes:
            missing = names_of(value) - self._attributes.keys()
            if missing:
                raise IllTypedError(f"{term.operator}: the attribute variable {min(missing)} has no value")
            values[name] = substituted_number(value, self._attributes)
        return values

    def _attribute(self, term: Application, name: str) -> object:
        value = term.attribute(name)
        return self._attributes.get(value.name) if isinstance(value, AttributeVariable) else value

    def _operator(self, term: Application, types: Mapping[Term, TensorType]) -> Operator:
        if term not in self._given:
            return known_operator(term.operator, term.attributes)
        given = self._given[term]
        for name in OPERATORS[term.operator].implicit:
            if name not in given:
                given[name] = self._implicit(term, name, types)
        values = ((name, substituted(value, self._assignment)) for name, value in given.items())
        return known_operator(term.operator, tuple(values))

    def _implicit(self, term: Application, name: str, types: Mapping[Term, TensorType]) -> object:
        if name == "shape":
            return tuple(self._fresh_symbol(f"{term.operator}{i}") for i in range(self._ranks[term]))
        if term.operator not in HALVES:
            return self._fresh_symbol(name)
        (whole,) = term.inputs
        axis = self._given[term].get("axis")
        if isinstance(axis, int):
            rank = self._type_of(whole, types).rank
            axis = axis % rank if -rank <= axis < rank else axis
        cut = self._cuts.get((whole, axis))
        if cut is None:
            cut = self._cut_of_concat(whole, axis, types)
            self._cuts[whole, axis] = cut = self._fresh_symbol("cut") if cut is None else cut
        return cut

    def _cut_of_concat(self, whole: Term, axis: object, types: Mapping[Term, TensorType]) -> Dimension | None:
        """The halves of a concat along its own axis are its operands."""
        if isinstance(whole, Variable) or not traits(whole.operator).joins or not isinstance(axis, int):
            return None
        own, rank = self._attribute(whole, "axis"), self._type_of(whole, types).rank
        if not isinstance(own, int) or own % rank != axis:
            return None
        return self._type_of(whole.inputs[0], types).shape[axis]

    def _fresh_symbol(self, hint: str) -> Dimension:
        names = (f"{FRESH}{hint}{number}" for number in self._fresh)
        return symbol(next(name for name in names if name not in self._fixed))

    def _solve(self, mismatch: DimensionMismatchError) -> None:
        left, right = (substitute(d, self._assignment) for d in (mismatch.left, mismatch.right))
        own = symbols_of(left) | symbols_of(right)
        user_symbols = frozenset(name for name in own if not name.startswith(FRESH))
        solution = solve(left, right, user_symbols | self._fixed)
        if solution is None:
            solution = solve(left, right, self._fixed)
        if not solution:
            raise mismatch
        self._assignment = {name: substitute(d, solution) for name, d in self._assignment.items()} | solution


def _require_equal(left: TensorType, right: TensorType) -> None:
    same_element("output", left, right)
    if left.rank != right.rank:
        raise IllTypedError(f"output: ranks {left.rank} and {right.rank} must be equal")
    for a, b in zip(left.shape, right.shape, strict=True):
        if a != b:
            raise DimensionMismatchError(a, b, "output")


@lru_cache(maxsize=4096)
def _ordered(terms: tuple[Term, ...]) -> tuple[Application, ...]:
    return tuple(applications(*terms))


@lru_cache(maxsize=4096)
def _is_open(term: Application) -> bool:
    """Whether the operator depends on attribute values or types."""
    return any(term.attribute(name) is None for name in OPERATORS[term.operator].implicit) or any(
        names_of(value) for _, value in term.attributes
    )


@lru_cache(maxsize=4096)
def leaves_sizes_out(term: Term) -> bool:
    """Whether an operator in the term has attributes that only types determine."""
    return isinstance(term, Application) and (
        any(term.attribute(name) is None for name in OPERATORS[term.operator].implicit)
        or any(map(leaves_sizes_out, term.inputs))
    )


@lru_cache(maxsize=4096)
def leaves_shape_out(term: Application) -> bool:
    """Whether the operator's shape is determined by its readers: a constant or a broadcast."""
    return "shape" in OPERATORS[term.operator].implicit and term.attribute("shape") is None


def _rank_choices(count: int, likely: Iterable[int]) -> Iterator[tuple[int, ...]]:
    if count == 0:
        return iter(((),))
    preferred = list(dict.fromkeys((*sorted(likely, reverse=True), *range(MAX_CONSTANT_RANK + 1))))
    return itertools.product(preferred, repeat=count)


def _operator_symbols(operator: Operator) -> Iterator[str]:
    for name in operator.implicit:
        value = attributes_of(operator)[name]
        for part in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
            yield from symbols_of(cast("Dimension", part))
