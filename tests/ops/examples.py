"""Examples of every registered operator, found by trying shapes and values until it accepts them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeVar

import pytest

from superopt.domains import Domain
from superopt.errors import IllTypedError
from superopt.ir import ElementType, TensorType
from superopt.ir.types import Division, ShardedType
from superopt.ops import OPERATORS, Operator, attribute_names, operator_from_attributes
from superopt.ops.attributes import ATTRIBUTE_KINDS
from superopt.ops.bilinear.filter_algorithms import KARATSUBA
from superopt.ops.bilinear.product_algorithms import DOT, STRASSEN
from superopt.ops.sharded.parallel import ParallelOperator
from tests.ops.algorithms import BY_HALVES

A = TypeVar("A")

SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (3,),
    (4,),
    (2, 3),
    (3, 2),
    (2, 3, 4),
    (2, 4, 3),
    (2, 4, 5, 5),
    (2, 4, 4, 4),
    (2, 3, 4, 6),
    (3, 4, 3, 3),
    (4, 2, 3, 3),
    (4, 1, 2, 2),
    (3, 3, 1, 1),
    (4, 4, 1, 1),
    (9, 3, 1, 1),
    (2, 4),
    (14, 3),
)
VALUES: Mapping[str, tuple[object, ...]] = {
    "activation": ("none", "relu", "sigmoid", "tanh"),
    "algorithm": (STRASSEN, DOT),
    "alpha": (1, Fraction(1, 3)),
    "approximate": ("none", "tanh"),
    "axis": (0, -1, 1),
    "beta": (Fraction(1, 2), 1),
    "bias": (1, 2),
    "channels": (3, 1, 4),
    "columns": ((), KARATSUBA, BY_HALVES),
    "degree": (2,),
    "dilation": ((1, 1), (2, 1)),
    "epsilon": (Fraction(1, 100000), Fraction(1, 3)),
    "exponent": (2, -1, Fraction(1, 2), Fraction(-3, 4)),
    "high": (Fraction(3, 2), -1),
    "includes_padding": (0, 1),
    "kernel": ((3, 3), (1, 2), (3, 5)),
    "low": (0, Fraction(-2, 3)),
    "padding": ("valid", "same", "same_upper", "same_lower", (1, 0, 0, 2)),
    "perm": ((), (1, 0), (2, 0, 1), (0, 2, 3, 1)),
    "rows": ((), KARATSUBA, BY_HALVES),
    "shape": ((2, 3), (4, 3, 2), (6,), (2, 3, 4, 6), (), (2, 4, 5, 5), (4, 1, 2, 2)),
    "size": (1, 2, 3),
    "sizes": ((1, 2), (1, 1, 2), (2, 2)),
    "stride": ((1, 1), (2, 1)),
    "to": ("f16", "bf16", "f32", "f64"),
    "value": (0, Fraction(-2, 3)),
    "zeros": ((0, 0), (1, 0), (0, 1)),
}
CHECKED_BY_TYPES = ("algorithm", "rows", "columns", "zeros")
"""Algorithms: a term has a type only if they are matrices that compute a product or a filter. Zeros have to
complete the last part of a kernel."""

PER_OPERATOR = 24
PER_ARITY = 12


WHOLE = tuple(TensorType(ElementType.FLOAT, shape) for shape in SHAPES)
DIVIDED = (
    ShardedType(ElementType.FLOAT, (4, 3), (Division(2), Division())),
    ShardedType(ElementType.FLOAT, (3, 4), (Division(), Division(2)), 2),
    ShardedType(ElementType.FLOAT, (4, 3), (Division(1, 2), Division())),
)


@dataclass(frozen=True)
class Example:
    """An operator with types of operands that it accepts."""

    operator: Operator
    types: tuple[TensorType, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(_number(d) for d in type_.array_shape) for type_ in self.types)

    @property
    def result(self) -> tuple[tuple[int, ...], ...]:
        types = self.operator.infer(*self.types)
        return tuple(tuple(_number(d) for d in type_.array_shape) for type_ in types)

    def evaluated(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        return self.operator.evaluate_typed(self.types, domain, arrays)


def _number(dimension: object) -> int:
    assert isinstance(dimension, int)
    return dimension


def _attribute_choices(name: str) -> Iterator[dict[str, object]]:
    names = attribute_names(name)
    for attribute in names:
        assert attribute in VALUES, f"add examples of the attribute {attribute} (of {name}) to this test"
        assert attribute in {*ATTRIBUTE_KINDS, *CHECKED_BY_TYPES}, (
            f"say what values the attribute {attribute} (of {name}) takes"
        )
    for values in itertools.product(*(VALUES[attribute] for attribute in names)):
        yield dict(zip(names, values, strict=True))


@cache
def examples(name: str) -> tuple[Example, ...]:
    """Examples of the operator, spread over its attribute values and its shapes."""
    found: list[Example] = []
    known = (*WHOLE, *DIVIDED) if issubclass(OPERATORS[name], ParallelOperator) else WHOLE
    for arity in range(4):
        operands = list(itertools.product(known, repeat=arity))
        accepted: list[Example] = []
        for attributes in _attribute_choices(name):
            operator = operator_from_attributes(name, attributes)
            fitting = (Example(operator, types) for types in operands if _accepts(operator, types))
            accepted.extend(itertools.islice(fitting, 3))
            if len(accepted) > 400:
                break
        found.extend(accepted[:: max(1, len(accepted) // PER_ARITY)])
    return tuple(found[:PER_OPERATOR])


def _accepts(operator: Operator, types: tuple[TensorType, ...]) -> bool:
    try:
        operator.infer(*types)
    except IllTypedError:
        return False
    return True


every_operator = pytest.mark.parametrize("name", sorted(OPERATORS))
