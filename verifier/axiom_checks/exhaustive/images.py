"""Cases of equations with windows: rows, columns and the rest are enumerated separately and combined.

Convolutions and pools over [n, c, h, w] have too many cases to try each pair of a height with a width. Their
definition does not mix the two: which element of the padded input a window sees at row i of the kernel
depends on sizes, kernel, stride, dilation and padding of rows alone, and likewise for columns; the result is
a sum, or a maximum, over both. So for given batch and channels an equation is the same claim about products R
x C of index maps of rows and of columns, and it holds for all pairs if every R and every C is right.
Therefore:

- *Geometries of rows* are all sizes, kernels, strides, dilations and margins along axis 2 for which both
  sides are well-typed; those under which all windows see the same elements are one (a stride does not matter
  where there is one window, nor a dilation for a kernel of one, nor the name of a padding but for its
  margins).
- *Geometries of columns* likewise along axis 3; each of both occurs in at least one pair, and pairs hold
  different ones. For the first choice of everything else, further pairs are tested too.
- *Everything else* (batch, channels, groups, outputs, vectors, other attributes) is enumerated in full. It
  does not mix with rows and columns either, so that each geometry meets a part of it, and each choice of it a
  part of the geometries: every fifth, in turn, for each choice of attributes; all, where there are few
  choices.

An equation in which an axis, a permutation, a shape or a condition ties rows to columns or to anything else
is not separable: its cases are enumerated in full, with few strides, dilations and margins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from superopt.instances.exhaustive import ExhaustiveSearch
from superopt.instances.program import Case, Implicit, Program
from superopt.instances.values import (
    DILATIONS,
    MARGINS,
    STRIDES,
    Bound,
    joined,
)
from superopt.ir.dimensions import Dimension
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Condition, ConditionCall, ConditionName, ConditionTerm
from superopt.ir.types import TensorType
from superopt.ops.attributes import PADDING_WORDS, PAIRS
from superopt.ops.base import OPERATORS, Operator

ROWS, COLUMNS = 2, 3
FURTHER_PAIRINGS = 3
SHARE = 5
"""Prime, so that each geometry meets all sizes of each other axis."""

_BASES = 500
_BOTH = -1
_FEW: Mapping[str, Sequence[object]] = {
    "stride": ((1, 1), (2, 1)),
    "dilation": ((1, 1),),
    "padding": ("valid", "same", "same_upper", (0, 1, 1, 0)),
}


def all_cases(program: Program, bound: Bound) -> Iterator[Case]:
    """Every case up to the bound, cases of images put together from their parts."""
    images = _Images(program, bound)
    if not images.has_windows:
        yield from ExhaustiveSearch(program, bound).cases()
    elif images.is_separable:
        yield from images.cases()
    else:
        few = {name: _FEW[attribute] for name, attribute in images.kinds.items() if attribute in _FEW}
        yield from ExhaustiveSearch(program, bound, choices=few).cases()


@dataclass(frozen=True)
class _Geometry:
    """What one case says along one axis: sizes of rank-4 inputs, parts of attributes, implicit sizes."""

    sizes: Mapping[int, int]
    attributes: Mapping[str, object]
    implicit: tuple[Mapping[str, Dimension], ...]


@dataclass(frozen=True)
class _Images:
    program: Program
    bound: Bound
    _met: set[object] = field(default_factory=set[object])

    @cached_property
    def has_windows(self) -> bool:
        return any(OPERATORS[step.term.operator].windowed for step in self.program.steps)

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """Which attribute each attribute variable is."""
        return {
            value.name: attribute
            for step in self.program.steps
            for attribute, value in step.term.attributes
            if isinstance(value, AttributeVariable)
        }

    @cached_property
    def is_separable(self) -> bool:
        """Whether nothing but windows has to do with rows and columns."""
        for step in self.program.steps:
            axis, perm = step.term.attribute("axis"), step.term.attribute("perm")
            if isinstance(axis, AttributeVariable) or (isinstance(axis, int) and axis not in (0, 1)):
                return False
            if isinstance(perm, AttributeVariable) or (
                isinstance(perm, tuple) and perm[ROWS:] != (ROWS, COLUMNS)
            ):
                return False
            places = OPERATORS[step.term.operator].positions
            if places is None or (places == len((ROWS, COLUMNS)) and not perm):
                return False
        conditions = self.program.equation.conditions
        return not self.program.equation.types and all(map(self._is_about_one_part, conditions))

    def _is_about_one_part(self, condition: Condition) -> bool:
        """Whether a clause is about rows alone, columns alone, or neither; or asks the same of both."""
        operands = [condition.left] if condition.right is None else [condition.left, condition.right]
        if condition.relation == "!=" and any(isinstance(operand, tuple) for operand in operands):
            return False
        parts = {part for operand in operands for part in self._parts(operand)}
        if _BOTH in parts:
            return parts == {_BOTH} and condition.relation in ("", "=")
        return len(parts) <= 1

    def _parts(self, term: ConditionTerm) -> Iterator[int]:
        """What a term of a clause is about: ROWS, COLUMNS, both, or neither (0); nothing for constants."""
        match term:
            case ConditionName(name) if name in self.kinds:
                kind = self.kinds[name]
                if kind != "padding":
                    yield _BOTH if kind in PAIRS else 0
            case ConditionCall("dim", (ConditionName(name), int(axis))):
                kind = self.kinds.get(name, "")
                if kind == "padding" or kind in PAIRS:
                    yield (ROWS, COLUMNS)[axis % 2]
                else:
                    yield axis % 4 if axis % 4 in (ROWS, COLUMNS) else 0
            case ConditionCall("odd" | "even", (argument,)):
                yield from self._parts(argument)
            case ConditionCall("channels" | "groups" | "outputs_per_group" | "rank"):
                yield 0
            case ConditionName() | ConditionCall():
                yield from (ROWS, COLUMNS)
            case _:
                return

    def cases(self) -> Iterator[Case]:
        for chosen in self._paddings():
            tried, first = itertools.tee(itertools.islice(self._search(chosen).cases(), _BASES))
            base = next((case for case in tried if case.agree), None) or next(first, None)
            if base is not None:
                yield from self._of_padding(base, chosen)

    def _paddings(self) -> Iterator[Mapping[str, Sequence[object]]]:
        """For each padding variable a word, or margins of any size."""
        names = [name for name, attribute in self.kinds.items() if attribute == "padding"]
        margins = tuple(joined(margin, margin) for margin in MARGINS)
        choices: list[Mapping[str, Sequence[object]]] = [{}]
        for name in names:
            choices = [
                {**chosen, name: values}
                for chosen in choices
                for values in (*((word,) for word in PADDING_WORDS), margins)
            ]
        yield from choices

    def _of_padding(self, base: Case, chosen: Mapping[str, Sequence[object]]) -> Iterator[Case]:
        rows = self._geometries(base, chosen, ROWS)
        columns = self._geometries(base, chosen, COLUMNS)
        if not rows and not columns:
            return
        rows, columns = rows or [self._geometry(base, ROWS)], columns or [self._geometry(base, COLUMNS)]
        others = _decided(self._others(base))
        share = SHARE if len(others) > 4 * SHARE else 1
        numbers: dict[str, Iterator[int]] = {}
        for index, other in enumerate(others):
            number = next(numbers.setdefault(repr(other.attributes), itertools.count()))
            for pairing in range(1 + FURTHER_PAIRINGS if index == 0 else 1):
                for place, (one, two) in enumerate(_paired(rows, columns, pairing)):
                    if (place + number) % share == 0 or pairing:
                        case = self._combined(other, one, two)
                        if case is not None:
                            yield case

    def _search(self, chosen: Mapping[str, Sequence[object]]) -> ExhaustiveSearch:
        """Squares, large sizes first: nearly everything is well-typed there."""
        values: dict[str, Sequence[object]] = {}
        for name, attribute in self.kinds.items():
            if attribute in PAIRS:
                choices = {"stride": STRIDES, "dilation": DILATIONS}.get(attribute, self.bound.sizes)
                values[name] = [(size, size) for size in choices]
        large = tuple(reversed(self.bound.sizes))
        sizes = {(name, axis): large for name in self.program.names for axis in range(4)}
        return ExhaustiveSearch(self.program, self.bound, sizes, {**values, **chosen})

    def _geometries(
        self, base: Case, chosen: Mapping[str, Sequence[object]], axis: int
    ) -> Sequence[_Geometry]:
        """All geometries along the axis, everything else as in the base; each meaning once."""
        sizes = {
            (name, a): (cast("int", size),)
            for name, type_ in zip(self.program.names, base.types, strict=True)
            for a, size in enumerate(type_.shape)
            if not (type_.rank == 4 and a == axis)
        }
        values: dict[str, Sequence[object]] = {name: (value,) for name, value in base.attributes.items()}
        for name, attribute in self.kinds.items():
            own = base.attributes[name]
            if attribute in PAIRS:
                choices = {"stride": STRIDES, "dilation": DILATIONS}.get(attribute, self.bound.sizes)
                values[name] = [_with_part(own, axis, size) for size in choices]
            elif attribute == "padding" and isinstance(own, tuple):
                padding = cast("tuple[int, int, int, int]", own)
                values[name] = [_with_margins(padding, axis, margin) for margin in MARGINS]
        found: list[_Geometry] = []
        search = ExhaustiveSearch(self.program, self.bound, sizes, values, self._ranks(base))
        for case in _decided(search.cases()):
            meaning = (axis, self._meaning(case, axis))
            if meaning not in self._met:
                self._met.add(meaning)
                found.append(self._geometry(case, axis))
        return found

    def _geometry(self, case: Case, axis: int) -> _Geometry:
        attributes: dict[str, object] = {}
        for name, attribute in self.kinds.items():
            value = case.attributes[name]
            if attribute in PAIRS:
                attributes[name] = cast("tuple[int, int]", value)[axis - ROWS]
            elif attribute == "padding":
                attributes[name] = (value[axis - ROWS], value[axis]) if isinstance(value, tuple) else value
        sizes = {
            place: cast("int", type_.shape[axis]) for place, type_ in enumerate(case.types) if type_.rank == 4
        }
        implicit = tuple(
            {
                name: value[axis]
                for name, value in values.items()
                if isinstance(value, tuple) and len(value) == 4
            }
            for values in self.program.implicit_values(case)
        )
        return _Geometry(sizes, attributes, implicit)

    def _meaning(self, case: Case, axis: int) -> tuple[object, ...]:
        """Which elements all windows see along the axis."""
        inferred = self.program.inferred(case.types, case.operators)
        parts: list[object] = [type_.shape[axis] for type_ in inferred if type_.rank == 4]
        for step, operator in zip(self.program.steps, case.operators, strict=True):
            types = [inferred[place] for place in step.inputs]
            parts.append(_window_meaning(operator, types, inferred[step.place], axis))
        return tuple(parts)

    def _others(self, base: Case) -> Iterator[Case]:
        """Everything but rows and columns, in full."""
        sizes = {
            (name, axis): (cast("int", type_.shape[axis]),)
            for name, type_ in zip(self.program.names, base.types, strict=True)
            if type_.rank == 4
            for axis in (ROWS, COLUMNS)
        }
        values: dict[str, Sequence[object]] = {
            name: (base.attributes[name],)
            for name, attribute in self.kinds.items()
            if attribute in PAIRS or attribute == "padding"
        }
        yield from ExhaustiveSearch(self.program, self.bound, sizes, values, self._ranks(base)).cases()

    def _ranks(self, base: Case) -> Mapping[str, int]:
        return {name: type_.rank for name, type_ in zip(self.program.names, base.types, strict=True)}

    def _combined(self, other: Case, rows: _Geometry, columns: _Geometry) -> Case | None:
        types = tuple(
            type_.with_shape((*type_.shape[:ROWS], rows.sizes[place], columns.sizes[place]))
            if type_.rank == 4
            else type_
            for place, type_ in enumerate(other.types)
        )
        attributes = dict(other.attributes)
        for name, value in rows.attributes.items():
            two = columns.attributes[name]
            if isinstance(value, str):
                attributes[name] = value
            elif self.kinds[name] == "padding":
                attributes[name] = joined(cast("tuple[int, int]", value), cast("tuple[int, int]", two))
            else:
                attributes[name] = (value, two)
        implicit: list[Implicit] = [
            {
                name: (*value[:ROWS], one[name], two[name])
                if isinstance(value, tuple) and name in one
                else value
                for name, value in values.items()
            }
            for values, one, two in zip(
                self.program.implicit_values(other), rows.implicit, columns.implicit, strict=True
            )
        ]
        return ExhaustiveSearch(self.program, self.bound).case(types, attributes, implicit)


def _decided(cases: Iterator[Case]) -> list[Case]:
    """Without those whose types agree for other implicit attributes."""
    found = list(cases)
    agreed = {case.key for case in found if case.agree}
    return [case for case in found if case.agree or case.key not in agreed]


def _paired(
    rows: Sequence[_Geometry], columns: Sequence[_Geometry], pairing: int
) -> Iterator[tuple[_Geometry, _Geometry]]:
    """Each geometry at least once, rows with different columns."""
    shift = 1 + (pairing + 1) * len(columns) // (FURTHER_PAIRINGS + 2)
    for index in range(max(len(rows), len(columns))):
        yield rows[index % len(rows)], columns[(index + shift) % len(columns)]


def _with_part(pair: object, axis: int, size: int) -> tuple[int, int]:
    rows, columns = cast("tuple[int, int]", pair)
    return (size, columns) if axis == ROWS else (rows, size)


def _with_margins(
    padding: tuple[int, int, int, int], axis: int, margin: tuple[int, int]
) -> tuple[int, int, int, int]:
    top, left, bottom, right = padding
    return joined(margin, (left, right)) if axis == ROWS else joined((top, bottom), margin)


def _window_meaning(
    operator: Operator, inputs: Sequence[TensorType], output: TensorType, axis: int
) -> tuple[object, ...]:
    """Margins along the axis; the stride if there are two windows, the dilation of a kernel of two."""
    window = operator.window(*inputs)
    if window is None:
        return ()
    margins = window.margins(cast("tuple[int, int]", inputs[0].shape[ROWS:]))
    own = axis - ROWS
    return (
        window.kernel[own],
        margins[own],
        margins[own + 2],
        window.stride[own] if output.shape[axis] != 1 else 1,
        window.dilation[own] if window.kernel[own] != 1 else 1,
    )
