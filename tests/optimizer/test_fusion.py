"""Which nodes are priced together, as text."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import onnx
import pytest

from superopt.ir import Graph, Value
from superopt.ir.graph import Weight
from superopt.ir.types import ElementType, TensorType
from superopt.ops.elementwise.activation import Erf, HardSigmoid, Relu, Sigmoid, Tanh
from superopt.ops.elementwise.affine import Affine, BiasAdd, ChannelScale
from superopt.ops.elementwise.arithmetic import Add, Divide, Multiply, Power, Scale, Sqrt, Subtract
from superopt.ops.filled import Ones
from superopt.ops.images.convolution import Conv
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.normalization import LayerNormalization
from superopt.ops.reduction import ReduceMean
from superopt.ops.shape import Broadcast
from superopt.optimizer.cost import Sizes
from superopt.optimizer.cost.kernels.extraction import kernel_of
from superopt.optimizer.cost.measuring.kernel_model import kernel_model
from superopt.optimizer.fusion import partition
from tests.optimizer.graphs import Builder


def conv(b: Builder, x: Value) -> Value:
    return b.add(Conv(padding="same"), x, b.weight(4, 4, 3, 3))


def convolution_with_everything(b: Builder) -> Value:
    x = b.input("x", 1, 4, 6, 6)
    y = b.add(BiasAdd(1), conv(b, x), b.weight(4))
    y = b.add(Affine(1), y, b.weight(4), b.weight(4))
    return b.add(Relu(), b.add(Add(), y, x))


def two_convolutions_summed(b: Builder) -> Value:
    x = b.input("x", 1, 4, 6, 6)
    return b.add(Relu(), b.add(Add(), conv(b, x), conv(b, x)))


def convolution_read_twice(b: Builder) -> Value:
    y = conv(b, b.input("x", 1, 4, 6, 6))
    return b.add(Add(), b.add(Relu(), y), y)


def computed_kernel(b: Builder) -> Value:
    x = b.input("x", 1, 4, 6, 6)
    y = b.add(Conv(), x, b.input("k", 4, 4, 1, 1))
    return b.add(Add(), y, x)


def bias_on_another_axis(b: Builder) -> Value:
    return b.add(BiasAdd(2), conv(b, b.input("x", 1, 4, 6, 6)), b.weight(6))


def activation_ends_the_chain(b: Builder) -> Value:
    y = b.add(Relu(), conv(b, b.input("x", 1, 4, 6, 6)))
    return b.add(BiasAdd(1), y, b.weight(4))


def dense_layer(b: Builder) -> Value:
    y = b.add(Matmul(), b.input("x", 3, 8), b.weight(8, 5))
    return b.add(Relu(), b.add(BiasAdd(-1), y, b.weight(5)))


def transposed_product(b: Builder) -> Value:
    return b.add(Matmul(), b.input("x", 2, 3, 8), b.add(Transpose(), b.input("y", 2, 5, 8)))


def product_with_row(b: Builder) -> Value:
    return b.add(Matmul(), b.input("x", 3, 8), b.add(Transpose(), b.input("y", 1, 8)))


def permuted_product(b: Builder) -> Value:
    return b.add(Matmul(), b.input("x", 2, 3, 8), b.add(Transpose((2, 1, 0)), b.input("y", 5, 8, 2)))


def gelu_in_pieces(b: Builder) -> Value:
    x = b.add(BiasAdd(-1), b.add(Matmul(), b.input("x", 3, 8), b.weight(8, 5)), b.weight(5))
    y = b.add(Erf(), b.add(Scale(), x, b.weight()))
    y = b.add(Add(), y, b.add(Broadcast((3, 5)), b.weight()))
    return b.add(Scale(), b.add(Multiply(), x, y), b.weight())


def gelu_by_tanh(b: Builder) -> Value:
    x = b.input("x", 3, 8)
    y = b.add(Add(), x, b.add(Scale(), b.add(Power(3), x), b.weight()))
    y = b.add(Add(), b.add(Tanh(), b.add(Scale(), y, b.weight())), b.add(Ones((3, 8))))
    return b.add(Multiply(), b.add(Scale(), x, b.weight()), y)


def normalisation_in_pieces(b: Builder) -> Value:
    x = b.input("x", 3, 8)
    y = b.add(Subtract(), x, b.add(Broadcast((3, 8)), b.add(ReduceMean(-1), x)))
    variance = b.add(ReduceMean(-1), b.add(Power(2), y))
    root = b.add(Sqrt(), b.add(Add(), variance, b.add(Broadcast((3, 1)), b.weight())))
    y = b.add(Divide(), y, b.add(Broadcast((3, 8)), root))
    return b.add(
        Matmul(), b.add(BiasAdd(-1), b.add(ChannelScale(-1), y, b.weight(8)), b.weight(8)), b.weight(8, 8)
    )


def residual_normalised(b: Builder) -> Value:
    x = b.add(Add(), b.input("x", 2, 3, 8), b.input("y", 2, 3, 8))
    return b.add(LayerNormalization(), x, b.weight(8), b.weight(8))


def residual_read_twice(b: Builder) -> Value:
    x = b.add(Add(), b.input("x", 2, 3, 8), b.input("y", 2, 3, 8))
    return b.add(Multiply(), b.add(LayerNormalization(), x, b.weight(8), b.weight(8)), x)


def products_summed(b: Builder) -> Value:
    x = b.add(Matmul(), b.input("x", 3, 8), b.weight(8, 5))
    return b.add(Tanh(), b.add(Add(), x, b.add(Matmul(), b.input("y", 3, 8), b.weight(8, 5))))


def batched_products_summed(b: Builder) -> Value:
    x = b.add(Matmul(), b.input("x", 2, 3, 8), b.weight(2, 8, 5))
    return b.add(Add(), x, b.input("y", 2, 3, 5))


def silu(b: Builder) -> Value:
    x = b.add(Add(), b.input("x", 3, 8), b.input("y", 3, 8))
    return b.add(Multiply(), x, b.add(Sigmoid(), x))


def plain_sigmoid(b: Builder) -> Value:
    return b.add(Multiply(), b.add(Sigmoid(), b.input("x", 3, 8)), b.input("y", 3, 8))


def folded_weights(b: Builder) -> Value:
    w = b.add(Multiply(), b.weight(8, 8), b.weight(8, 8))
    return b.add(Matmul(), b.input("x", 3, 8), b.add(Transpose(), w))


def broadcast_vanishes(b: Builder) -> Value:
    return b.add(Add(), b.input("x", 3, 8), b.add(Broadcast((3, 8)), b.input("y", 8)))


def six(b: Builder) -> Value:
    return b.editor.add(Weight("six", TensorType(ElementType.FLOAT, ()), 6)).value


def clipped(b: Builder, x: Value, alpha: Fraction = Fraction(1, 6), beta: int = 0) -> Value:
    """Between 0 and 6, if these are the numbers."""
    return b.add(Scale(), b.add(HardSigmoid(alpha, beta), x), six(b))


def convolution_clipped(b: Builder) -> Value:
    return b.add(Multiply(), clipped(b, conv(b, b.input("x", 1, 4, 6, 6))), b.input("y", 1, 4, 6, 6))


def sum_clipped(b: Builder) -> Value:
    return clipped(b, b.add(Add(), b.input("x", 3, 8), b.input("y", 3, 8)))


def clipped_otherwise(b: Builder) -> Value:
    x = conv(b, b.input("x", 1, 4, 6, 6))
    return clipped(b, clipped(b, x, Fraction(1, 5)), beta=1)


def clipped_and_read_in_between(b: Builder) -> Value:
    gate = b.add(HardSigmoid(Fraction(1, 6), 0), conv(b, b.input("x", 1, 4, 6, 6)))
    return b.add(Add(), b.add(Scale(), gate, six(b)), gate)


@pytest.mark.parametrize(
    ("make", "groups"),
    [
        (convolution_clipped, "conv hard_sigmoid scale | mul"),
        (sum_clipped, "add | hard_sigmoid scale"),
        (clipped_otherwise, "conv hard_sigmoid | scale | hard_sigmoid | scale"),
        (clipped_and_read_in_between, "conv hard_sigmoid | scale | add"),
        (convolution_with_everything, "conv bias_add affine add relu"),
        (two_convolutions_summed, "conv | conv add relu"),
        (convolution_read_twice, "conv | relu | add"),
        (computed_kernel, "conv | add"),
        (bias_on_another_axis, "conv | bias_add"),
        (activation_ends_the_chain, "conv relu | bias_add"),
        (dense_layer, "matmul bias_add relu"),
        (transposed_product, "transpose matmul"),
        (product_with_row, "transpose | matmul"),
        (permuted_product, "transpose | matmul"),
        (gelu_in_pieces, "matmul bias_add | scale erf add mul scale"),
        (gelu_by_tanh, "power scale add scale tanh add scale mul"),
        (
            normalisation_in_pieces,
            "reduce_mean sub power reduce_mean add sqrt div channel_scale bias_add | matmul",
        ),
        (residual_normalised, "add layer_normalization"),
        (residual_read_twice, "add | layer_normalization | mul"),
        (products_summed, "matmul add tanh | matmul"),
        (batched_products_summed, "matmul | add"),
        (silu, "add sigmoid mul"),
        (plain_sigmoid, "sigmoid | mul"),
        (folded_weights, "matmul"),
        (broadcast_vanishes, "add"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_groups(make: Callable[[Builder], Value], groups: str) -> None:
    b = Builder()
    assert described(b.graph(make(b))) == groups


def described(graph: Graph) -> str:
    found = {id(group): group for group in partition(graph, graph.weight_only).values()}
    texts = [
        (group.members, " ".join(graph.nodes[member].operator.name for member in group.members))
        for group in found.values()
    ]
    return " | ".join(text for _, text in sorted(texts))


def test_a_clip_is_one_step_of_a_kernel_and_one_node() -> None:
    b = Builder()
    graph = b.graph(convolution_clipped(b))
    group = next(iter(partition(graph, graph.weight_only).values()))
    kernel = kernel_of(graph, group, graph.weight_only, frozenset(), Sizes(graph, {}))
    assert [step.operator.name for step in kernel.steps] == ["conv", "clip"]
    assert [node.op_type for node in onnx.load_from_string(kernel_model(kernel)).graph.node] == [
        "Conv",
        "Clip",
    ]


def test_members_know_one_group() -> None:
    b = Builder()
    graph = b.graph(convolution_with_everything(b))
    owner = partition(graph, graph.weight_only)
    assert all(node in group.members for node, group in owner.items())
