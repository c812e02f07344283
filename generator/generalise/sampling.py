"""Random testing of equations: the most general typing at some sizes, evaluation over the prime field.

The most general typing has ungrouped convolutions; small instances with groups are drawn as well, to detect
equations that need ungrouped convolutions.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

from superopt.errors import IllTypedError
from superopt.generator.generalise.shared_search import SharedGeneralSearch, SharedGroupedSearch
from superopt.generator.generalise.shared_types import SharedTypes
from superopt.generator.generalise.shared_values import SharedValues
from superopt.generator.generalise.sized import SchemeProgram, Sized
from superopt.generator.generalise.terms import map_terms, with_attributes
from superopt.instances.sampler import kernel_symbols
from superopt.instances.schemes import Scheme, symbolic_types
from superopt.instances.search import State
from superopt.ir.dimensions import Dimension
from superopt.ir.numbers import NumberExpression, substituted_number
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
)
from superopt.ir.types import ElementType, TensorType
from superopt.ops.roles import Product
from superopt.ops.sharded.sharding import is_divided
from superopt.ops.traits import traits
from superopt.rewriting import infer_terms

Shapes = Mapping[str, tuple[int, ...]]
Attributes = Mapping[str, object]
Types = Mapping[str, TensorType]

_MOST_SCHEMES = 1 << 12
_STEPS = ((-2, 0, 0, 2, 4), (-1, 0, 1, 2, 3))
_IMAGE_STEPS = ((-2, 0, 0, 2, 4), (0, 1, 3, 4, 5))
"""Differences from the sizes at which an equation was found, for one instance after the other."""

_CUTS = (1, 2, 3, 4)
_GROUPED_WANTED = 3
_GROUPED_SAMPLES = 6
_SCHEMES_PER_SAMPLE = 4
_MOST_ELEMENTS = 1 << 20
_NO_ATTRIBUTES: Attributes = {}


@dataclass
class _Schemes:
    """The schemes of an equation at given ranks and attribute values, found when they are asked for."""

    shared: SharedTypes
    equation: Equation
    types: Types
    attributes: Attributes
    _drawn: list[Scheme] = field(default_factory=list[Scheme])

    @cached_property
    def general(self) -> Scheme | None:
        """The most general one."""
        return self._found and self._found[1]

    @cached_property
    def equates_sizes(self) -> bool:
        """Whether equal types need sizes to be equal that neither side requires to be."""
        if self._found is None:
            return False
        state, scheme = self._found
        return len(_free(scheme.types)) < len(_free(self._search.apart(state)))

    def grouped(self) -> Iterator[Scheme]:
        """Random ones in which convolutions may have groups, from the first one every time."""
        for number in itertools.count():
            if number == len(self._drawn):
                self._drawn.extend(itertools.islice(self._random, 1))
            if number == len(self._drawn):
                return
            yield self._drawn[number]

    @cached_property
    def _search(self) -> SharedGeneralSearch:
        return SharedGeneralSearch(self.shared, self.equation, self.types, self.attributes)

    @cached_property
    def _found(self) -> tuple[State, Scheme] | None:
        return self._search.general()

    @cached_property
    def _random(self) -> Iterator[Scheme]:
        found = SharedGroupedSearch(self.shared, self.equation, random.Random(0), self.types, self.attributes)
        return iter(found)


class _Outcomes:
    """Whether the sides agree at one sample after the other, None where they have no types or values there;
    found when it is asked for."""

    def __init__(self, samples: Iterator[bool | None]) -> None:
        self._samples = samples
        self._found: list[bool | None] = []

    def agreeing(self, most: int, wanted: int) -> int | None:
        """How many of the first ``most`` samples agree, at most as many as wanted; None if one differs."""
        agreeing = 0
        for number in range(most):
            if number == len(self._found):
                self._found.extend(itertools.islice(self._samples, 1))
            if number == len(self._found):
                break
            if self._found[number] is False:
                return None
            agreeing += self._found[number] is True
            if agreeing == wanted:
                break
        return agreeing


@dataclass(frozen=True, slots=True)
class _Tested:
    """The outcomes of an equation near some shapes: at the most general scheme, and at grouped ones."""

    near: _Outcomes
    grouped: _Outcomes


class Sampler:
    """Random evaluation of equations, the same for the same equation."""

    def __init__(self) -> None:
        self._values = SharedValues()
        self._types = SharedTypes()
        self._known: dict[tuple[object, ...], _Schemes] = {}
        self._tested: dict[tuple[object, ...], _Tested] = {}

    def types_in_general(self, equation: Equation, shapes: Shapes) -> bool:
        """Whether both sides have a type for variables of these ranks."""
        return self._schemes(equation, shapes, _NO_ATTRIBUTES).general is not None

    def equates_sizes(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES
    ) -> bool:
        """Whether the sides have equal types only if sizes are equal that neither side requires to be."""
        equation, attributes = _closed(equation, attributes)
        return not compares_groups(equation) and self._schemes(equation, shapes, attributes).equates_sizes

    def differs_in_type(self, equation: Equation, shapes: Shapes, attributes: Attributes) -> bool:
        """Whether the sides have types for variables of these shapes, of known sizes and not the same."""
        try:
            types = infer_terms((*equation.left, *equation.right), _types(shapes), attributes).types
        except IllTypedError:
            return False
        pairs = [
            (types[left], types[right]) for left, right in zip(equation.left, equation.right, strict=True)
        ]
        return any(left != right for left, right in pairs) and not any(
            a.symbols or b.symbols for a, b in pairs
        )

    def shape_of(self, term: Term, shapes: Shapes) -> tuple[int, ...] | None:
        """The shape of a term for variables of these shapes; None where that depends on a cut, or where it is
        divided: variables are in one piece."""
        try:
            typing = infer_terms((term,), _types(shapes))
        except IllTypedError:
            return None
        if is_divided((typing.types[term],)):
            return None
        sizes = tuple(d for d in typing.types[term].shape if isinstance(d, int))
        return sizes if len(sizes) == typing.types[term].rank else None

    def holds(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES, samples: int = 2
    ) -> bool | None:
        """Whether both sides agree at ``samples`` random shapes near the given ones; None if all are
        ill-typed.
        """
        self._forget_much()
        equation, attributes = _closed(equation, attributes)
        alike = compares_groups(equation)
        general = None if alike else self._schemes(equation, shapes, attributes).general
        if not alike and (general is None or general.is_empty):
            return None
        tested = self._outcomes(equation, shapes, attributes)
        near = 0 if general is None else tested.near.agreeing(8 + 6 * samples, samples)
        wanted = _GROUPED_SAMPLES if alike else min(samples, _GROUPED_WANTED)
        grouped: int | None = 0
        if near is not None and (samples > 1 or not near) and _maybe_grouped(equation):
            grouped = tested.grouped.agreeing(_SCHEMES_PER_SAMPLE * wanted, wanted)
        if near is None or grouped is None:
            return False
        return bool(near + grouped) or None

    def _forget_much(self) -> None:
        self._values.forget_much()
        if self._types.forget_much():
            self._values.forget_operators()
            self._known.clear()
            self._tested.clear()

    def _outcomes(self, equation: Equation, shapes: Shapes, attributes: Attributes) -> _Tested:
        key = (
            (equation.left, equation.right, equation.conditions),
            tuple(sorted(shapes.items())),
            tuple(sorted(attributes.items())),
        )
        if key not in self._tested:
            if len(self._tested) >= _MOST_SCHEMES:
                self._tested.clear()
            schemes = self._schemes(equation, shapes, attributes)
            sizes = _Sizes.near(equation, shapes)
            self._tested[key] = _Tested(
                _Outcomes(self._at_general(equation, schemes, sizes)),
                _Outcomes(self._at_grouped(equation, schemes, sizes)),
            )
        return self._tested[key]

    def _at_general(self, equation: Equation, schemes: _Schemes, sizes: _Sizes) -> Iterator[bool | None]:
        assert schemes.general is not None
        program = SchemeProgram(self._types, equation, schemes.general)
        for number in itertools.count():
            sized = sizes.sized(program, number)
            yield None if sized is None else self._agrees(program, sized, number)

    def _at_grouped(self, equation: Equation, schemes: _Schemes, sizes: _Sizes) -> Iterator[bool | None]:
        convolutions = _maybe_grouped(equation)
        for number, scheme in enumerate(schemes.grouped()):
            program = SchemeProgram(self._types, equation, scheme)
            sized = sizes.sized(program, number)
            has_groups = sized is not None and self._has_groups(program.convolved(convolutions), sized)
            yield self._agrees(program, sized, number) if sized is not None and has_groups else None

    def _has_groups(self, convolved: Iterable[tuple[int, ...]], sized: Sized) -> bool:
        pairs = ([self._types.type(sized.types[place]) for place in places] for places in convolved)
        return any(data.shape[1] != weight.shape[1] for data, weight in pairs)

    def _schemes(self, equation: Equation, shapes: Shapes, attributes: Attributes) -> _Schemes:
        """Of all equations that differ only in conditions which leave sizes open."""
        ranks = tuple((name, len(shape)) for name, shape in sorted(shapes.items()))
        fixed = tuple(c for c in equation.conditions if fixed_dimension(c) is not None)
        key = (equation.left, equation.right, fixed, ranks, tuple(sorted(attributes.items())))
        if key not in self._known:
            if len(self._known) >= _MOST_SCHEMES:
                self._known.clear()
            types = symbolic_types(equation, dict(ranks), attributes)
            self._known[key] = _Schemes(self._types, replace(equation, conditions=fixed), types, attributes)
        return self._known[key]

    def _agrees(self, program: SchemeProgram, sized: Sized, sample: int) -> bool | None:
        if any(sized.types[left] != sized.types[right] for left, right in program.outputs):
            return False
        try:
            values = None
            while values is None:
                values = program.evaluated(sized, self._values, sample)
        except IllTypedError:
            return None
        return all(self._values.equal(values[left], values[right]) for left, right in program.outputs)


def _types(shapes: Shapes) -> Types:
    return {name: TensorType(ElementType.FLOAT, shape) for name, shape in shapes.items()}


def compares_groups(equation: Equation) -> bool:
    """Whether a condition says that two convolutions have groups alike."""
    return any(
        isinstance(clause.left, ConditionCall) and clause.left.function == "outputs_per_group"
        for clause in equation.conditions
    )


def convolutions(equation: Equation) -> tuple[Application, ...]:
    """The convolutions on both sides."""
    terms = equation.applications
    return tuple(term for term in terms if traits(term.operator).product is Product.CONVOLUTION)


def fixed_dimension(condition: Condition) -> tuple[str, int, int] | None:
    """(variable, axis, size) of a clause like ``dim(w, 2) = 1``."""
    match condition:
        case Condition(ConditionCall("dim", (ConditionName(name), int(axis))), "=", int(size)):
            return name, axis, size
        case _:
            return None


@dataclass(frozen=True)
class _Sizes:
    """Random sizes for an equation near the shapes at which it was found, by number."""

    equation: Equation
    known: Mapping[str, int]
    kernels: frozenset[str]

    @classmethod
    def near(cls, equation: Equation, shapes: Shapes) -> _Sizes:
        """Those of these shapes."""
        known = {f"{name}.{axis}": size for name, shape in shapes.items() for axis, size in enumerate(shape)}
        return cls(equation, known, frozenset(kernel_symbols(equation.applications)))

    def sized(self, program: SchemeProgram, number: int) -> Sized | None:
        """The program at the sizes of a number; None where they do not fit."""
        sizes = {name: self._drawn(name, number) for name in program.symbols}
        return program.at(sizes, _MOST_ELEMENTS)

    def _drawn(self, name: str, number: int) -> Dimension:
        is_image = name.endswith((".2", ".3")) and name not in self.kernels
        steps = (_IMAGE_STEPS if is_image else _STEPS)[number % 2] if name in self.known else _CUTS
        drawn = steps[zlib.crc32(f"{name} {number}".encode()) % len(steps)]
        return max(1, self.known.get(name, 0) + drawn)


def _closed(equation: Equation, attributes: Attributes) -> tuple[Equation, Attributes]:
    """The equation with these values for its attribute variables, so that equations which are then equal
    are tested once; the same where conditions or calculations may refer to them."""
    if not attributes or equation.conditions or any(map(_calculates, equation.applications)):
        return equation, attributes

    def values(term: Application) -> tuple[tuple[str, AttributeTerm], ...]:
        pairs = ((name, substituted_number(value, attributes)) for name, value in term.attributes)
        return tuple((name, cast("AttributeTerm", value)) for name, value in pairs)

    return map_terms(equation, partial(with_attributes, attributes=values)), _NO_ATTRIBUTES


def _calculates(term: Application) -> bool:
    return any(isinstance(value, NumberExpression) for _, value in term.attributes)


def _maybe_grouped(equation: Equation) -> tuple[Application, ...]:
    """The convolutions of which no condition says that they have one group."""
    ungrouped = {
        condition.left.arguments
        for condition in equation.conditions
        if isinstance(condition.left, ConditionCall)
        and (condition.left.function, condition.relation, condition.right) == ("groups", "=", 1)
    }
    named = (
        (t, tuple(ConditionName(v.name) for v in t.inputs if isinstance(v, Variable)))
        for t in convolutions(equation)
    )
    return tuple(term for term, names in named if names not in ungrouped)


def _free(types: Types) -> frozenset[str]:
    return frozenset[str]().union(*(type_.symbols for type_ in types.values()))
