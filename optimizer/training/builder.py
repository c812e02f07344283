"""Arithmetic added to a graph under construction, and what the training step gains by it: inputs, constants,
states."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from superopt.domains import Array
from superopt.errors import InvalidModelError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import GraphEditor, Input, Node, Value, Weight
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.protos import dtype_of
from superopt.ops import Operator
from superopt.ops.elementwise.arithmetic import Add, Scale
from superopt.ops.elementwise.precision import Cast, precision_of
from superopt.ops.elementwise.selection import Select
from superopt.ops.filled import Full
from superopt.ops.reduction import ReduceMean, ReduceSum
from superopt.ops.shape import Broadcast, Reshape
from superopt.optimizer.training.description import Role
from superopt.optimizer.training.gradients.simplification import Simplifier

Number: TypeAlias = "Fraction | int"

SCALAR: tuple[Dimension, ...] = ()


@dataclass(frozen=True)
class NewState:
    """A tensor that one step hands to the next: the graph input with its present value, its next value, and
    its content before the first step. ``of`` is the parameter that it belongs to, None if to all."""

    name: str
    role: Role
    input: str
    output: Value
    initial: Array
    of: str | None


@dataclass(frozen=True, slots=True)
class _Held:
    """A state whose next value is not known yet."""

    name: str
    role: Role
    initial: Array
    of: str | None


class StepBuilder:
    """Adds nodes to a graph, and collects the inputs, constants and states that they need.

    Numbers are 0-d tensors; equal ones are one node.
    """

    def __init__(self, editor: GraphEditor) -> None:
        self._editor = editor
        self._simplifier = Simplifier(editor, self)
        nodes = tuple(editor.build())
        self._taken = {node.operator.label for node in nodes if isinstance(node.operator, Input | Weight)}
        self._given_inputs = {
            node.operator.label: node.value for node in nodes if isinstance(node.operator, Input)
        }
        self._numbers: dict[tuple[Number, ElementType], Value] = {}
        self._inputs: list[str] = []
        self._weights: dict[str, Array] = {}
        self._held: list[_Held] = []
        self._next: dict[str, Value] = {}

    def node(self, value: Value) -> Node:
        """The node that computes a value."""
        return self._editor[value.node]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs added, without those of states."""
        return tuple(self._inputs)

    @property
    def weights(self) -> dict[str, Array]:
        """The content of the constants added, by label."""
        return dict(self._weights)

    @property
    def states(self) -> tuple[NewState, ...]:
        """The states added; every one must have its next value."""
        return tuple(
            NewState(held.name, held.role, held.name, self._next[held.name], held.initial, held.of)
            for held in self._held
        )

    def type(self, value: Value) -> TensorType:
        """The type of a value; raises InvalidModelError unless it is a tensor of known rank."""
        type_ = self._editor.type_of(value)
        if not isinstance(type_, TensorType):
            raise InvalidModelError(f"training: expected a tensor of known rank, got {type_}")
        return type_

    def apply(self, operator: Operator, *operands: Value) -> Value:
        """The first output of the operator, or a simpler value that it equals; raises IllTypedError."""
        simpler = self._simplifier.simpler(operator, operands)
        return self._editor.add(operator, operands).value if simpler is None else simpler

    def input(self, label: str, type_: TensorType) -> Value:
        """A new input; raises InvalidModelError if the graph has a tensor of that name."""
        value = self._new_input(label, type_)
        self._inputs.append(label)
        return value

    def constant(self, label: str, content: Array, element: ElementType) -> Value:
        """A constant tensor with that content."""
        self._weights[label] = content.astype(dtype_of(element))
        number = Fraction(content.item()) if content.size == 1 else None
        return self._editor.add(Weight(label, TensorType(element, content.shape), number)).value

    def number(self, number: Number, element: ElementType) -> Value:
        """A number as a 0-d tensor of the element type."""
        key = (number, element)
        if key not in self._numbers:
            self._numbers[key] = self._new_number(number, element)
        return self._numbers[key]

    def state(self, name: str, role: Role, initial: Array, type_: TensorType, of: str | None) -> Value:
        """The present value of a new state; an input of that name and type that the graph has becomes the
        state. Raises InvalidModelError if the name is taken otherwise."""
        given = self._given_inputs.get(name)
        if given is not None and self._editor.type_of(given) == type_:
            value = given
        else:
            value = self._new_input(name, type_)
        self._held.append(_Held(name, role, initial, of))
        return value

    def hand_on(self, name: str, value: Value) -> None:
        """Sets the next value of a state."""
        self._next[name] = value

    def repeated(self, value: Value, shape: tuple[Dimension, ...]) -> Value:
        """The tensor broadcast to a shape."""
        return value if self.type(value).shape == shape else self.apply(Broadcast(shape), value)

    def reshaped(self, value: Value, shape: tuple[Dimension, ...]) -> Value:
        """The tensor in another shape."""
        return value if self.type(value).shape == shape else self.apply(Reshape(shape), value)

    def converted(self, value: Value, element: ElementType) -> Value:
        """The tensor as floating point numbers of that type."""
        precision = precision_of(element)
        if self.type(value).element is element or precision is None:
            return value
        return self.apply(Cast(precision), value)

    def scaled(self, value: Value, factor: Number) -> Value:
        """The tensor times a number."""
        return value if factor == 1 else self.apply(Scale(), value, self.number_for(factor, value))

    def shifted(self, value: Value, term: Number) -> Value:
        """The tensor plus a number."""
        return value if term == 0 else self.apply(Add(), value, self.filled(term, value))

    def number_for(self, number: Number, value: Value) -> Value:
        """A number of the element type of a tensor."""
        return self.number(number, self.type(value).element)

    def filled(self, number: Number, like: Value) -> Value:
        """A number, repeated to the type of a tensor."""
        return self.repeated(self.number_for(number, like), self.type(like).shape)

    def chosen(self, condition: Value | None, left: Value, right: Value) -> Value:
        """``left`` where a 0-d condition is true, else ``right``; ``left`` without a condition."""
        if condition is None:
            return left
        return self.apply(Select(), self.repeated(condition, self.type(left).shape), left, right)

    def total(self, value: Value) -> Value:
        """The sum of all elements, 0-d."""
        for axis in reversed(range(self.type(value).rank)):
            value = self.apply(ReduceSum(axis), value)
        return self.reshaped(value, SCALAR)

    def mean(self, value: Value) -> Value:
        """The mean of all elements, 0-d."""
        for axis in reversed(range(self.type(value).rank)):
            value = self.apply(ReduceMean(axis), value)
        return self.reshaped(value, SCALAR)

    def _new_input(self, label: str, type_: TensorType) -> Value:
        if label in self._taken:
            raise InvalidModelError(
                f"training: expected a model without a tensor named {label!r}, which the step needs as an "
                "input; rename the model's"
            )
        self._taken.add(label)
        return self._editor.add(Input(label, type_)).value

    def _new_number(self, number: Number, element: ElementType) -> Value:
        if element is ElementType.FLOAT:
            return self.apply(Full(number, SCALAR))
        exact = int(number) if element.is_integer else float(number)
        return self.constant(f"superopt/number/{element}/{number}", np.asarray(exact), element)
