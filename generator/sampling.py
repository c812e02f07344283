"""Whether an equation holds at random shapes: typed in general first, then evaluated over the prime field."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from superopt.domains import FieldArray, PrimeFieldDomain
from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension, substitute, symbol
from superopt.ir.terms import Application, Equation, Term, Variable, applications
from superopt.ir.types import ElementType, TensorType
from superopt.ops import Operator, attributes_of, operator_from_attributes
from superopt.rewriting import Typing, evaluate_terms, infer_terms, type_equation

Shapes = Mapping[str, tuple[int, ...]]
Attributes = Mapping[str, object]

TEST_VECTORS = 4
_ATTEMPTS = 24
_STEPS = (-1, 0, 1, 1, 2, 3)
_NO_ATTRIBUTES: Attributes = {}


class Sampler:
    """Random evaluation of equations; every equation is tested on numbers that depend on its text alone."""

    def __init__(self) -> None:
        self._domain = PrimeFieldDomain()

    def types_in_general(self, equation: Equation, shapes: Shapes, attributes: Attributes = _NO_ATTRIBUTES) -> bool:
        """Whether both sides have a type for variables of these ranks."""
        try:
            type_equation(equation, _symbolic(shapes), attributes)
        except IllTypedError:
            return False
        return True

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
        """Whether both sides agree at ``samples`` random shapes near the given ones; None where none is typed."""
        try:
            general = type_equation(equation, _symbolic(shapes), attributes)
        except IllTypedError:
            return None
        types = {
            name: TensorType(ElementType.FLOAT, tuple(substitute(d, general.assignment) for d in type_.shape))
            for name, type_ in _symbolic(shapes).items()
        }
        known = {f"{name}.{axis}": size for name, shape in shapes.items() for axis, size in enumerate(shape)}
        free = sorted({s for type_ in types.values() for s in type_.symbols})
        random = np.random.default_rng(zlib.crc32(repr((equation.left, equation.right)).encode()))
        tested = 0
        for _ in range(_ATTEMPTS):
            sizes = {name: max(1, known.get(name, 3) + int(random.choice(_STEPS))) for name in free}
            agrees = self._agrees(equation, types, attributes, sizes, random)
            if agrees is False:
                return False
            tested += agrees is True
            if tested == samples:
                break
        return True if tested else None

    def _agrees(
        self,
        equation: Equation,
        types: Mapping[str, TensorType],
        attributes: Attributes,
        sizes: Mapping[str, int],
        random: np.random.Generator,
    ) -> bool | None:
        concrete = {name: type_.substitute(sizes) for name, type_ in types.items()}
        if any(not isinstance(d, int) or d < 1 for type_ in concrete.values() for d in type_.shape):
            return None
        try:
            typing = _resolved(type_equation(equation, concrete, attributes), random)
            arrays = {
                name: self._domain.random(random, TEST_VECTORS, tuple(d for d in type_.shape if isinstance(d, int)))
                for name, type_ in sorted(concrete.items())
            }
            terms = (*equation.left, *equation.right)
            values = evaluate_terms(terms, typing, self._domain, arrays)
        except IllTypedError:
            return None
        outputs = len(equation.left)
        return all(_equal(a, b) for a, b in zip(values[:outputs], values[outputs:], strict=True))


def _symbolic(shapes: Shapes) -> dict[str, TensorType]:
    return {
        name: TensorType(ElementType.FLOAT, tuple(symbol(f"{name}.{axis}") for axis in range(len(shape))))
        for name, shape in shapes.items()
    }


def _resolved(typing: Typing, random: np.random.Generator) -> Typing:
    """The typing with sizes that nothing determines drawn at random; raises IllTypedError where they do not fit."""
    if not typing.unresolved:
        return typing
    open_sizes: dict[str, Dimension] = {name: int(random.integers(1, 5)) for name in sorted(typing.unresolved)}
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

