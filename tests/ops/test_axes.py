"""An axis that is counted from the back is the same axis counted from the front, of the first operand.

The cases of a rule rest on this: they have axes from the front alone, where all tensors of an axis variable
have one rank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from superopt.domains import FloatDomain
from superopt.errors import IllTypedError
from superopt.ir.dimensions import symbol
from superopt.ir.terms import Condition, ConditionCall, ConditionName
from superopt.ir.types import ElementType, TensorType
from superopt.ops import OPERATORS, Operator, attribute_names
from superopt.rewriting.conditions import holds
from tests.ops.examples import WHOLE, Example, examples

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ALONG_AXES = sorted(name for name in OPERATORS if "axis" in attribute_names(name))


def _at(example: Example, axis: int) -> Operator:
    return cast("Operator", replace(cast("DataclassInstance", example.operator), axis=axis))


def _ways(example: Example) -> tuple[Operator, Operator]:
    """The operator with its axis counted from the front and from the back."""
    rank = example.types[0].rank
    axis = example.operator.axis % rank  # type: ignore[attr-defined]
    return _at(example, axis), _at(example, axis - rank)


@pytest.mark.parametrize("name", ALONG_AXES)
def test_types_and_values_are_the_same(name: str) -> None:
    assert examples(name)
    for example in examples(name):
        front, back = _ways(example)
        assert front != back
        assert front.infer(*example.types) == back.infer(*example.types)
        generator = np.random.default_rng(0)
        arrays = tuple(generator.uniform(0.5, 2, (1, *shape)) for shape in example.shapes)
        values = [each.evaluate_typed(example.types, FloatDomain(), arrays) for each in (front, back)]
        for one, other in zip(*values, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ALONG_AXES)
def test_the_same_types_are_refused(name: str) -> None:
    """Of shapes and of symbols; and axes that a tensor does not have, in both directions."""
    example = examples(name)[0]
    for type_ in WHOLE:
        symbols = TensorType(ElementType.FLOAT, tuple(symbol(f"n{axis}") for axis in range(type_.rank)))
        for first in (type_, symbols):
            operands = (first, *example.types[1:])
            for axis in range(type_.rank):
                assert _outcome(_at(example, axis), operands) == _outcome(
                    _at(example, axis - type_.rank), operands
                )
            for axis in (type_.rank, -type_.rank - 1):
                with pytest.raises(IllTypedError):
                    _at(example, axis).infer(*operands)


def _outcome(operator: Operator, operands: tuple[TensorType, ...]) -> object:
    try:
        return operator.infer(*operands)
    except IllTypedError as error:
        return type(error)


@pytest.mark.parametrize("function", ["axis", "dim"])
def test_conditions_about_axes_are_the_same(function: str) -> None:
    call = ConditionCall(function, (ConditionName("x"), ConditionName("a")))
    for type_ in WHOLE:
        for axis in range(type_.rank):
            for number in (*range(-1, type_.rank), *type_.shape):
                condition = Condition(call, "=", number)  # type: ignore[arg-type]
                front, back = (holds(condition, {"x": type_}, {"a": a}) for a in (axis, axis - type_.rank))
                assert front == back
