"""A goal at its shapes: the leaves of its gradients and the operators that may be applied to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np

from superopt.domains.small_field import SmallArray
from superopt.equations import Adjoint
from superopt.errors import IllTypedError
from superopt.generator.adjoints.vocabulary import Attributes, Constant, Goal, Search, Word
from superopt.generator.enumerate.enumeration import constant_value, input_values
from superopt.generator.presets.preset import ConstantTensor, InputTensor, InputType, Instance, Stage
from superopt.ir.numbers import AttributeVariable, names_of, substituted_number
from superopt.ir.terms import Application, AttributeTerm, Term, Variable
from superopt.ir.types import ElementType, TensorType
from superopt.ops import OPERATORS, Operator, attribute_names, operator_from_attributes
from superopt.ops.base import attribute_defaults, attributes_of
from superopt.ops.terms import application

COTANGENT = "g"
_OPERANDS = "xyz"

VALUE, LINEAR, NUMBER, CHOICE = "value", "cotangent", "number", "choice"
"""Roles: tensors, those linear in the cotangent, numbers without axes, and conditions or indices."""


@dataclass(frozen=True)
class Problem:
    """A goal with names for its operands and its open attributes."""

    goal: Goal
    own: Application
    result: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the operands."""
        return tuple(_OPERANDS[: len(self.goal.shapes)])

    @property
    def cotangent(self) -> Variable:
        """The cotangent of the result."""
        return Variable(COTANGENT)

    @property
    def target(self) -> InputType:
        """The type of the gradient."""
        return InputType(LINEAR, self.goal.shapes[self.goal.input])

    def statement(self, gradient: Term) -> Adjoint:
        """The statement that the gradient is this term."""
        return Adjoint("", self.own, self.goal.input, self.cotangent, gradient)

    def stage(self, search: Search) -> Stage:
        """The stage that enumerates terms of the search over operands, cotangent and result."""
        inputs = (
            *(
                InputTensor(n, InputType(r, s))
                for n, r, s in zip(self.names, self._roles(), self.goal.shapes, strict=True)
            ),
            InputTensor(COTANGENT, InputType(LINEAR, self.result)),
        )
        instances = tuple(i for word in search.words for i in self._instances(word))
        stage = Stage(search.max_ops + 1, inputs, (), instances)
        return replace(stage, constants=_distinct(stage, self._constants(search.constants)))

    def _roles(self) -> Iterator[str]:
        for index, shape in enumerate(self.goal.shapes):
            yield CHOICE if index in self.goal.operator.conditions else VALUE if shape else NUMBER

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        """The distinct shapes of operands and result."""
        return tuple(dict.fromkeys((*self.goal.shapes, self.result)))

    def _filled(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of constants: also those that operands lack along one axis of others."""
        shapes = self._shapes()
        rests = (rest for whole, part in itertools.permutations(shapes, 2) if (rest := _rest(whole, part)))
        return tuple(dict.fromkeys((*shapes, *rests)))

    def _constants(self, constants: Sequence[Constant]) -> Iterator[ConstantTensor]:
        """The result, which costs no operator, and constants."""
        yield ConstantTensor(self.goal.operator, self.own, VALUE if self.result else NUMBER, self.names)
        for constant in constants:
            for shape in [()] if constant.role == NUMBER else filter(None, self._filled()):
                made = self._operator(constant.name, constant.attributes, {"shape": shape})
                if made is not None:
                    yield ConstantTensor(made[0], application(constant.name, dict(made[1])), constant.role)

    def _instances(self, word: Word) -> Iterator[Instance]:
        """The operator at every value of attributes that types determine."""
        hidden = OPERATORS[word.name].implicit
        for chosen in itertools.product(*(self._implicit(name) for name in hidden)):
            made = self._operator(word.name, word.attributes, dict(zip(hidden, chosen, strict=True)))
            if made is not None:
                yield Instance(word.name, made[1], word.signatures, made[0])

    def _implicit(self, name: str) -> Sequence[object]:
        """The values that a size or a shape may have."""
        if name == "shape":
            return self._shapes()
        return sorted({size for shape in self._shapes() for size in shape})

    def _operator(
        self, name: str, given: Attributes, implicit: Mapping[str, object]
    ) -> tuple[Operator, Attributes] | None:
        """The operator, and its attributes as statements write them; None where an attribute is missing."""
        own = attributes_of(self.goal.operator)
        letters = dict(self.own.attributes)
        written = dict(given)
        for attribute in attribute_names(name):
            if attribute in letters and attribute not in {*written, *implicit}:
                written[attribute] = AttributeVariable(attribute)
        if any(not names_of(value) <= letters.keys() for value in written.values()):
            return None
        try:
            values = {key: substituted_number(value, own) for key, value in written.items()}
            operator = operator_from_attributes(name, {**values, **implicit})
            terms = {
                key: cast("AttributeTerm", substituted_number(value, letters))
                for key, value in written.items()
            }
            return operator, application(name, terms).attributes
        except IllTypedError:
            return None


def problem_of(goal: Goal) -> Problem:
    """The goal with names. Raises IllTypedError where the operator does not accept the shapes."""
    operator = goal.operator
    types = [TensorType(ElementType.FLOAT, shape) for shape in goal.shapes]
    (result,) = operator.infer(*types)
    own = application(operator.name, _attributes(goal), *map(Variable, _OPERANDS[: len(goal.shapes)]))
    return Problem(goal, own, cast("tuple[int, ...]", result.shape))


def _attributes(goal: Goal) -> dict[str, AttributeTerm]:
    """Variables for open attributes, values of the others that are not determined by types."""
    defaults, operator = attribute_defaults(goal.operator.name), goal.operator
    found: dict[str, AttributeTerm] = {}
    for name, value in attributes_of(operator).items():
        if name in goal.variable:
            letter = name[0]
            taken = any(other[0] == letter for other in goal.variable if other != name)
            found[name] = AttributeVariable(name if taken else letter)
        elif name not in operator.implicit and defaults.get(name) != value:
            found[name] = cast("int | Fraction | str", value)
    return found


def _rest(whole: tuple[int, ...], part: tuple[int, ...]) -> tuple[int, ...]:
    """What is left of a shape beside a part of it along one axis; () where there is no such axis."""
    if len(whole) != len(part):
        return ()
    axes = [axis for axis, (size, cut) in enumerate(zip(whole, part, strict=True)) if size != cut]
    if len(axes) != 1 or whole[axes[0]] < part[axes[0]]:
        return ()
    return tuple(size - part[axis] if axis == axes[0] else size for axis, size in enumerate(whole))


def _distinct(stage: Stage, constants: Iterator[ConstantTensor]) -> tuple[ConstantTensor, ...]:
    """The constants whose values differ from those of inputs and of earlier ones."""
    inputs = input_values(stage)
    known: list[tuple[InputType, SmallArray]] = [
        (tensor.type, inputs[tensor.name]) for tensor in stage.inputs
    ]
    kept: list[ConstantTensor] = []
    for constant in constants:
        value = constant_value(constant, inputs)
        type_ = InputType(constant.role, value.residue.shape[1:])
        if not any(type_ == t and np.array_equal(value.residue, v.residue) for t, v in known):
            known.append((type_, value))
            kept.append(constant)
    return tuple(kept)


__all__ = ["COTANGENT", "LINEAR", "Problem", "problem_of"]
