"""What operators say of types with symbols holds for all numbers that these may stand for.

The checker of proofs drops the cases that an operator refuses, so a refusal has to be right: types that some
numbers make well-typed are refused by an equation that these numbers fulfil, or by an error that does not say
for which numbers it holds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields

from superopt.errors import DimensionMismatchError, IllTypedError, UnfitTypesError
from superopt.ir.dimensions import Dimension, substitute, symbol
from superopt.ir.types import ElementType, ShardedType, TensorType
from superopt.ops import OPERATORS, Operator, operator_from_attributes
from superopt.verifier.certificates.dropped_cases import ways_to_fit
from superopt.verifier.certificates.groups import groups_of
from tests.ops.examples import Example, every_operator, examples

TRIED = 40
LARGEST = 40
OF_ONE = (
    ("broadcast", {"shape": (2, 3)}, (1, 3)),
    ("broadcast", {"shape": (2, 3, 4)}, (3, 1)),
    ("sum_to", {"shape": (1, 3)}, (2, 3)),
    ("sum_to", {"shape": (3, 1)}, (2, 3, 4)),
)
"""Operators that treat axes of size 1 in a way of their own."""

IN_SIZES = ("kernel", "stride", "dilation", "padding", "shape", "size", "channels")


class _Writer:
    """Writes numbers as sums and products of symbols, which have these numbers as their values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.values: dict[str, int] = {}

    def size(self, number: int, least: int = 1) -> Dimension:
        """The number, or an expression for it; symbols are at least 1."""
        way = self._random.randrange(6)
        if way == 0 or number < least:
            return number
        if way == 1 and number > 1:
            part = self._random.randrange(1, number)
            return self._named(part) + self._named(number - part)
        if way == 2:
            factor = self._random.choice([d for d in range(1, number + 1) if number % d == 0] or [1])
            return self._named(number // factor) * factor if number else 0
        if way == 3:
            return self._named(number + 1) - 1
        return self._named(number)

    def _named(self, value: int) -> Dimension:
        known = [name for name, own in self.values.items() if own == value]
        if known and self._random.random() < 0.6:
            return symbol(self._random.choice(known))
        name = f"s{len(self.values)}"
        self.values[name] = value
        return symbol(name)


def _written(example: Example, seed: int) -> tuple[Operator, tuple[TensorType, ...], dict[str, int]] | None:
    """The operator and its operands with symbols; None if the operator does not take the attributes."""
    writer = _Writer(seed)
    types = tuple(_type(type_, writer) for type_ in example.types)
    attributes: dict[str, object] = {}
    for field in fields(example.operator):  # type: ignore[arg-type]
        value = getattr(example.operator, field.name)
        if field.name in IN_SIZES and seed % 3 == 0:
            least = 0 if field.name == "padding" else 1
            if isinstance(value, tuple) and all(isinstance(part, int) for part in value):
                value = tuple(writer.size(part, least) for part in value)
            elif isinstance(value, int):
                value = writer.size(value)
        attributes[field.name] = value
    try:
        return type(example.operator)(**attributes), types, writer.values
    except IllTypedError:
        return None


def _type(type_: TensorType, writer: _Writer) -> TensorType:
    if isinstance(type_, ShardedType):
        parts = [division.parts for division in type_.divisions]
        sizes = [_number(size) // count for size, count in zip(type_.shape, parts, strict=True)]
        written = (writer.size(size) * count for size, count in zip(sizes, parts, strict=True))
        return ShardedType(type_.element, tuple(written), type_.divisions, type_.replicas)
    return TensorType(type_.element, tuple(writer.size(_number(size)) for size in type_.shape))


def _number(size: Dimension) -> int:
    assert isinstance(size, int)
    return size


def _wrong(example: Example, seed: int) -> Iterator[str]:
    """What the operator says of types with symbols that is untrue for the numbers of the example."""
    written = _written(example, seed)
    if written is None:
        return
    operator, types, values = written
    numbers: dict[str, Dimension] = dict(values.items())
    groups = groups_of(operator, types)
    if groups is not None and groups.are_open:
        return
    what = f"{operator} of {', '.join(map(str, types))} for {values}"
    try:
        results = operator.infer(*types)
    except DimensionMismatchError as mismatch:
        pairs = [(substitute(a, numbers), substitute(b, numbers)) for a, b in ways_to_fit(operator, mismatch)]
        if all(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
            yield f"{what}: {mismatch}"
    except UnfitTypesError as refusal:
        yield f"{what}: {refusal}"
    except IllTypedError:
        return
    else:
        made = tuple(type_.substitute(numbers) for type_ in results)
        if made != example.operator.infer(*example.types):
            yield f"{what}: {', '.join(map(str, results))}"


def _examples(name: str) -> Iterator[Example]:
    yield from examples(name)
    for operator, attributes, shape in OF_ONE:
        if operator == name:
            types = (TensorType(ElementType.FLOAT, shape),)
            yield Example(operator_from_attributes(name, attributes), types)


@every_operator
def test_refusals_are_right_for_all_numbers(name: str) -> None:
    wrong = [
        said
        for example in _examples(name)
        if all(_number(size) <= LARGEST for type_ in example.types for size in type_.shape)
        for seed in range(TRIED)
        for said in _wrong(example, seed)
    ]
    assert not wrong, "\n".join(wrong[:5])


def test_every_operator_has_examples_with_symbols() -> None:
    without = [
        name
        for name, operator in OPERATORS.items()
        if operator.inputs and not any(_written(example, 1) for example in examples(name))
    ]
    assert not without
