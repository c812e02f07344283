"""Random well-typed graphs over every registered operator, with dynamic dimensions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from superopt.errors import IllTypedError, UnsupportedError
from superopt.ir import (
    Dimension,
    ElementType,
    Graph,
    GraphEditor,
    Input,
    NodeId,
    TensorType,
    Value,
    Weight,
    symbol,
)
from superopt.onnx_io import build_model
from superopt.ops import OPERATORS, Operator, attribute_names, operator_from_attributes
from superopt.optimizer.cost.runtime.session import Array
from tests.ops.examples import VALUES

_INPUTS: tuple[tuple[int, ...], ...] = ((2, 4, 6, 6), (2, 4), (4, 4), (2, 6, 4), (4,), (2, 3, 4, 4))
_WEIGHTS: tuple[tuple[int, ...], ...] = (
    *((), (1,), (4,), (6,), (4, 4), (6, 4), (4, 6), (2, 4), (2, 6, 4), (2, 4, 6, 6)),
    *((4, 4, 3, 3), (4, 4, 1, 1), (4, 2, 1, 1), (4, 1, 3, 3), (8, 4, 1, 1), (4, 8, 3, 3)),
)
_HALVES = ("split0", "split1")
_LARGEST = 20_000
_TRIES = 400
_RECENT = 7
_OPSETS = (11, 13, 17, 20, 23)


def random_model(seed: int) -> bytes | None:
    """An ONNX model of up to 16 operators; None where the drawn operator set has no form of one of them."""
    dice = random.Random(seed)
    graph = random_graph(dice)
    try:
        return build_model(graph, _weights(graph, seed), dice.choice(_OPSETS))
    except UnsupportedError:
        return None


def random_graph(dice: random.Random) -> Graph:
    """A graph in which most tensors are used, by one or several operators."""
    editor = Graph.empty().edit()
    batch: Dimension = symbol("n") if dice.random() < 0.5 else 2
    pool = [_input(editor, number, batch, dice) for number in range(dice.randint(1, 3))]
    read: set[Value] = set()
    numbers = itertools.count()
    size = dice.randint(2, 16)
    for _ in range(_TRIES):
        added = _grown(editor, pool, numbers, dice)
        if added is None:
            continue
        node, operands = added
        read.update(operands)
        pool.extend(Value(node, port) for port in range(len(editor[node].types)))
        size -= 1
        if not size:
            break
    last = [value for value in pool if value not in read] or pool[-1:]
    editor.set_outputs(dict.fromkeys([*last, dice.choice(pool)]))
    return editor.build()


def _input(editor: GraphEditor, number: int, batch: Dimension, dice: random.Random) -> Value:
    first, *others = dice.choice(_INPUTS)
    type_ = TensorType(ElementType.FLOAT, (batch if first == 2 else first, *others))
    return editor.add(Input(f"x{number}", type_)).value


def _grown(
    editor: GraphEditor, pool: Sequence[Value], numbers: Iterator[int], dice: random.Random
) -> tuple[NodeId, Sequence[Value]] | None:
    """One more operator on recent tensors, some tensor of before, or a new weight; None where ill-typed."""
    operator = _operator(dice)
    operands: list[Value | TensorType] = []
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 2, 3, 3))):
        draw = dice.random()
        if draw < 0.35 and operands:
            operands.append(TensorType(ElementType.FLOAT, dice.choice(_WEIGHTS)))
        else:
            operands.append(dice.choice(pool[-_RECENT:] if draw < 0.85 else pool))
    types = [editor.type_of(item) if isinstance(item, Value) else item for item in operands]
    try:
        results = operator.infer(*types)
    except IllTypedError:
        return None
    if any(_elements(type_) > _LARGEST or type(type_) is not TensorType for type_ in results):
        return None
    values = [
        item if isinstance(item, Value) else editor.add(Weight(f"w{next(numbers)}", item)).value
        for item in operands
    ]
    return editor.add(operator, values).id, values


def _operator(dice: random.Random) -> Operator:
    name = dice.choice([name for name in sorted(OPERATORS) if name not in _HALVES])
    attributes = {attribute: dice.choice(VALUES[attribute]) for attribute in attribute_names(name)}
    return operator_from_attributes(name, attributes)


def _elements(type_: TensorType) -> int:
    return math.prod(size if isinstance(size, int) else 3 for size in type_.shape)


def _weights(graph: Graph, seed: int) -> Mapping[str, Array]:
    random_ = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for node in graph:
        if isinstance(node.operator, Weight):
            shape = tuple(size for size in node.operator.type.shape if isinstance(size, int))
            found[node.operator.label] = random_.normal(0.3, 0.5, shape).astype(np.float32)
    return found
