"""Small graphs for the optimizer's tests, built without ONNX."""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir import ElementType, Graph, GraphEditor, Input, TensorType, Value, Weight
from superopt.ops.base import Operator
from superopt.ops.elementwise.activation import Relu
from superopt.ops.elementwise.affine import Affine, BiasAdd, ChannelScale
from superopt.ops.elementwise.arithmetic import Add, Multiply
from superopt.ops.images.convolution import Conv
from superopt.ops.matrix import Matmul
from superopt.ops.shape import Concat


def f32(*shape: int) -> TensorType:
    """A float tensor type."""
    return TensorType(ElementType.FLOAT, shape)


class Builder:
    """Adds nodes by value and counts weights."""

    def __init__(self) -> None:
        self.editor: GraphEditor = Graph.empty().edit()
        self._weights = 0

    def input(self, label: str, *shape: int) -> Value:
        return self.editor.add(Input(label, f32(*shape))).value

    def weight(self, *shape: int) -> Value:
        self._weights += 1
        return self.editor.add(Weight(f"w{self._weights}", f32(*shape))).value

    def add(self, operator: Operator, *inputs: Value) -> Value:
        return self.editor.add(operator, inputs).value

    def graph(self, *outputs: Value) -> Graph:
        self.editor.set_outputs(outputs)
        return self.editor.build()


def dense_blocks(blocks: int, channels: int = 16, size: int = 8) -> Graph:
    """Pre-activation blocks with the affine steps that exporters leave in, as DenseNet has them."""
    b = Builder()
    x = b.input("x", 1, channels, size, size)
    for _ in range(blocks):
        y = b.add(Affine(1), x, b.weight(channels), b.weight(channels))
        y = b.add(ChannelScale(1), y, b.weight(channels))
        y = b.add(BiasAdd(1), y, b.weight(channels))
        y = b.add(Relu(), y)
        y = b.add(Conv(padding="same"), y, b.weight(channels, channels, 3, 3))
        x = b.add(Add(), x, y)
    return b.graph(x)


def shared_products(pairs: int, rows: int = 4, size: int = 32) -> Graph:
    """Products of several inputs with one weight, gated and joined."""
    b = Builder()
    w = b.weight(size, size)
    outputs: list[Value] = []
    for pair in range(pairs):
        left = b.add(Matmul(), b.input(f"x{pair}", rows, size), w)
        right = b.add(Matmul(), b.input(f"y{pair}", rows, size), w)
        outputs.append(b.add(Multiply(), left, right))
    return b.graph(b.add(Concat(0), *outputs) if len(outputs) > 1 else outputs[0])


def chain(operators: Sequence[Operator], *shape: int) -> Graph:
    """Unary operators one after another."""
    b = Builder()
    x = b.input("x", *shape)
    for operator in operators:
        x = b.add(operator, x)
    return b.graph(x)


def skewed_products() -> Graph:
    """A chain of products whose order is worth a factor."""
    b = Builder()
    x = b.add(Matmul(), b.input("x", 256, 256), b.input("y", 256, 256))
    return b.graph(b.add(Relu(), b.add(Matmul(), x, b.weight(256, 4))))
