"""Which nodes are priced together, as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optimizer.fusion import partition
from superopt.ir import Graph, Value
from superopt.ops.activation import Erf, Relu, Sigmoid
from superopt.ops.affine import Affine, BiasAdd
from superopt.ops.convolution import Conv
from superopt.ops.elementwise import Add, Multiply, Scale
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.shape import Broadcast
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


def permuted_product(b: Builder) -> Value:
    return b.add(Matmul(), b.input("x", 2, 3, 8), b.add(Transpose((2, 1, 0)), b.input("y", 5, 8, 2)))


def gelu_in_pieces(b: Builder) -> Value:
    x = b.add(BiasAdd(-1), b.add(Matmul(), b.input("x", 3, 8), b.weight(8, 5)), b.weight(5))
    y = b.add(Erf(), b.add(Scale(), x, b.weight()))
    y = b.add(Add(), y, b.add(Broadcast((3, 5)), b.weight()))
    return b.add(Scale(), b.add(Multiply(), x, y), b.weight())


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


@pytest.mark.parametrize(
    ("make", "groups"),
    [
        (convolution_with_everything, "conv bias_add affine add relu"),
        (two_convolutions_summed, "conv | conv add relu"),
        (convolution_read_twice, "conv | relu | add"),
        (computed_kernel, "conv | add"),
        (bias_on_another_axis, "conv | bias_add"),
        (activation_ends_the_chain, "conv relu | bias_add"),
        (dense_layer, "matmul bias_add relu"),
        (transposed_product, "transpose matmul"),
        (permuted_product, "transpose | matmul"),
        (gelu_in_pieces, "matmul bias_add | scale erf add mul scale"),
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


def test_members_know_one_group() -> None:
    b = Builder()
    graph = b.graph(convolution_with_everything(b))
    owner = partition(graph, graph.weight_only)
    assert all(node in group.members for node, group in owner.items())
