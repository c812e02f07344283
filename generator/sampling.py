"""Whether an equation holds at random shapes: typed in general first, then evaluated over the prime field.

Types that inference finds have ungrouped convolutions; every other sample therefore divides the channels of
the kernels, so that an equation that needs ungrouped convolutions is noticed.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from superopt.domains import FieldArray, PrimeFieldDomain
from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension, substitute, symbol
from superopt.ir.terms import (
    Application,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
    applications,
    variables,
)
from superopt.ir.types import ElementType, TensorType
from superopt.ops import Operator, attributes_of, operator_from_attributes
from superopt.rewriting import Typing, evaluate_terms, holds, infer_terms, type_equation

Shapes = Mapping[str, tuple[int, ...]]
Attributes = Mapping[str, object]
Types = Mapping[str, TensorType]

TEST_VECTORS = 4
_EVEN_STEPS = (-2, 0, 0, 2, 4)
_STEPS = (-1, 0, 1, 2, 3)
_GROUPED_SIZES = (2, 4)
_PATIENCE = 16
_NO_ATTRIBUTES: Attributes = {}


class Sampler:
    """Random evaluation of equations; every equation is tested on numbers that depend on its text alone."""

    def __init__(self) -> None:
        self._domain = PrimeFieldDomain()

    def types_in_general(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES
    ) -> bool:
        """Whether both sides have a type for variables of these ranks."""
        return _general_types(equation, shapes, attributes) is not None

    def equates_sizes(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES
    ) -> bool:
        """Whether the sides have one type only where sizes are equal that neither side asks to be."""
        apart = _typed_apart(equation, shapes, attributes)
        together = _general_types(equation, shapes, attributes)
        return together is not None and len(_free(together)) < len(_free(apart))

    def shape_of(self, term: Term, shapes: Shapes) -> tuple[int, ...] | None:
        """The shape of a term for variables of these shapes; None where that depends on a cut."""
        try:
            typing = infer_terms((term,), {n: TensorType(ElementType.FLOAT, s) for n, s in shapes.items()})
        except IllTypedError:
            return None
        sizes = tuple(d for d in typing.types[term].shape if isinstance(d, int))
        return sizes if len(sizes) == typing.types[term].rank else None

    def holds(
        self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES, samples: int = 2
    ) -> bool | None:
        """Whether both sides agree at ``samples`` random shapes near the given ones; None: none is typed."""
        types = _general_types(equation, shapes, attributes)
        if types is None:
            return None
        known = {f"{name}.{axis}": size for name, shape in shapes.items() for axis, size in enumerate(shape)}
        free = sorted(_free(types))
        kernels = kernel_variables(equation)
        channels = {
            s for t in types.values() if kernels and t.rank == 4 for d in t.shape[:2] for s in _symbols(d)
        }
        random = np.random.default_rng(zlib.crc32(repr((equation.left, equation.right)).encode()))
        tested, wanted = 0, samples // 2 if kernels else 0
        for attempt in range(8 + 6 * samples):
            grouped = bool(kernels) and attempt % 2 == 1
            steps = _STEPS if attempt & 2 else _EVEN_STEPS
            sizes = {
                name: int(random.choice(_GROUPED_SIZES))
                if grouped and name in channels
                else max(1, known.get(name, 3) + int(random.choice(steps)))
                for name in free
            }
            concrete = {name: type_.substitute(sizes) for name, type_ in types.items()}
            if grouped:
                everything = random.random() < 0.75
                chosen = [name for name in kernels if everything or random.random() < 0.5]
                concrete = {n: _divided(t) if n in chosen else t for n, t in concrete.items()}
            agrees = self._agrees(equation, concrete, attributes, random)
            if agrees is False:
                return False
            tested += agrees is True and not grouped
            wanted -= agrees is True and grouped
            if tested >= samples and (wanted <= 0 or attempt >= _PATIENCE):
                break
        return True if tested else None

    def _agrees(
        self, equation: Equation, types: Types, attributes: Attributes, random: np.random.Generator
    ) -> bool | None:
        if any(not isinstance(d, int) or d < 1 for type_ in types.values() for d in type_.shape):
            return None
        if not all(holds(condition, types, attributes) for condition in equation.conditions):
            return None
        terms = (*equation.left, *equation.right)
        outputs = len(equation.left)
        try:
            apart = infer_terms(terms, types, attributes)
            found = [apart.types[term] for term in terms]
            if not apart.unresolved and found[:outputs] != found[outputs:]:
                return False
            typing = _resolved(type_equation(equation, types, attributes), random)
            arrays = {
                name: self._domain.random(
                    random, TEST_VECTORS, tuple(d for d in type_.shape if isinstance(d, int))
                )
                for name, type_ in sorted(types.items())
            }
            values = evaluate_terms(terms, typing, self._domain, arrays)
        except IllTypedError:
            return None
        return all(_equal(a, b) for a, b in zip(values[:outputs], values[outputs:], strict=True))


def convolutions(equation: Equation) -> tuple[Application, ...]:
    """The applications of ``conv`` on both sides."""
    terms = applications(*equation.left, *equation.right)
    return tuple(term for term in terms if term.operator == "conv")


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


def _symbolic(equation: Equation, shapes: Shapes) -> dict[str, TensorType]:
    fixed = {(f[0], f[1]): f[2] for c in equation.conditions if (f := fixed_dimension(c)) is not None}
    return {
        name: TensorType(
            ElementType.FLOAT,
            tuple(fixed.get((name, axis), symbol(f"{name}.{axis}")) for axis in range(len(shape))),
        )
        for name, shape in shapes.items()
    }


def _general_types(equation: Equation, shapes: Shapes, attributes: Attributes) -> Types | None:
    """The most general types of the variables; each side is typed first, where it can be.

    Unification cannot look into a rounded division, but the other side may say that two sizes are equal.
    """
    types = _typed_apart(equation, shapes, attributes)
    try:
        return _unified(types, type_equation(equation, types, attributes))
    except IllTypedError:
        return None


def _typed_apart(equation: Equation, shapes: Shapes, attributes: Attributes) -> Types:
    """The most general types at which each side is typed, whether or not they then have the same type."""
    types: Types = _symbolic(equation, shapes)
    for side in (equation.right, equation.left):
        try:
            types = _unified(types, infer_terms(side, types, attributes))
        except IllTypedError:
            continue
    return types


def _free(types: Types) -> frozenset[str]:
    return frozenset[str]().union(*(type_.symbols for type_ in types.values()))


def _unified(types: Types, typing: Typing) -> Types:
    return {
        name: type_.with_shape(tuple(substitute(d, typing.assignment) for d in type_.shape))
        for name, type_ in types.items()
    }


def _symbols(dimension: Dimension) -> frozenset[str]:
    return frozenset() if isinstance(dimension, int) else dimension.symbols


def _divided(type_: TensorType) -> TensorType:
    """A kernel for two groups."""
    if type_.rank != 4:
        return type_
    outputs, channels, *rest = type_.shape
    return type_.with_shape((outputs, channels // 2, *rest))


def _resolved(typing: Typing, random: np.random.Generator) -> Typing:
    """The typing with sizes that nothing determines drawn at random; IllTypedError if they do not fit."""
    if not typing.unresolved:
        return typing
    open_sizes: dict[str, Dimension] = {
        name: int(random.integers(1, 5)) for name in sorted(typing.unresolved)
    }
    types: dict[Term, TensorType] = {
        term: type_ for term, type_ in typing.types.items() if isinstance(term, Variable)
    }
    operators: dict[Application, Operator] = {}
    for term in applications(*typing.operators):
        operator = typing.operators[term]
        attributes = {name: _closed(value, open_sizes) for name, value in attributes_of(operator).items()}
        operators[term] = operator_from_attributes(operator.name, attributes)
        (types[term],) = operators[term].infer(*(types[child] for child in term.inputs))
    return Typing(types, operators, typing.assignment)


def _closed(value: object, sizes: Mapping[str, Dimension]) -> object:
    if isinstance(value, tuple):
        return tuple(_closed(part, sizes) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return substitute(value, sizes) if hasattr(value, "symbols") else value  # pyright: ignore[reportArgumentType]


def _equal(left: FieldArray, right: FieldArray) -> bool:
    return left.residue.shape == right.residue.shape and bool((left.residue == right.residue).all())
