"""Atoms: candidate clauses of ``where`` over the names of an equation, and the instances at which each holds.

The truth of an atom at many instances is a row of bits stored as an integer, so a conjunction is one ``&``.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import (
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Direction,
    Equation,
    attribute_variables,
    variables,
)
from superopt.ir.types import TensorType
from superopt.ops.roles import Product
from superopt.ops.traits import traits
from superopt.rewriting.conditions import holds

_LARGEST_CONSTANT = 5
_RELATIONS: Mapping[str, Callable[..., npt.NDArray[np.bool_]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Place:
    """Instance data that atoms refer to: types of variables and values of attribute variables."""

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Atom:
    """A clause. ``cost`` is higher the less natural the clause is; bit i of ``true`` says whether it holds at
    place i."""

    condition: Condition
    cost: float
    true: int


@dataclass(frozen=True)
class _Quantity:
    """A number at each place; ``kind`` determines which quantities it may be compared with."""

    term: ConditionTerm
    kind: str
    values: npt.NDArray[np.int64]


def atoms(equation: Equation, places: Sequence[Place]) -> tuple[Atom, ...]:
    """Return all atoms that distinguish some places; of atoms that are equal at all places only the simplest.

    They refer only to names that every direction of the equation knows before it is applied.
    """
    found: dict[int, Atom] = {}
    everywhere = (1 << len(places)) - 1
    for condition, cost, truth in _candidates(equation, places):
        bits = as_bits(truth)
        known = found.get(bits)
        if bits not in (0, everywhere) and (known is None or cost < known.cost):
            found[bits] = Atom(condition, cost, bits)
    return tuple(sorted(found.values(), key=lambda atom: (atom.cost, repr(atom.condition))))


def as_bits(truth: npt.NDArray[np.bool_]) -> int:
    """Return an integer in which bit i is element i."""
    return int.from_bytes(np.packbits(truth, bitorder="little").tobytes(), "little")


def truth_of(conditions: Sequence[Condition], places: Sequence[Place]) -> int:
    """Return the places at which all conditions hold, as bits."""
    return as_bits(
        np.array(
            [all(holds(c, place.types, place.attributes) for c in conditions) for place in places], np.bool_
        )
    )


def known_names(equation: Equation) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the tensor variables and attribute variables that a condition may name: those of every
    source."""
    sides = (equation.left,) if equation.direction is Direction.FORWARD else (equation.left, equation.right)
    tensors, attributes = frozenset(variables(*equation.left)), attribute_variables(*equation.left)
    for side in sides:
        tensors &= frozenset(variables(*side))
        attributes &= attribute_variables(*side)
    return tuple(name for name in variables(*equation.left) if name in tensors), attributes


_Truth = tuple[Condition, float, "npt.NDArray[np.bool_]"]


def _candidates(equation: Equation, places: Sequence[Place]) -> Iterator[_Truth]:
    tensors, attributes = known_names(equation)
    quantities = tuple(_quantities(equation, tensors, attributes, places))
    for quantity in quantities:
        yield from _about_one(quantity)
    for one, other in itertools.combinations(quantities, 2):
        yield from _about_two(one, other)
    yield from _about_attributes(equation, attributes, places)


def _quantities(
    equation: Equation, tensors: Sequence[str], attributes: frozenset[str], places: Sequence[Place]
) -> Iterator[_Quantity]:
    axes = sorted(_of_attribute(equation, "axis") & attributes)
    for name in tensors:
        variable = ConditionName(name)
        shapes = [place.types[name].shape for place in places]
        ranks = sorted({len(shape) for shape in shapes})
        yield _quantity(ConditionCall("rank", (variable,)), "rank", [len(shape) for shape in shapes])
        for index in range(4) if ranks == [4] else range(-1, -1 - max(ranks, default=0), -1):
            term = ConditionCall("dim", (variable, index))
            if ranks == [4] and index == 1:
                term = ConditionCall("channels", (variable,))
            kind = f"dim{index}"
            yield _quantity(term, kind, [_size(shape, index) for shape in shapes])
        for axis in axes:
            term = ConditionCall("dim", (variable, ConditionName(axis)))
            own = [_size(p.types[name].shape, p.attributes[axis]) for p in places]
            yield _quantity(term, "dim-of-axis", own)
            counted = [_counted(p.types[name].rank, p.attributes[axis]) for p in places]
            yield _quantity(ConditionCall("axis", (variable, ConditionName(axis))), "axis", counted)
        if axes:
            for index in (-1, -2):
                term = ConditionCall("axis", (variable, index))
                yield _quantity(term, f"last{name}", [_counted(len(shape), index) for shape in shapes])
    for data, weight in _convolved(equation, tensors):
        pair = (ConditionName(data), ConditionName(weight))
        for function, compute in (("groups", _groups), ("outputs_per_group", _outputs_per_group)):
            values = [compute(place.types[data].shape, place.types[weight].shape) for place in places]
            yield _quantity(ConditionCall(function, pair), function, values)


def _quantity(term: ConditionTerm, kind: str, values: Sequence[int]) -> _Quantity:
    return _Quantity(term, kind, np.array(values, np.int64))


def _about_one(quantity: _Quantity) -> Iterator[_Truth]:
    if quantity.kind.startswith("last"):
        return
    values = quantity.values
    lowest = 0 if quantity.kind in ("rank", "axis") else 1
    for constant in range(lowest, _LARGEST_CONSTANT + 1):
        plain = constant == 1 or quantity.kind in ("rank", "axis")
        yield _compared(quantity.term, "=", constant, values, constant, 1.0 if plain else 1.4)
        yield _compared(quantity.term, "!=", constant, values, constant, 2.0)
        if quantity.kind == "rank":
            yield _compared(quantity.term, ">=", constant, values, constant, 1.3)
            yield _compared(quantity.term, "<=", constant, values, constant, 1.3)
        elif quantity.kind != "axis" and constant > 1:
            yield _compared(quantity.term, "<=", constant, values, constant, 2.5)
            yield _compared(quantity.term, ">=", constant, values, constant, 2.5)
    if quantity.kind.startswith("dim"):
        yield Condition(ConditionCall("odd", (quantity.term,))), 1.5, values % 2 == 1
        yield Condition(ConditionCall("even", (quantity.term,))), 1.5, values % 2 == 0


def _about_two(one: _Quantity, other: _Quantity) -> Iterator[_Truth]:
    kinds = {one.kind, other.kind}
    if all(kind.startswith("last") for kind in kinds):
        return
    families = {
        kind if kind == "rank" else "axis" if kind == "axis" or kind.startswith("last") else "size"
        for kind in kinds
    }
    if len(families) > 1:
        return
    equal = 1.1 if len(kinds) == 1 or families == {"axis"} else 1.2
    if len(kinds) > 1 and kinds & {"groups", "outputs_per_group"}:
        equal = 1.6
    yield _compared(one.term, "=", other.term, one.values, other.values, equal)
    yield _compared(one.term, "!=", other.term, one.values, other.values, 2.0)
    for relation in ("<", "<="):
        yield _compared(one.term, relation, other.term, one.values, other.values, 2.4)
        yield _compared(other.term, relation, one.term, other.values, one.values, 2.4)


def _compared(
    left: ConditionTerm,
    relation: str,
    right: ConditionTerm,
    values: npt.NDArray[np.int64],
    others: npt.NDArray[np.int64] | int,
    cost: float,
) -> _Truth:
    return Condition(left, relation, right), cost, _RELATIONS[relation](values, others)


def _about_attributes(
    equation: Equation, attributes: frozenset[str], places: Sequence[Place]
) -> Iterator[_Truth]:
    axes = _of_attribute(equation, "axis")
    kinds: dict[str, str] = {
        value.name: name
        for term in equation.applications
        for name, value in term.attributes
        if isinstance(value, AttributeVariable)
    }
    for name in sorted(attributes):
        values = [place.attributes[name] for place in places]
        own = ConditionName(name)
        for value in sorted({v for v in values if _writable(v)}, key=repr):
            equal = np.array([v == value for v in values], np.bool_)
            constant: ConditionTerm = value  # pyright: ignore[reportAssignmentType]
            yield Condition(own, "=", constant), 1.2 if name in axes else 1.0, equal
            if name in axes:
                continue
            yield Condition(own, "!=", constant), 1.7, ~equal
        if name in axes:
            continue
        for predicate, remainder in (("odd", 1), ("even", 0)):
            if all(map(_numbers, values)):
                truth = [all(n % 2 == remainder for n in _numbers(value)) for value in values]
                yield Condition(ConditionCall(predicate, (own,))), 1.2, np.array(truth, np.bool_)
        for other in sorted(attributes - axes):
            if name < other and kinds[name] == kinds[other]:
                truth = np.array(
                    [v == p.attributes[other] for v, p in zip(values, places, strict=True)], np.bool_
                )
                yield Condition(own, "=", ConditionName(other)), 1.0, truth
                yield Condition(own, "!=", ConditionName(other)), 1.8, ~truth


def _writable(value: object) -> bool:
    return isinstance(value, str) or bool(_numbers(value))


def _numbers(value: object) -> tuple[int, ...]:
    """Return the whole numbers in an attribute value; empty if it contains anything else."""
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return (
        tuple(part for part in parts if isinstance(part, int))
        if all(isinstance(p, int) for p in parts)
        else ()
    )


def _of_attribute(equation: Equation, attribute: str) -> frozenset[str]:
    """Return the attribute variables that stand for an attribute of that name."""
    return frozenset(
        value.name
        for term in equation.applications
        for name, value in term.attributes
        if name == attribute and isinstance(value, AttributeVariable)
    )


def _convolved(equation: Equation, tensors: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of variables that are data and kernel of a convolution."""
    pairs = dict.fromkeys(
        pair
        for term in equation.applications
        if traits(term.operator).product is Product.CONVOLUTION
        for pair in itertools.product(variables(term.inputs[0]), variables(term.inputs[1]))
    )
    return (pair for pair in pairs if set(pair) <= set(tensors))


def _size(shape: Sequence[object], axis: object) -> int:
    size = shape[axis] if isinstance(axis, int) and -len(shape) <= axis < len(shape) else 0
    assert isinstance(size, int)
    return size


def _counted(rank: int, axis: object) -> int:
    return axis % rank if isinstance(axis, int) and -rank <= axis < rank else -1


def _outputs_per_group(data: Sequence[object], weight: Sequence[object]) -> int:
    groups = _groups(data, weight)
    return _size(weight, 0) // groups if groups else 0


def _groups(data: Sequence[object], weight: Sequence[object]) -> int:
    if len(data) < 2 or len(weight) < 2:
        return 0
    return _size(data, 1) // _size(weight, 1)
