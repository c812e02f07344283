"""Random graphs of small tensors, with much sharing, for rules to be applied to."""

from __future__ import annotations

import random
from collections.abc import Callable

from superopt.errors import IllTypedError
from superopt.ir import Graph, GraphEditor, GraphOperator, Input, TensorType, Value, Weight
from superopt.ops.elementwise.activation import Relu, Sigmoid
from superopt.ops.elementwise.affine import Affine, BiasAdd, ChannelScale
from superopt.ops.elementwise.arithmetic import Add, Multiply, Scale, Subtract
from superopt.ops.images.convolution import Conv, Enlarge
from superopt.ops.images.pooling import AveragePool, MaxPool
from superopt.ops.images.windows import Padding
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.shape import Concat, Split
from tests.rewriting.graphs import f32

Make = Callable[[], GraphOperator]


def random_matrices(chance: random.Random, operators: int) -> Graph:
    """Products, sums, transpositions, concats and splits of matrices whose sides are 2 to 4."""
    editor = Graph.empty().edit()
    sides = (2, 3, 4)
    values = [
        editor.add(Input(f"x{i}", f32(chance.choice(sides), chance.choice(sides)))).value for i in range(4)
    ]
    values += [
        editor.add(Weight(f"w{i}", f32(chance.choice(sides), chance.choice(sides)))).value for i in range(3)
    ]
    values.append(editor.add(Input("s", f32())).value)
    pieces = ((1, 1), (1, 2), (2, 2), (1, 1, 1), (1, 2, 1))
    makers: list[tuple[int, Make]] = [
        (2, Matmul),
        (2, Matmul),
        (2, Add),
        (2, Multiply),
        (2, Subtract),
        (2, Scale),
        (1, Relu),
        (1, Transpose),
        (1, lambda: Transpose((1, 0))),
        (1, Sigmoid),
        (2, lambda: Concat(chance.choice((0, 1, -1, -2)))),
        (3, lambda: Concat(chance.choice((0, 1)))),
        (
            1,
            lambda: Split(chance.choice((0, 1, -1)), chance.choice(pieces)),
        ),
    ]
    _grow(editor, values, makers, operators, chance, largest=7)
    return _returning(editor, values, chance)


def random_images(chance: random.Random, operators: int) -> Graph:
    """Convolutions, affine steps, pooling, sums, concats and splits of images of 2 to 4 channels."""
    editor = Graph.empty().edit()
    values = [editor.add(Input(f"x{i}", f32(1, chance.choice((2, 3, 4)), 4, 4))).value for i in range(3)]
    for i in range(8):
        kernel = chance.choice((1, 1, 3))
        shape = (chance.choice((2, 3, 4)), chance.choice((2, 3, 4)), kernel, kernel)
        values.append(editor.add(Weight(f"w{i}", f32(*shape))).value)
    values += [editor.add(Weight(f"v{i}", f32(2 + i % 3))).value for i in range(6)]
    pieces = ((1, 1), (1, 2), (2, 2), (1, 1, 2))
    paddings: tuple[Padding, ...] = ("same", "valid", (1, 1, 1, 1), (0, 0, 0, 0))
    makers: list[tuple[int, Make]] = [
        *[(2, lambda: Conv(padding=chance.choice(paddings)))] * 4,
        (2, lambda: Conv(padding="same", activation="relu")),
        (2, Add),
        (1, Relu),
        (3, lambda: Affine(1)),
        (2, lambda: ChannelScale(chance.choice((0, 1, -3)))),
        (2, lambda: BiasAdd(1)),
        (1, lambda: AveragePool((3, 3), padding="same", includes_padding=chance.choice((0, 1)))),
        (1, lambda: MaxPool((3, 3), padding="same")),
        (1, lambda: Enlarge((3, 3))),
        (2, lambda: Concat(chance.choice((0, 1, -3)))),
        (3, lambda: Concat(1)),
        (1, lambda: Split(chance.choice((1, -3)), chance.choice(pieces))),
    ]
    _grow(editor, values, makers, operators, chance, largest=8)
    return _returning(editor, values, chance)


def _grow(
    editor: GraphEditor,
    values: list[Value],
    makers: list[tuple[int, Make]],
    operators: int,
    chance: random.Random,
    largest: int,
) -> None:
    added = tries = 0
    while added < operators and tries < 200 * operators:
        tries += 1
        arity, make = chance.choice(makers)
        recent = values[-8:] if chance.random() < 0.6 else values
        operands = [chance.choice(recent if index == 0 else values) for index in range(arity)]
        operator = make()
        try:
            types = operator.infer(*(editor.type_of(value) for value in operands))
        except IllTypedError:
            continue
        if any(
            isinstance(t, TensorType) and any(not isinstance(d, int) or d > largest for d in t.shape)
            for t in types
        ):
            continue
        values.extend(editor.add(operator, operands).values)
        added += 1


def _returning(editor: GraphEditor, values: list[Value], chance: random.Random) -> Graph:
    """The graph that returns all values that nothing reads, and some others."""
    graph = editor.build()
    ends = [value for value in values if not graph.users(value.node)]
    editor.set_outputs((*ends, *chance.sample(values, 2)))
    return editor.build()
