"""Simplify gradients while they are built: numbers are gathered, factors move to what is smaller.

The chain rule gives passes over whole tensors that are not needed: a number is multiplied after a repetition
instead of before it, a product is summed although one of its factors could be taken out of the sum, and what
is left of elements without their mean is summed, which gives 0. Every step is an instance of the equations in
``EQUATIONS``: over the reals nothing changes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Protocol

from superopt.ir.graph import GraphEditor, Node, Value
from superopt.ir.types import ElementType, TensorType
from superopt.ops import Operator
from superopt.ops.elementwise.arithmetic import Add, Multiply, Scale, Subtract
from superopt.ops.gradients.transposes import SumTo
from superopt.ops.reduction import ReduceMean
from superopt.ops.shape import Broadcast
from superopt.rewriting.matching import repeated_number

EQUATIONS: Final = (
    "scale(x, full[value=1]()) => x",
    "scale(scale(x, full[value=a]()), full[value=b]()) => scale(x, full[value=a*b]())",
    "scale(broadcast(x), y) => broadcast(scale(x, y))",
    "scale(mul(x, y), z) => mul(x, scale(y, z))",
    "broadcast(broadcast(x)) => broadcast(x)",
    "add(x, full[value=0]()) => x",
    "add(x, x) => scale(x, full[value=2]())",
    "add(add(x, y), y) => add(x, scale(y, full[value=2]()))",
    "add(add(x, y), z) => add(add(x, z), y)",
    "mul(x, full[value=0]()) => full[value=0]()",
    "mul(x, full[value=1]()) => x",
    "reduce_sum[axis=a](scale(x, y)) => scale(reduce_sum[axis=a](x), y)",
    "reduce_sum[axis=a](add(x, y)) => add(reduce_sum[axis=a](x), reduce_sum[axis=a](y))",
    "reduce_sum[axis=a](mul(x, broadcast(y))) => mul(reduce_sum[axis=a](x), broadcast(y))",
    "reduce_sum[axis=a](sub(x, broadcast(reduce_mean[axis=a](x)))) => full[value=0]()",
)
"""What the steps are instances of. A sum to a shape is a sum over axes, one after the other."""


_MOST_NESTED = 16
"""Operators that one form is looked for through, so that long chains take neither the stack nor the time."""

_LEAST, _MOST = Fraction(1, 2**126), 2**127
"""Between these, numbers are normal in single precision."""


class Nodes(Protocol):
    """Adds nodes to a graph."""

    def apply(self, operator: Operator, /, *inputs: Value) -> Value:
        """The first output of the operator applied to the values, or a simpler value that it equals."""
        ...

    def number(self, number: Fraction | int, element: ElementType) -> Value:
        """A number as a 0-d tensor of that element type."""
        ...


class Simplifier:
    """Finds simpler forms of operators applied to values of a graph; ``nodes`` adds what they need."""

    def __init__(self, editor: GraphEditor, nodes: Nodes) -> None:
        self._editor = editor
        self._nodes = nodes
        self._depth = 0

    def simpler(self, operator: Operator, inputs: tuple[Value, ...]) -> Value | None:
        """A value that the operator applied to the inputs equals, calculated from smaller tensors or in fewer
        passes; None where none is known. Tensors in low precision stay as they are: numbers that are
        gathered may be out of its range."""
        if self._depth == _MOST_NESTED or not all(map(self._is_simplified, inputs)):
            return None
        self._depth += 1
        try:
            return self._form(operator, inputs)
        finally:
            self._depth -= 1

    def _is_simplified(self, value: Value) -> bool:
        type_ = self._editor.type_of(value)
        return isinstance(type_, TensorType) and type_.element in (ElementType.FLOAT, ElementType.DOUBLE)

    def _form(self, operator: Operator, inputs: tuple[Value, ...]) -> Value | None:
        match operator:
            case Scale():
                return self._scaled(*inputs)
            case Broadcast():
                return self._repeated(operator, *inputs)
            case SumTo():
                return self._summed(operator, *inputs)
            case Add():
                return self._added(*inputs)
            case Multiply():
                return self._multiplied(*inputs)
            case _:
                return None

    def _scaled(self, value: Value, factor: Value) -> Value | None:
        number, node = repeated_number(self._editor, factor), self._node(value)
        if number == 1:
            return value
        match node.operator:
            case Scale() if number is not None:
                inner = repeated_number(self._editor, node.inputs[1])
                if inner is not None and _is_normal(inner * number):
                    product = self._nodes.number(inner * number, self._element(factor))
                    return self._times(node.inputs[0], product)
            case Broadcast() if number is not None:
                return self._nodes.apply(node.operator, self._times(node.inputs[0], factor))
            case Multiply() if number is not None:
                for first, second in (node.inputs, node.inputs[::-1]):
                    if self._is_repeated(second):
                        return self._nodes.apply(Multiply(), first, self._times(second, factor))
            case _:
                pass
        return None

    def _times(self, value: Value, factor: Value) -> Value:
        return self._nodes.apply(Scale(), value, factor)

    def _repeated(self, operator: Broadcast, value: Value) -> Value | None:
        if self._shape(value) == operator.shape:
            return value
        node = self._node(value)
        return self._nodes.apply(operator, *node.inputs) if isinstance(node.operator, Broadcast) else None

    def _summed(self, operator: SumTo, value: Value) -> Value | None:
        if self._shape(value) == operator.shape:
            return value
        if self._sums_to_zero(operator, value, _MOST_NESTED):
            return self._nodes.apply(Broadcast(operator.shape), self._nodes.number(0, self._element(value)))
        node = self._node(value)
        match node.operator:
            case Scale():
                return self._times(self._nodes.apply(operator, node.inputs[0]), node.inputs[1])
            case Multiply():
                taken = self._factor_apart(operator, node)
                if taken is not None:
                    rest, factor = taken
                    return self._nodes.apply(Multiply(), self._nodes.apply(operator, rest), factor)
            case Add():
                for first, second in (node.inputs, node.inputs[::-1]):
                    if self._sums_to_zero(operator, second, _MOST_NESTED):
                        return self._nodes.apply(operator, first)
            case _:
                pass
        return None

    def _sums_to_zero(self, operator: SumTo, value: Value, factors: int) -> bool:
        """Whether these are elements without their mean over the axes of the sum, times what is the same
        along them, of which that many ``factors`` are looked through."""
        node = self._node(value)
        match node.operator:
            case Scale() if factors:
                return self._sums_to_zero(operator, node.inputs[0], factors - 1)
            case Multiply() if factors:
                taken = self._factor_apart(operator, node)
                return taken is not None and self._sums_to_zero(operator, taken[0], factors - 1)
            case Subtract():
                mean = self._repeated_of(node.inputs[1], operator)
                return mean is not None and self._is_mean_of(node.inputs[0], mean)
            case _:
                return False

    def _factor_apart(self, operator: SumTo, product: Node) -> tuple[Value, Value] | None:
        """The factors of a product of which the second is the same along the axes of the sum, with the shape
        of the sum."""
        for first, second in (product.inputs, product.inputs[::-1]):
            factor = self._repeated_of(second, operator)
            if factor is not None:
                return first, factor
        return None

    def _repeated_of(self, value: Value, operator: SumTo) -> Value | None:
        """What is repeated along the axes of the sum."""
        node = self._node(value)
        if isinstance(node.operator, Broadcast) and self._shape(node.inputs[0]) == operator.shape:
            return node.inputs[0]
        return None

    def _is_mean_of(self, value: Value, mean: Value) -> bool:
        while mean != value:
            node = self._node(mean)
            if not isinstance(node.operator, ReduceMean):
                return False
            (mean,) = node.inputs
        return True

    def _added(self, first: Value, second: Value) -> Value | None:
        if repeated_number(self._editor, second) == 0:
            return first
        if repeated_number(self._editor, first) == 0:
            return second
        if first == second:
            return self._twice(first)
        for whole, term in ((first, second), (second, first)):
            node = self._node(whole)
            if isinstance(node.operator, Add) and term in node.inputs:
                rest = node.inputs[1 - node.inputs.index(term)]
                return self._nodes.apply(Add(), rest, self._twice(term))
        return self._beside_product(first, second)

    def _beside_product(self, whole: Value, term: Value) -> Value | None:
        """A repeated term, such as one number for each channel, is added to a product by such a factor first:
        both are one pass."""
        node = self._node(whole)
        if not isinstance(node.operator, Add) or not self._is_repeated(term):
            return None
        for product, other in (node.inputs, node.inputs[::-1]):
            factors = self._node(product)
            if isinstance(factors.operator, Multiply) and any(map(self._is_repeated, factors.inputs)):
                if self._is_repeated(other):
                    return None
                return self._nodes.apply(Add(), self._nodes.apply(Add(), product, term), other)
        return None

    def _multiplied(self, first: Value, second: Value) -> Value | None:
        for value, other in ((first, second), (second, first)):
            number = repeated_number(self._editor, value)
            if number is not None and number in (0, 1):
                return other if number else value
        return None

    def _twice(self, value: Value) -> Value:
        return self._times(value, self._nodes.number(2, self._element(value)))

    def _is_repeated(self, value: Value) -> bool:
        return isinstance(self._node(value).operator, Broadcast)

    def _node(self, value: Value) -> Node:
        return self._editor[value.node]

    def _tensor(self, value: Value) -> TensorType:
        type_ = self._editor.type_of(value)
        assert isinstance(type_, TensorType), "gradients are of tensors"
        return type_

    def _shape(self, value: Value) -> tuple[object, ...]:
        return self._tensor(value).shape

    def _element(self, value: Value) -> ElementType:
        return self._tensor(value).element


def _is_normal(number: Fraction | int) -> bool:
    return _LEAST <= abs(number) <= _MOST


__all__ = ["EQUATIONS", "Simplifier"]
