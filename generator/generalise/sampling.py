"""Random testing of equations: the most general typing at some sizes, evaluation over the prime field.

The most general typing has ungrouped convolutions; small instances with groups are drawn as well, to detect
equations that need ungrouped convolutions.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from superopt.errors import IllTypedError
from superopt.generator.generalise.shared_values import SharedValues, ValueId
from superopt.instances.program import Program
from superopt.instances.schemes import GeneralSearch, GroupedSearch, Scheme
from superopt.ir.dimensions import Dimension, symbol
from superopt.ir.terms import (
    Application,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
    applications,
    subterms,
)
from superopt.ir.types import ElementType, TensorType
from superopt.ops.bound import bound
from superopt.ops.roles import Product
from superopt.ops.sharding import is_divided
from superopt.ops.traits import traits
from superopt.rewriting import Typing, infer_terms
from superopt.rewriting.divisions import divisions_needed, variable_type

Shapes = Mapping[str, tuple[int, ...]]
Attributes = Mapping[str, object]
Types = Mapping[str, TensorType]

_MOST_GENERAL = 1 << 14
_STEPS = ((-2, 0, 0, 2, 4), (-1, 0, 1, 2, 3))
_IMAGE_STEPS = ((-2, 0, 0, 2, 4), (0, 1, 3, 5, 7))
"""Differences from the sizes at which an equation was found, for one instance after the other."""

_CUTS = (1, 2, 3, 4)
_GROUPED_WANTED = 3
_GROUPED_SAMPLES = 6
_SCHEMES_PER_SAMPLE = 4
_MOST_ELEMENTS = 1 << 20
_NO_ATTRIBUTES: Attributes = {}


class Sampler:
    """Random evaluation of equations, the same for the same equation."""

    def __init__(self) -> None:
        self._values = SharedValues()
        self._known: dict[tuple[object, ...], tuple[Types, Scheme] | None] = {}

    def types_in_general(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES
    ) -> bool:
        """Whether both sides have a type for variables of these ranks."""
        return self._general(equation, shapes, attributes) is not None

    def equates_sizes(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES
    ) -> bool:
        """Whether the sides have equal types only if sizes are equal that neither side requires to be."""
        if compares_groups(equation):
            return False
        general = self._general(equation, shapes, attributes)
        return general is not None and len(_free(general[1].types)) < len(_free(general[0]))

    def shape_of(self, term: Term, shapes: Shapes) -> tuple[int, ...] | None:
        """The shape of a term for variables of these shapes; None where that depends on a cut, or where it is
        divided: variables are in one piece."""
        try:
            typing = infer_terms((term,), {n: TensorType(ElementType.FLOAT, s) for n, s in shapes.items()})
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
        alike = compares_groups(equation)
        general = None if alike else self._general(equation, shapes, attributes)
        if general is None and not alike:
            return None
        self._values.forget_much()
        near = general and self._agreeing(equation, _near(equation, shapes, general[1], samples), samples)
        if general and near is None:
            return False
        wanted = _GROUPED_SAMPLES if alike else min(samples, _GROUPED_WANTED)
        grouped: int | None = 0
        if (samples > 1 or not near) and convolutions(equation):
            grouped = self._agreeing(equation, _in_groups(equation, shapes, attributes, wanted), wanted)
        return False if grouped is None else (bool(near or grouped) or None)

    def _agreeing(self, equation: Equation, typings: Iterable[tuple[int, Typing]], wanted: int) -> int | None:
        """The number of typings, at most as many as wanted, at which the sides agree; None if they differ at
        one."""
        found = 0
        for sample, typing in typings:
            agrees = self._agrees(equation, typing, sample)
            if agrees is False:
                return None
            found += agrees is True
            if found == wanted:
                break
        return found

    def _general(
        self, equation: Equation, shapes: Shapes, attributes: Attributes
    ) -> tuple[Types, Scheme] | None:
        """The most general types of the variables, for each side alone and for both with equal types."""
        ranks = tuple((name, len(shape)) for name, shape in sorted(shapes.items()))
        fixed = tuple(c for c in equation.conditions if fixed_dimension(c) is not None)
        key = (equation.left, equation.right, fixed, ranks, tuple(sorted(attributes.items())))
        if key not in self._known:
            if len(self._known) >= _MOST_GENERAL:
                self._known.clear()
            program = _program(replace(equation, conditions=fixed))
            types = symbolic_types(equation, shapes, attributes)
            self._known[key] = GeneralSearch(program, types, attributes).general()
        return self._known[key]

    def _agrees(self, equation: Equation, typing: Typing, sample: int) -> bool | None:
        sides = list(zip(equation.left, equation.right, strict=True))
        if any(typing.types[a] != typing.types[b] for a, b in sides):
            return False
        try:
            values = None
            while values is None:
                values = self._evaluated((*equation.left, *equation.right), typing, sample)
        except IllTypedError:
            return None
        return all(self._values.equal(values[a], values[b]) for a, b in sides)

    def _evaluated(
        self, terms: tuple[Term, ...], typing: Typing, sample: int
    ) -> Mapping[Term, ValueId] | None:
        """The values of all subterms; None where variables have to carry more than was known."""
        carried = self._values.carried(typing.operators.values())
        values: dict[Term, ValueId] = {}
        for term in subterms(*terms):
            if isinstance(term, Variable):
                shape = tuple(d for d in typing.types[term].array_shape if isinstance(d, int))
                values[term] = self._values.variable(term.name, shape, sample, carried)
                continue
            inputs = tuple([values[child] for child in term.inputs])
            operator = bound(typing.operators[term], tuple([typing.types[child] for child in term.inputs]))
            value = self._values.applied(operator, inputs, carried)
            if value is None:
                return None
            values[term] = value
        return values


def symbolic_types(equation: Equation, shapes: Shapes, attributes: Attributes) -> Types:
    """Types of variables of these ranks with symbols for sizes, divided where parallel operators need it."""
    needed = divisions_needed(equation, {name: len(shape) for name, shape in shapes.items()}, attributes)
    return {
        name: variable_type(name, [symbol(f"{name}.{axis}") for axis in range(len(shape))], needed)
        for name, shape in shapes.items()
    }


def compares_groups(equation: Equation) -> bool:
    """Whether a condition says that two convolutions have groups alike."""
    return any(
        isinstance(clause.left, ConditionCall) and clause.left.function == "outputs_per_group"
        for clause in equation.conditions
    )


def convolutions(equation: Equation) -> tuple[Application, ...]:
    """The convolutions on both sides."""
    terms = applications(*equation.left, *equation.right)
    return tuple(term for term in terms if traits(term.operator).product is Product.CONVOLUTION)


def fixed_dimension(condition: Condition) -> tuple[str, int, int] | None:
    """(variable, axis, size) of a clause like ``dim(w, 2) = 1``."""
    match condition:
        case Condition(ConditionCall("dim", (ConditionName(name), int(axis))), "=", int(size)):
            return name, axis, size
        case _:
            return None


@lru_cache(maxsize=1024)
def _program(equation: Equation) -> Program:
    return Program(equation)


def _near(equation: Equation, shapes: Shapes, scheme: Scheme, samples: int) -> Iterator[tuple[int, Typing]]:
    """The scheme at random sizes near those of the shapes, numbered."""
    for attempt in range(8 + 6 * samples):
        typing = _sized(equation, shapes, scheme, attempt)
        if typing is not None:
            yield attempt, typing


def _sized(equation: Equation, shapes: Shapes, scheme: Scheme, attempt: int) -> Typing | None:
    """The scheme at random sizes; None where they do not fit."""
    known = {f"{name}.{axis}": size for name, shape in shapes.items() for axis, size in enumerate(shape)}
    numbers: dict[str, Dimension] = {
        name: max(1, known[name] + _drawn(steps[attempt % 2], name, attempt))
        if name in known
        else _drawn(_CUTS, name, attempt)
        for name in scheme.symbols
        for steps in (_IMAGE_STEPS if name.endswith((".2", ".3")) else _STEPS,)
    }
    instance = scheme.sized(equation, numbers, _MOST_ELEMENTS)
    return instance and instance.typing


def _in_groups(
    equation: Equation, shapes: Shapes, attributes: Attributes, samples: int
) -> Iterator[tuple[int, Typing]]:
    """Random schemes in which a convolution has groups, each at one choice of sizes, numbered."""
    found = convolutions(equation)
    types = symbolic_types(equation, shapes, attributes)
    schemes = GroupedSearch(equation, random.Random(0), types, attributes)
    for attempt, scheme in enumerate(itertools.islice(schemes, _SCHEMES_PER_SAMPLE * samples)):
        typing = _sized(equation, shapes, scheme, attempt)
        if typing is not None and any(_is_grouped(term, typing) for term in found):
            yield attempt, typing


def _is_grouped(convolution: Application, typing: Typing) -> bool:
    data, weight = (typing.types[child] for child in convolution.inputs[:2])
    return data.shape[1] != weight.shape[1]


def _free(types: Types) -> frozenset[str]:
    return frozenset[str]().union(*(type_.symbols for type_ in types.values()))


def _drawn(choices: tuple[int, ...], name: str, sample: int) -> int:
    return choices[zlib.crc32(f"{name} {sample}".encode()) % len(choices)]
