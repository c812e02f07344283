"""Random testing of equations: most general typing, then evaluation over the prime field.

Inference finds ungrouped convolutions; therefore every other sample divides the kernels' channels, to detect
equations that need ungrouped convolutions.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.generator.generalise.shared_values import SharedValues, ValueId
from superopt.ir.dimensions import Dimension, as_symbol, substitute, symbol
from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
    applications,
    subterms,
    variables,
)
from superopt.ir.types import ElementType, TensorType
from superopt.ops import OPERATORS, operator_from_attributes
from superopt.ops.bound import bound
from superopt.ops.roles import Product
from superopt.ops.sharding import is_divided
from superopt.ops.traits import traits
from superopt.rewriting import Typing, holds, infer_terms, type_equation
from superopt.rewriting.concrete import with_numbers
from superopt.rewriting.divisions import divisions_needed, variable_type

Shapes = Mapping[str, tuple[int, ...]]
Attributes = Mapping[str, object]
Types = Mapping[str, TensorType]
Size = tuple[str, int]
"""An axis of a variable."""

_MOST_GENERAL = 1 << 14
_EVEN_STEPS = (-2, 0, 0, 2, 4)
_STEPS = (-1, 0, 1, 2, 3)
_GROUPED_SIZES = (2, 4)
_PATIENCE = 8
_GROUPED_WANTED = 3
_GROUPED_ATTEMPTS, _GROUPED_SAMPLES = 200, 6
_NO_ATTRIBUTES: Attributes = {}


@dataclass(frozen=True, slots=True)
class _General:
    """The most general types of variables: for each side alone, and for both with equal types."""

    apart: Types
    together: Types | None
    typing: Typing | None


class Sampler:
    """Random evaluation of equations, seeded by the text of each equation."""

    def __init__(self) -> None:
        self._values = SharedValues()
        self._known: dict[tuple[object, ...], _General] = {}

    def types_in_general(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES
    ) -> bool:
        """Whether both sides have a type for variables of these ranks."""
        return self._general(equation, shapes, attributes).together is not None

    def equates_sizes(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES
    ) -> bool:
        """Whether the sides have equal types only if sizes are equal that neither side requires to be."""
        if compares_groups(equation):
            return False
        general = self._general(equation, shapes, attributes)
        return general.together is not None and len(_free(general.together)) < len(_free(general.apart))

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
        if compares_groups(equation):
            return self._holds_in_groups(equation, shapes, attributes)
        general = self._general(equation, shapes, attributes)
        types = general.together
        if types is None:
            return None
        self._values.forget_much()
        known = {f"{name}.{axis}": size for name, shape in shapes.items() for axis, size in enumerate(shape)}
        free = sorted(_free(types))
        kernels = kernel_variables(equation)
        channels = {
            s for t in types.values() if kernels and t.rank == 4 for d in t.shape[:2] for s in _symbols(d)
        }
        found, tested = False, 0
        wanted = min(samples, _GROUPED_WANTED) if kernels and samples > 1 else 0
        for attempt in range(8 + 6 * samples):
            grouped = bool(kernels) and attempt % 2 == 1
            steps = _STEPS if attempt & 2 else _EVEN_STEPS
            sizes = {
                name: _drawn(_GROUPED_SIZES, name, attempt)
                if grouped and name in channels
                else max(1, known.get(name, 3) + _drawn(steps, name, attempt))
                for name in free
            }
            concrete = {name: type_.substitute(sizes) for name, type_ in types.items()}
            if grouped:
                everything = _drawn((True, True, True, False), "", attempt)
                chosen = [n for n in kernels if everything or _drawn((True, False), n, attempt)]
                concrete = {n: _divided(t) if n in chosen else t for n, t in concrete.items()}
            typing = None if grouped else general.typing
            agrees = self._agrees(equation, concrete, attributes, attempt, typing, sizes)
            if agrees is False:
                return False
            tested += agrees is True and not grouped
            wanted -= agrees is True and grouped
            found = found or agrees is True
            if tested >= samples and (wanted <= 0 or attempt >= _PATIENCE):
                break
        return True if found else None

    def _holds_in_groups(self, equation: Equation, shapes: Shapes, attributes: Attributes) -> bool | None:
        """``holds`` at types drawn at random: unification does not find groups."""
        kernels = kernel_variables(equation)
        agreed = 0
        for attempt in range(_GROUPED_ATTEMPTS):
            drawn = {
                name: (_drawn((1, 2, 4), name, attempt), _drawn((1, 2), f"{name}.1", attempt), *shape[2:])
                if name in kernels
                else (
                    _drawn((1, 2), "batch", attempt),
                    _drawn((1, 2, 4), name, attempt),
                    *(size + _drawn(_STEPS, f"{axis}", attempt) for axis, size in enumerate(shape[2:])),
                )
                for name, shape in shapes.items()
                if len(shape) == 4
            }
            types = {name: TensorType(ElementType.FLOAT, drawn.get(name, s)) for name, s in shapes.items()}
            agrees = self._agrees(equation, types, attributes, attempt, None, {})
            if agrees is False:
                return False
            agreed += agrees is True
            if agreed == _GROUPED_SAMPLES:
                break
        return True if agreed else None

    def _general(self, equation: Equation, shapes: Shapes, attributes: Attributes) -> _General:
        """The most general types of the variables; each side is typed first, where it can be.

        Unification cannot solve rounded divisions, but the other side may imply equal sizes.
        """
        ranks = tuple((name, len(shape)) for name, shape in sorted(shapes.items()))
        fixed = tuple(c for c in equation.conditions if fixed_dimension(c) is not None)
        key = (equation.left, equation.right, fixed, ranks, tuple(sorted(attributes.items())))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_GENERAL:
                self._known.clear()
            apart, sides = _typed_apart(equation, shapes, attributes)
            together, typing = None, None
            with suppress(IllTypedError):
                if sides:
                    typing = type_equation(equation, apart, attributes)
                    together = _unified(apart, typing)
            known = self._known[key] = _General(apart, together, typing)
        return known

    def _agrees(
        self,
        equation: Equation,
        types: Types,
        attributes: Attributes,
        sample: int,
        general: Typing | None,
        sizes: Mapping[str, Dimension],
    ) -> bool | None:
        if not all(type_.is_sized for type_ in types.values()):
            return None
        if not all(holds(condition, types, attributes) for condition in equation.conditions):
            return None
        terms = (*equation.left, *equation.right)
        outputs = len(equation.left)
        sides = list(zip(equation.left, equation.right, strict=True))
        try:
            if general is None:
                apart = infer_terms(terms, types, attributes)
                found = [apart.types[term] for term in terms]
                if not apart.unresolved and found[:outputs] != found[outputs:]:
                    return False
                general = type_equation(equation, types, attributes)
            typing = _resolved(general, types, sizes, sample)
            if any(typing.types[a] != typing.types[b] for a, b in sides):
                return False
            values = None
            while values is None:
                values = self._evaluated(terms, types, typing, sample)
        except IllTypedError:
            return None
        return all(self._values.equal(values[a], values[b]) for a, b in sides)

    def _evaluated(
        self, terms: Sequence[Term], types: Types, typing: Typing, sample: int
    ) -> Mapping[Term, ValueId] | None:
        """The values of all subterms; None where variables have to carry more than was known."""
        carried = self._values.carried(typing.operators.values())
        values: dict[Term, ValueId] = {}
        for term in subterms(*terms):
            if isinstance(term, Variable):
                shape = tuple(d for d in types[term.name].array_shape if isinstance(d, int))
                values[term] = self._values.variable(term.name, shape, sample, carried)
                continue
            inputs = tuple([values[child] for child in term.inputs])
            operator = bound(typing.operators[term], tuple([typing.types[child] for child in term.inputs]))
            value = self._values.applied(operator, inputs, carried)
            if value is None:
                return None
            values[term] = value
        return values


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


def kernel_variables(equation: Equation) -> tuple[str, ...]:
    """Variables from which kernels are made, and no data of a convolution."""
    found = convolutions(equation)
    data = set(variables(*(term.inputs[0] for term in found)))
    return tuple(name for name in variables(*(term.inputs[1] for term in found)) if name not in data)


def fixed_dimension(condition: Condition) -> tuple[str, int, int] | None:
    """(variable, axis, size) of a clause like ``dim(w, 2) = 1``."""
    match condition:
        case Condition(ConditionCall("dim", (ConditionName(name), int(axis))), "=", int(size)):
            return name, axis, size
        case _:
            return None


def _symbolic(equation: Equation, shapes: Shapes, attributes: Attributes) -> dict[str, TensorType]:
    fixed = {(f[0], f[1]): f[2] for c in equation.conditions if (f := fixed_dimension(c)) is not None}
    equal = _equal_sizes(equation, shapes, attributes)
    needed = divisions_needed(equation, {name: len(shape) for name, shape in shapes.items()}, attributes)
    return {
        name: variable_type(
            name,
            [
                fixed.get((name, axis), symbol("{}.{}".format(*_first(equal, (name, axis)))))
                for axis in range(len(shape))
            ],
            needed,
        )
        for name, shape in shapes.items()
    }


def _equal_sizes(equation: Equation, shapes: Shapes, attributes: Attributes) -> dict[Size, Size]:
    """Sizes of variables that operators on variables ask to be equal: unification need not find them."""
    equal: dict[Size, Size] = {}
    if equation.conditions:
        return equal
    for term in applications(*equation.left, *equation.right):
        names = [child.name for child in term.inputs if isinstance(child, Variable)]
        if len(names) != len(term.inputs) or len(names) < 2 or OPERATORS[term.operator].implicit:
            continue
        given = tuple(
            (name, attributes[value.name] if isinstance(value, AttributeVariable) else value)
            for name, value in term.attributes
        )
        ranks = tuple(len(shapes[name]) for name in names)
        for (i, j), (k, m) in _asked_to_be_equal(term.operator, given, ranks):
            one, other = _first(equal, (names[i], j)), _first(equal, (names[k], m))
            if one != other:
                equal[max(one, other)] = min(one, other)
    return equal


def _first(equal: Mapping[Size, Size], size: Size) -> Size:
    while size in equal:
        size = equal[size]
    return size


@lru_cache(maxsize=1024)
def _asked_to_be_equal(
    name: str, attributes: tuple[tuple[str, object], ...], ranks: tuple[int, ...]
) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """Pairs of (input, axis) that the operator says are of one size, at least."""
    places = {f"{i}.{j}": (i, j) for i, rank in enumerate(ranks) for j in range(rank)}
    sizes: dict[str, Dimension] = {place: symbol(place) for place in places}
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    while True:
        types = [
            TensorType(ElementType.FLOAT, tuple(sizes[f"{i}.{j}"] for j in range(rank)))
            for i, rank in enumerate(ranks)
        ]
        try:
            operator_from_attributes(name, dict(attributes)).infer(*types)
        except DimensionMismatchError as mismatch:
            one, other = as_symbol(mismatch.left), as_symbol(mismatch.right)
            if one is not None and other is not None and one != other:
                found.append((places[one], places[other]))
                sizes = {p: substitute(size, {other: symbol(one)}) for p, size in sizes.items()}
                continue
        except IllTypedError:
            pass
        return tuple(found)


def _typed_apart(equation: Equation, shapes: Shapes, attributes: Attributes) -> tuple[Types, int]:
    """The most general types at which each side is typed, whether or not they then have the same type; and
    how many sides are typed."""
    types: Types = _symbolic(equation, shapes, attributes)
    typed = 0
    for side in (equation.right, equation.left):
        try:
            types = _unified(types, infer_terms(side, types, attributes))
            typed += 1
        except IllTypedError:
            continue
    return types, typed


def _free(types: Types) -> frozenset[str]:
    return frozenset[str]().union(*(type_.symbols for type_ in types.values()))


def _unified(types: Types, typing: Typing) -> Types:
    return {name: type_.substitute(typing.assignment) for name, type_ in types.items()}


def _symbols(dimension: Dimension) -> frozenset[str]:
    return frozenset() if isinstance(dimension, int) else dimension.symbols


def _divided(type_: TensorType) -> TensorType:
    """A kernel for two groups."""
    if type_.rank != 4:
        return type_
    outputs, channels, *rest = type_.shape
    return replace(type_, shape=(outputs, channels // 2, *rest))


def _drawn(choices: tuple[int, ...], name: str, sample: int) -> int:
    return choices[zlib.crc32(f"{name} {sample}".encode()) % len(choices)]


def _resolved(general: Typing, types: Types, sizes: Mapping[str, Dimension], sample: int) -> Typing:
    """The typing at these sizes, those that nothing determines drawn; IllTypedError if they do not fit."""
    drawn: dict[str, Dimension] = {
        name: 1 + _drawn((0, 1, 2, 3), name, sample) for name in sorted(general.unresolved)
    }
    return with_numbers(general, tuple(general.operators), types, {**drawn, **sizes})
